# exit 0
specstep plan kimi-k2.6/decode --set parallel.context=8 --set workload.batch=4 --set workload.prompt_tokens=65536
