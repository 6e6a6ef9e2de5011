# exit 1
refused() { "$@" && exit 1 || echo "exit $?"; }
mkdir folder
refused specstep run tiny --executor host --json /nowhere/result.json
refused specstep run tiny --executor host --json folder --csv c.csv
refused specstep check tiny --json result.json/
echo old > x.json
ln -s x.json link.json
refused specstep run tiny --json x.json --csv ./x.json
refused specstep run tiny --json x.json --csv link.json
refused specstep run tiny --json - --csv /dev/stdout
cat x.json
ls
specstep run tiny --json /dev/stdout | head -2
specstep run tiny --csv c.csv --json /dev/full | head -2
exit "${PIPESTATUS[0]}"
