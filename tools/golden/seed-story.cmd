# exit 0
# The claims of docs/seed-study.md: the one-stage kernel loses and gains; late ranks and a cliff; what would have worked.
told() { echo "$*: $(specstep run "$@" | awk '$1 == "benchmark.tok_s" || $1 == "speculative.speedup" {printf "%s %s  ", $2, $3}')"; }
told seed/baseline-graph128
told seed/custom-1stage
told seed/custom-1stage --set machine=8x-rtx-pro-6000
told seed/eagle3
told seed/eagle3-hypothesis
told seed/eagle3 --set machine.collectives=nccl-8x-rtx-6000d --set machine.collectives.above_kib=16
told seed/eagle3 --set machine=8x-rtx-pro-6000
told seed/eagle3 --set machine=8x-rtx-pro-6000 --set 'comm=[{up_to_kib: 56, backend: pull1}, {backend: nccl}]'
