# exit 0
specstep run > default.txt
specstep run seed-study > named.txt
cmp default.txt named.txt
