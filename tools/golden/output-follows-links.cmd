# exit 0
echo old > target.json; chmod 600 target.json; ln -s target.json link.json
specstep run tiny --json link.json --quiet
test -L link.json; grep -c specstep.result/1 target.json; stat -c %a target.json
specstep run tiny --json b.json --csv nowhere/c.csv || echo "exit $?"
ls
