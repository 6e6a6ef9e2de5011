# exit 0
specstep run seed/baseline-graph128 --set stack.layers=1 --set "stack.mlp.leading_dense_layers=0" --csv - | grep -E "decode.step_ms|memory"
specstep run seed/baseline-graph128 --set "comm=[{up_to_kib: 56, backend: pull1}, {backend: nccl}]" | sed -n 3p
