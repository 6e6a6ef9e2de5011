# exit 0
echo old > target.json; chmod 600 target.json; ln -s target.json link.json
specstep run tiny --json link.json --quiet
test -L link.json; grep -c specstep.result/1 target.json; stat -c %a target.json
specstep run tiny --json b.json --csv nowhere/c.csv || echo "exit $?"
# A link to what is not there yet makes it; one that leads round is refused; a full disk leaves nothing behind.
ln -s made.json ahead.json; ln -s round.json round.json
specstep run tiny --json ahead.json --quiet; test -L ahead.json; grep -c specstep.result/1 made.json
specstep run tiny --json round.json || echo "exit $?"
specstep run tiny --csv made.json --json ahead.json || echo "exit $?"
(ulimit -f 20; specstep run tiny --json large.json --quiet) || echo "exit $?"
# A pipe without a reader waits, but not against a signal, and no file is begun before it.
mkfifo pipe
timeout -k 1 -s TERM 1 specstep run tiny --json behind.json --timeline pipe || echo "exit $?"
ls
