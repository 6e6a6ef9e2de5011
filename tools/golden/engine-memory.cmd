# exit 0
specstep run memory/seed-automatic | sed -n '/^memory/,/^$/p'
specstep run memory/seed-automatic | grep '^note'
specstep run memory-study | tail -3
specstep run memory/seed-explicit --set engine.memory.fraction=0.55 && exit 1 || echo "exit $?"
specstep run seed/baseline-graph128 --set workload.batch=30 --set engine.graph.max_batch=16 | grep -E 'graph\.|^note'
specstep run seed/eagle3 --set engine.version=0.5.9 --set engine.attention_backend=flashinfer | grep '^note'
specstep run seed/eagle3 --set engine=vllm --set engine.memory.fraction=0.95 | grep -E 'graph\.|memory\.|^note'
specstep list --engines | grep -E 'vllm|fixed_2025'
