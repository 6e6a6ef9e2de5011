# exit 0
data=$SPECSTEP_CONFIGS/../comm/import/testdata
cp $data/asus_topo.txt $data/p2p_matrix.txt $data/h200_topo.xml $data/nccl_mixed.txt .
specstep import nvidia-smi-topo asus_topo.txt > asus.yaml 2> notes
cat notes
specstep check asus.yaml
specstep comm asus.yaml --bytes 14336 --backends nccl,pull1 | sed -n 1,5p
specstep import p2p-matrix p2p_matrix.txt > matrix.yaml 2> notes
grep slow notes
specstep check matrix.yaml
specstep import nccl-topo-xml h200_topo.xml --like h200_nvswitch8 2>/dev/null > h200.yaml
specstep check h200.yaml
specstep import nccl-tests nccl_mixed.txt 2>/dev/null
