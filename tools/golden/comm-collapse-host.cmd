# exit 0
specstep comm asus_dual_turin_collapse --bytes 14336,43008 --backends nccl,pull1,island,hostbc
specstep comm 8x-rtx-pro-6000 --ranks 4 --bytes 4K:64K:x4 --backends nccl,push1 --csv -
specstep comm h200_nvswitch8 --bytes 14336 --backends push1 --json - | head -12
