# exit 2
specstep run tiny --executor hots
