# exit 2
specstep run seed-study --executor host
