# exit 0
specstep --help
specstep run --help
