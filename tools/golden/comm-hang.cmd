# exit 0
# Two ranks, of which one never calls; four and eight go on. Times are of threads here, and left out.
specstep comm --executor host --ranks 2,4,8 --bytes 8192 --backends push1,pull1 --fault rank=1,call=0,ranks=2 --wait-limit 2 > out || echo "exit $?"
grep -E '^all_reduce|FAILED|hint|exact|note' out | sed 's/: the data of pack.*/: .../'
specstep comm switch_4p4_microchip --ranks 2,8 --bytes 64K --backends nccl,push1 --csv - | cut -d, -f1-4
refused() { "$@" && exit 1 || echo "exit $?"; }
refused specstep comm --executor host
refused specstep comm --executor host --ranks 2 --devices 0,0
refused specstep comm --executor host --ranks 9
refused specstep comm --executor host --ranks 2 --dtype f32
refused specstep comm --executor host --ranks 2 --fault rank=1,call=0,rank=2
refused specstep comm --executor host --ranks 2,4 --fault rank=3,call=0,ranks=2
