# exit 0
digest() { specstep run tiny --executor host --set speculation.method=none --set workload.output_tokens=4 --set measure.runs=1 --set measure.warmup=0 --set "comm=$1" | grep 'generated text'; }
test "$(digest pull1)" = "$(digest '{backend: island, own: {islands: [[0], [1]]}}')"
for islands in '[[0, 1, 2, 3], [4, 5, 6, 7]]' '[[0, 4], [1, 5], [2, 6], [3, 7]]'; do
  specstep run seed/eagle3 --set "comm={backend: island, own: {islands: $islands}}" | grep -E 'speculative.tok_s |isolated'
done
specstep run seed/eagle3 --set 'comm={backend: pull1, own: {islands: [[0, 1, 2, 3], [4, 5, 6, 7]], blocks: 4}}' | grep 'note: comm.own'
specstep comm seed/eagle3 --bytes 14336 --backends island --set 'comm={backend: island, own: {islands: [[0, 4], [1, 5], [2, 6], [3, 7]]}}' | grep own
