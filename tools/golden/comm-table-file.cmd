# exit 0
printf 'table:\n  - {up_to_kib: 56, backend: pull1}\n  - {backend: nccl}\n' > mine.yaml
specstep check mine.yaml
specstep run tiny --set 'comm={table_file: mine.yaml}' | grep 'collectives by\|note.*pull1'
printf 'table:\n  - {up_to_kib: 56, backend: pull2}\n  - {up_to_kib: 6, backend: nccl}\n' > wrong.yaml
specstep check wrong.yaml && exit 1 || echo "exit $?"
specstep run tiny --set 'comm={table_file: mine.yaml, backend: nccl}' && exit 1 || echo "exit $?"
