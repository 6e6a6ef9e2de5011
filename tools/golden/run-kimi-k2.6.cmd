# exit 0
specstep run kimi-k2.6/mtp3 --set workload.batch=16
