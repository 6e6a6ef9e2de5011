# exit 0
for set in layers=0 layers=-1 hidden=7168.5 attention.heads=nan kv=bf17; do
  specstep check "$SPECSTEP_CONFIGS/stacks/tiny.yaml" --set "$set" && exit 1 || echo "exit $?"
done
