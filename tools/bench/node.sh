#!/usr/bin/env bash
# Everything that a machine with several GPUs can show of allreduces and of Kimi-K2.5 on them, in one call of under ten
# minutes on eight GPUs. With fewer, ranks share them: SHARED in the table. Each program has a limit of its own; one that
# fails is named, and the rest goes on.
#   tools/bench/node.sh OUT [RANKS]       JSON and logs under OUT, a table on the screen
# SPECSTEP names the program (build/release/bin/specstep), PYTHON the interpreter that has PyTorch (python3).
set -uo pipefail
out=${1:?usage: tools/bench/node.sh OUT [RANKS]}
ranks=${2:-8}
specstep=${SPECSTEP:-build/release/bin/specstep}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1

gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
if [ "$gpus" = 0 ]; then
  echo "no GPU here" >&2
  exit 77
fi
devices=""
for ((rank = 0; rank < ranks; ++rank)); do devices="$devices${devices:+,}$((rank * gpus / ranks))"; done
own=$([ "$gpus" -ge "$ranks" ] && echo "nccl push1 pull1 rsag island" || echo "push1 pull1 rsag island")

step() { # LIMIT NAME COMMAND...: output to OUT/NAME.log; says how it ended
  local limit=$1 name=$2 begin=$SECONDS code=0
  shift 2
  timeout "$limit" "$@" >"$out/$name.log" 2>&1 || code=$?
  printf '%-28s %s %3d s\n' "$name" "$([ $code = 0 ] && echo ok || echo "exit $code")" $((SECONDS - begin))
  [ $code = 0 ] || tail -3 "$out/$name.log" | sed 's/^/    /'
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sort | uniq -c
echo "$ranks ranks on devices $devices$([ "$gpus" -lt "$ranks" ] && echo ' (SHARED)')"

step 90 check "$specstep" comm --executor cuda --devices "$devices" --check
step 150 comm "$specstep" comm --executor cuda --devices "$devices" --bytes 2048,4096,14336,43008,114688,458752,1835008,8388608 \
  --json "$out/comm.json"
[ "$gpus" -ge 2 ] && step 60 torch_symm "$python" "$here/torch_symm.py" --json "$out/torch_symm.json"

kimi() { # BACKEND TOKENS NAME COMMAND...: verify passes of so many tokens
  local backend=$1 tokens=$2 name=$3
  shift 3
  step 60 "$name" "$@" run kimi-k2.5-8x-h200 --executor cuda --set "comm=$backend" --set "parallel.tensor=$ranks" \
    --set "measure.cuda.devices=[$devices]" --set "speculation.draft_length=$((tokens - 1))" \
    --set 'speculation.acceptance={rate: 0.65}' --set workload.prompt_tokens=32 --set workload.output_tokens=512 \
    --json "$out/$name.json"
  grep -hE 'pass_ms|step_ms|isolated_us|in_situ_us' "$out/$name.log" | sed 's/^/    /'
}
for backend in $own; do kimi "$backend" 3 "kimi-$backend-3" "$specstep"; done
best=push1
for tokens in 4 8; do kimi "$best" "$tokens" "kimi-$best-$tokens" "$specstep"; done
step 60 "kimi-$best-eager" "$specstep" run kimi-k2.5-8x-h200 --executor cuda --set "comm=$best" --set "parallel.tensor=$ranks" \
  --set "measure.cuda.devices=[$devices]" --set engine.phases.decode=eager --set engine.phases.verify=eager --set workload.prompt_tokens=32 --json "$out/kimi-eager.json"
if [ "$gpus" -ge "$ranks" ] && command -v mpirun >/dev/null; then
  kimi "$best" 3 "kimi-$best-3-mpi" mpirun --allow-run-as-root --bind-to none -n "$ranks" "$specstep"
fi
