# exit 0
cp "$SPECSTEP_CONFIGS/runs/tiny.yaml" base.yaml
printf 'base: base.yaml\nname: piped\nmachine: ./machine.yaml\n' > run.yaml
cp "$SPECSTEP_CONFIGS/machines/2x-h200.yaml" machine.yaml
cat run.yaml | specstep run /dev/stdin | head -2
specstep run <(cat run.yaml) | head -1
specstep check /dev/stdin < run.yaml
cat run.yaml | specstep plan /dev/stdin | head -1
cat run.yaml | specstep fabric /dev/stdin | head -1
cat run.yaml | specstep comm /dev/stdin --bytes 1K | head -1
printf 'nme: x\n' | specstep run /dev/stdin || echo "exit $?"
