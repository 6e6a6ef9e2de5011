# exit 2
specstep plan seed/baseline-graph128 --pass verify
