# exit 0
specstep run tiny --executor host --set measure.warmup=0 --set measure.runs=2 --set workload.output_tokens=8 --json result.json --quiet
grep -o '"executor": "[a-z]*",$' result.json | sort | uniq -c
grep -c '"interval": "smallest and largest of 2 runs"' result.json
grep -o '"note[s]*": \[' result.json
