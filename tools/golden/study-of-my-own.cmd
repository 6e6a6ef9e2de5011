# exit 0
printf 'name: mine\nruns:\n  - {name: a, run: tiny}\n  - {name: b, run: tiny, reported: {benchmark.tok_s: 5000, verify.pass_ms: 1}}\n' > study.yaml
specstep run study.yaml | sed -n '/^mine/,$p'
specstep run study.yaml --csv - | grep -E '^run|benchmark.tok_s,'
