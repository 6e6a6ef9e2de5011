# exit 2
cat > run.yaml <<'END'
stack: {name: x, layers: 0, hidden: 7168.5, vocab: 512, vocab: 513}
END
specstep check run.yaml || echo "exit $?"
cat > run.yaml <<'END'
stack: kimi-k2.5
machine: 8x-rtx-pro-6000
parallel: {tensor: 3, tensr: 8}
workload: {batch: 0, prompt_tokens: 1e3}
comm: {backend: off}
speculation: {acceptance: {rate: 45%}}
END
specstep run run.yaml --json result.json || echo "exit $?"
ls
cat > run.yaml <<'END'
stack: kimi-k2.5
machine: 8x-rtx-pro-6000
parallel: {tensor: 3}
END
specstep run run.yaml
