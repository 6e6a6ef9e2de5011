# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
refused specstep
refused specstep rnu
refused specstep run tiny --set workload.batch
refused specstep run tiny --set workload.bach=2
refused specstep run tiny --pass decode
refused specstep plan tiny --pass sideways
refused specstep plan tiny --csv -
refused specstep run tiny --json - --csv -
