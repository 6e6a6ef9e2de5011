# exit 0
specstep comm llama-3.3-70b-2x-h200 --bytes 65536,14338 --backends nccl,push1 --set 'comm={backend: push1, own: {wire: ll}, nccl: {protocol: Simple}}' | grep -v "^all_reduce"
specstep comm --executor host --ranks 2 --bytes 14338 --backends push1,hostbc --check
specstep comm 2x-h200 --own wire=bogus || echo "exit $?"
specstep comm 2x-h200 --own 'wire=#' || echo "exit $?"
