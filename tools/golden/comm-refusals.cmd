# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
refused specstep comm
refused specstep comm no-such-fabric
refused specstep comm switch_4p4_microchip --backends nvls
refused specstep comm switch_4p4_microchip --backends nccll
refused specstep comm switch_4p4_microchip --ranks 9 --backends nccl
refused specstep comm switch_4p4_microchip --bytes 4K:1K
refused specstep comm switch_4p4_microchip --collective all_gather --backends push1
printf 'bytes,nccl_us\n8,fast\n' > wrong.csv
refused specstep comm --table wrong.csv
printf 'rows,nccl_us\n1,20\n' > rows.csv
refused specstep comm --table rows.csv
