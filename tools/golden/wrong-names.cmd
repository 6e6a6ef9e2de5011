# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
mkdir folder
refused specstep run folder
refused specstep check folder
refused specstep fabric folder
refused specstep run seed/eagle3 --set machine=/
refused specstep run seed/eagle3 --set machine=./nowhere.yaml
printf 'base: /\n' > run.yaml
refused specstep run run.yaml
specstep run seed/eagle3 --json /proc/version 2>&1 | grep -c 'No such file' || true
refused specstep plan seed-study
refused specstep solve seed-study
printf 'name: s\nruns: [{name: a, run: seed-study}]\n' > study.yaml
refused specstep run study.yaml
printf 'name: s\nruns: [{name: a, run: tiny, hypotheses: [{name: h, claim: c, run: seed-study}]}]\n' > study.yaml
refused specstep run study.yaml
refused specstep solve kimi-k2.5 2> err; cut -c1-60 err
refused specstep run tiy 2> err; cut -c1-50 err
refused specstep run seed/eagle3 --set 'speculation.acceptance.survival[99999999999999999999]=0.2'
refused specstep run tiny --set 'name="a\e[31mb"'
refused specstep run tiny --set 'name="a\nb"'
refused specstep check tiny --set $'no\e[31mte=1'
SPECSTEP_CONFIGS=$PWD/folder refused specstep run tiny
SPECSTEP_CONFIGS=$PWD/folder refused specstep fabric tiny
refused specstep list --schema ''
refused specstep run tiny --executor ''
refused specstep fabric ''
refused specstep list --modles
refused specstep run seed/eagle3 --set speculation.acceptance.length=2 --set speculation.acceptance.rate=0.5
refused specstep run seed/baseline-graph128 --set engine.preset=vllm
refused specstep run seed/eagle3 --set parallel.context=2
refused specstep run seed/eagle3 --set comm=[]
refused specstep run seed/eagle3 --set 'engine.graph.sizes=[]'
refused specstep run seed/eagle3 --set 'speculation.acceptance={survival: []}'
refused specstep run seed/eagle3 --set 'comm={backend: island, own: {islands: [[0, 1], [2, 3]]}}'
refused specstep run seed/eagle3 --set 'comm={backend: island, own: {islands: [[0, 1, 2, 3], [4, 5, 6, 6]]}}'
refused specstep run seed/eagle3 --set engine.memory.fraction=1
refused specstep run seed/eagle3 --set engine.memory.chunk_tokens=10000000
refused specstep run seed/eagle3 --set workload.prompt_tokens=10000000
refused specstep run seed/baseline-graph128 --set machine.gpu.memory_gib=8 --set machine.gpu.usable_gib=8
specstep run seed/eagle3 --set workload.batch=100000 | grep 'note: memory'
specstep run seed/eagle3 --set machine.fabric=dual_root_direct | sed -n 2p
