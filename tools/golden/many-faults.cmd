# exit 0
{ cat "$SPECSTEP_CONFIGS/stacks/tiny.yaml"; seq -f 'key%g: 1' 100000; } > stack.yaml
specstep check stack.yaml 2> faults && exit 1 || echo "exit $?"
wc -l < faults
tail -1 faults
{ cat "$SPECSTEP_CONFIGS/stacks/tiny.yaml"; yes 'kv: bf16' | head -100000; } > stack.yaml
specstep check stack.yaml 2> faults && exit 1 || echo "exit $?"
tail -1 faults
{ echo 'base: stack.yaml'; seq -f 'key%g: 1' 100000; } > over.yaml
{ cat "$SPECSTEP_CONFIGS/stacks/tiny.yaml"; seq -f 'key%g: 1' 100000; } > stack.yaml
specstep check over.yaml 2> faults && exit 1 || echo "exit $?"
tail -1 faults
