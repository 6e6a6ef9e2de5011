# exit 0
for file in $(cd "$SPECSTEP_CONFIGS" && find . -name '*.yaml' | sort); do
  specstep check "$SPECSTEP_CONFIGS/$file" --dump > dump.yaml
  specstep check dump.yaml --quiet
  specstep check dump.yaml --dump | cmp - dump.yaml
done
echo all
