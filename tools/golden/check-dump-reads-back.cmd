# exit 0
specstep check "$SPECSTEP_CONFIGS/runs/seed/eagle3.yaml" --dump > full.yaml
specstep check full.yaml
specstep check full.yaml --dump | cmp - full.yaml
grep -A 8 '^workload' full.yaml
