# exit 0
refused() { "$@" && exit 1 || echo "exit $?"; }
specstep run seed/eagle3 --timeline trace.json --quiet
grep process_name trace.json
for process in 1 2 3 4 5; do grep '"cat":"allreduce"' trace.json | grep -c "\"pid\":$process}"; done
grep '"layer":60' trace.json | grep -m 2 -E 'o_proj|attention_allreduce'
specstep run seed/eagle3 --timeline - | cmp - trace.json
printf 'name: mine\nruns:\n  - {name: a, run: tiny}\n  - {name: b, run: tiny, set: {speculation.method: none}}\n' > study.yaml
specstep run study.yaml --timeline - --json study.json | grep -o '"name":"[ab]: [a-z]*"'
# As for --json: refused before any work, nothing written by halves, the text not lost with the file.
refused specstep run tiny --timeline /nowhere/trace.json
refused specstep run tiny --timeline ''
refused specstep run tiny --json - --timeline -
refused specstep run tiny --csv new.csv --timeline ./new.csv
refused specstep run study.yaml --timeline study.yaml
refused specstep run tiny --json new.json --timeline /dev/full > text
head -1 text; tail -1 text
ls
