# exit 0
specstep run seed/baseline-graph128 --set comm.backend=engine-default | grep note
specstep run kimi-k2.5-8x-h200 --set comm.backend=auto | grep note
