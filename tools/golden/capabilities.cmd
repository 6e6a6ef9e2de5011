# exit 0
specstep list --capabilities
specstep list --capabilities --json - | grep -c '"source"'
specstep run seed/baseline-graph128 --set comm.backend=push1 --set comm.fusion=rmsnorm | grep ^note
specstep run seed/baseline-graph128 --set comm.backend=engine-default --set comm.engine=vllm | grep ^note
specstep run seed/baseline-graph128 --set comm.backend=nvls || echo "exit $?"
