# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
data=$SPECSTEP_CONFIGS/../comm/import/testdata
cp $data/graph_fragment.xml $data/nccl_failed.txt $data/nccl_allgather.txt $data/nccl_alltoall1.txt .
refused specstep import nccl-topo-xml graph_fragment.xml
for file in nccl_failed nccl_allgather nccl_alltoall1; do refused specstep import nccl-tests $file.txt; done
printf '\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tSYS\t X \n' > asymmetric.txt
printf '\tGPU0\tGPU1\nGPU0\t X \tPIX\n' > missing.txt
printf '\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n' > status.txt
printf 'nothing here\n' > none.txt
for file in asymmetric missing status none; do refused specstep import nvidia-smi-topo $file.txt; done
refused specstep import p2p-matrix none.txt
refused specstep import smi none.txt
refused specstep import nvidia-smi-topo nowhere.txt
