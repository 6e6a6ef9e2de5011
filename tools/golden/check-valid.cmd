# exit 0
for file in stacks/tiny drafts/tiny-eagle3 machines/8x-h200 gpus/h200-sxm fabrics/h200_nvswitch8 runs/tiny runs/seed-study; do
  specstep check "$SPECSTEP_CONFIGS/$file.yaml"
done
