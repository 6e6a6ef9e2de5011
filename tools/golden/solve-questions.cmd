# exit 0
specstep solve seed/eagle3 --set 'speculation.acceptance={rate: 0.15}' --batches 1,8 --contexts 8192 --draft-lengths 1:3 | sed -n 3,14p
specstep solve seed/baseline-graph128 --batches 1,8 --contexts 8192 | sed -n '1,10p;/^note/p'
specstep solve llama-3.3-70b-2x-h200 --batches 4 --contexts 8192 --draft-lengths 2 --csv - | sed -n 1,7p
specstep solve seed/eagle3 --json - | grep -o '"schema": "[^"]*"'
specstep run seed/eagle3 --set comm.what_if.allreduce_us=100 | grep -E 'isolated|what_if'
refused() { "$@" && exit 1 || echo "exit $?"; }
refused specstep solve seed-study
refused specstep solve seed/eagle3 --batches 0
refused specstep solve seed/eagle3 --draft-lengths 4:1
refused specstep solve seed/eagle3 --set parallel.tensor=16
refused specstep run tiny --executor host --set comm.what_if.allreduce_us=1
