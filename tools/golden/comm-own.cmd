# exit 0
specstep comm 2x-h200 --bytes 14336,458752 --own transfer=push
specstep comm 8x-h200 --ranks 4 --bytes 14336 --backends rsag,island --own transfer=pull --own 'islands=[[0,1],[2,3]]' | grep -E '^(rsag|island|note)'
specstep comm switch_4p4_microchip --bytes 14336 --backends push1 --own wire=ll | grep -E '^(push1|note)'
printf "bytes,push1_us\n1024,3\n4096,4\n" > t.csv
specstep comm --table t.csv --own wire=ll || echo "exit $?"
specstep comm 2x-h200 --own wire=smoke || echo "exit $?"
specstep run qwen3-32b-2x-h200 --set 'comm={backend: push1, own: {}, fusion: rmsnorm}' | grep 'allreduce.isolated_us'
