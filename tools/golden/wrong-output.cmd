# exit 1
specstep run tiny --json /nowhere/result.json
