# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
refused specstep
refused specstep rnu
refused specstep run tiny --set workload.batch
refused specstep run tiny --set workload.bach=2
refused specstep run tiny --pass decode
refused specstep plan tiny --pass sideways
refused specstep check tiny --csv -
refused specstep run tiny --json - --csv -
refused specstep run tiny --json a.json --csv a.json
refused specstep run tiny --json ""
refused specstep run tiny --seed -1
refused specstep run kimi-k2.5-8x-h200 --set parallel.tensor=1
refused specstep run seed/eagle3 --set comm.backend=nvls
refused specstep run kimi-k2.5-8x-h200 --set machine.count=16
refused specstep run llama-3.3-70b-8x-h200 --set parallel.expert=8
refused specstep run seed/baseline-graph128 --set comm.backend=engine-default --set comm.engine=vllm-ungated
(specstep run nosuch 2>&-) || echo "exit $?"
(specstep --help > /dev/full) || echo "exit $?"
