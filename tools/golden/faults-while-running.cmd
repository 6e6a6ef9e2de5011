# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
printf 'base: %s\n' "$SPECSTEP_CONFIGS/runs/tiny.yaml" > run.yaml
printf 'comm: [{up_to_kib: 1, backend: nccl}, {backend: nvls}]\n' >> run.yaml
refused specstep run run.yaml
refused specstep run run.yaml --executor host
printf 'name: s\nruns: [{name: a, run: ./run.yaml}]\n' > study.yaml
refused specstep run study.yaml
refused specstep run tiny --executor host --set comm.embedding_allreduce=false
