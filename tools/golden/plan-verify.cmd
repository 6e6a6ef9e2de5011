# exit 0
specstep plan seed/eagle3 --pass verify | sed -n '/^collectives/,$p'
