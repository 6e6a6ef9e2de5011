# exit 0
specstep comm 2x-h200 --bytes 64K --backends nccl,pull1 | sed -n 1,5p
specstep comm 8x-h200 --set count=4 --bytes 64K --backends 'nccl, push1' | sed -n 2p
specstep comm 1x-h200 --bytes 1K --backends nccl
specstep comm 8x-h200 --ranks 16 || echo "exit $?"
specstep comm tiny --ranks 8 || echo "exit $?"
specstep comm 8x-h200 --bytes 1000,1M --backends nccl,push1 | grep -v '^$'
specstep comm 8x-h100 --bytes 32M,44M,48M,64M --set fabric.multicast=true --set fabric.nccl.nvls=true --backends nccl,rsag,nvls | sed -n 4,8p
specstep comm 8x-h100 --set fabric.nccl.nvls=true || echo "exit $?"
