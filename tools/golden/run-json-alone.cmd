# exit 0
specstep run tiny --json - > out.json
head -c 1 out.json; echo
specstep run tiny --json a.json --csv b.csv --quiet
diff <(grep -v '"git"' a.json) <(grep -v '"git"' out.json) && echo same
head -3 b.csv
ls
