# exit 0
specstep solve seed/eagle3
