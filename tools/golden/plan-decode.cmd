# exit 0
specstep plan seed/baseline-graph128 --pass decode | sed -n '/steps,/,$p'
