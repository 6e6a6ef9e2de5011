# exit 0
data=$SPECSTEP_CONFIGS/../comm/import/testdata
cp $data/t6_h100_9nic_doubletab.txt $data/p2p_test_output.txt $data/nccl_clean.txt .
specstep import nvidia-smi-topo t6_h100_9nic_doubletab.txt > switched.yaml
specstep comm switched.yaml --bytes 1G --backends nccl | sed -n 1,5p
specstep import nvidia-smi-topo t6_h100_9nic_doubletab.txt --strict || echo "exit $?"
specstep import p2p-matrix p2p_test_output.txt > pairs.yaml
specstep fabric pairs.yaml --measured p2p_test_output.txt | tail -4
specstep import nccl-tests nccl_clean.txt --strict > clean.csv
specstep comm --table clean.csv | sed -n 1,5p
sed 's/ 0 *$/ 512/' nccl_clean.txt | head -8 > wrong.txt
specstep import nccl-tests wrong.txt || echo "exit $?"
