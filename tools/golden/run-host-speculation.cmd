# exit 0
host() { specstep run tiny --executor host --set measure.warmup=0 --set measure.runs=1 --set workload.output_tokens=24 "$@"; }
unnumbered() { sed -E 's/[0-9a-f]{16}/DIGEST/; s/[0-9.]+ was counted/NUMBER was counted/'; }
host --json drafted.json | grep -E '^generated|^note: (spec|draft)|eagle3' | unnumbered
host --set speculation.method=none --json plain.json | grep -E '^generated|^note' | unnumbered
diff <(grep '"digest"' drafted.json) <(grep '"digest"' plain.json)
host --set speculation.method=ngram | grep -E '^note: draft|ngram,|^ +(draft|extend)'
host --set 'speculation={method: eagle3, draft_length: 5, tree: {steps: 2, topk: 2, verify_tokens: 5}}' | grep -E '^note: spec|tree of'
host --set comm=auto | grep 'auto chose'
