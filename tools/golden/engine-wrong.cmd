# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
refused specstep run seed/eagle3 --set engine.memory.fraction=2
refused specstep run seed/eagle3 --set engine.memory.fraction=automatic
refused specstep run seed/eagle3 --set engine.version=latest
refused specstep run seed/eagle3 --set engine.graph.max_tokens=128
refused specstep run seed/eagle3 --set engine.graph.mode=piecewise
refused specstep run seed/eagle3 --set 'engine.graph.sizes=[1, 4, 2]'
refused specstep run seed/eagle3 --set engine=sglnag
refused specstep run llama-3.3-70b-8x-h200 --set machine=8x-h100 --set engine=sglang-0.4.7
