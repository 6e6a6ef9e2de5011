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

step 90 check "$specstep" comm --executor cuda --devices "$devices" --check --wait-limit 10
step 150 comm "$specstep" comm --executor cuda --devices "$devices" --bytes 2048,4096,14336,43008,114688,458752,1835008,8388608 \
  --conditions graph,eager --seconds 0.1 --wait-limit 10 --json "$out/comm.json"
grep -hE '^ +us|^ +[0-9,]+ .* [a-z]|graph$|by one$' "$out/comm.log" | sed 's/^/  /'
[ "$gpus" -ge 2 ] && step 60 torch_symm "$python" "$here/torch_symm.py" --json "$out/torch_symm.json"

kimi() { # NAME TOKENS BACKEND [KEY=VALUE...]: decode, and verify passes of so many tokens; LAUNCH before the program
  local name=$1 tokens=$2 backend=$3 more=()
  shift 3
  [ "$backend" = island ] && [ "$gpus" -gt 1 ] && [ "$gpus" -lt "$ranks" ] && more=(--set "comm.own={islands: $islands}")
  for pair in "$@"; do more+=(--set "$pair"); done
  step 70 "$name" ${LAUNCH:-} "$specstep" run kimi-k2.5-8x-h200 --executor cuda --set "comm.backend=$backend" \
    --set "parallel.tensor=$ranks" --set "measure.cuda.devices=[$devices]" --set "speculation.draft_length=$((tokens - 1))" \
    --set 'speculation.acceptance={rate: 0.65}' --set workload.prompt_tokens=16 --set workload.output_tokens=256 \
    --set measure.runs=3 "${more[@]}" --json "$out/$name.json"
  grep -hE 'pass_ms|step_ms|isolated_us|in_situ_us' "$out/$name.log" | sed 's/^/    /'
}
# Ranks of one GPU are an island, where GPUs are shared.
islands="[$(for ((gpu = 0; gpu < gpus; ++gpu)); do
  printf '%s[%s]' "$([ $gpu = 0 ] || echo ,)" "$(seq -s, $((gpu * ranks / gpus)) $(((gpu + 1) * ranks / gpus - 1)))"
done)]"
best="" least=""
for backend in $own; do
  kimi "kimi-$backend-3" 3 "$backend"
  ms=$(sed -nE 's/^ *verify.pass_ms +([0-9.]+) .*/\1/p' "$out/kimi-$backend-3.log")
  if [ -n "$ms" ] && { [ -z "$least" ] || [ "$(awk "BEGIN {print ($ms < $least)}")" = 1 ]; }; then best=$backend least=$ms; fi
done
[ -n "$best" ] || { echo "no backend carried a pass" >&2; exit 1; }
echo "best in a verify pass of 3 tokens: $best, $least ms"
for tokens in 4 8 32; do kimi "kimi-$best-$tokens" "$tokens" "$best"; done
kimi "kimi-$best-eager" 3 "$best" engine.phases.decode=eager engine.phases.verify=eager
if [ "$gpus" -ge "$ranks" ] && command -v mpirun >/dev/null; then
  LAUNCH="mpirun --allow-run-as-root --bind-to none -n $ranks" kimi "kimi-$best-3-mpi" 3 "$best"
fi
