# exit 0
printf 'base: %s/runs/seed/eagle3.yaml\nstack: {layers: 30}\nmachine: {gpu: {memory_bandwidth_gb_s: {value: 2000}}}\ncomm: [{up_to_kib: 56, backend: pull1}, {backend: nccl}]\n' "$SPECSTEP_CONFIGS" > mine.yaml
specstep check mine.yaml --dump > full.yaml
grep -E '^  layers|^    name:|up_to_kib|backend' full.yaml
grep -A 2 'memory_bandwidth' full.yaml
printf 'base: mine.yaml\nstack: {base: tiny, layers: 8}\ndraft: {base: tiny-eagle3}\n' > tiny.yaml
specstep check tiny.yaml --dump | grep -E '^  name|^  layers'
specstep run mine.yaml --set 'comm[0].up_to_kib=20' | sed -n 3p
specstep check kimi-k2.5
