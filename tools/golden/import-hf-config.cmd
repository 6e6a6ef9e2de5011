# exit 0
printf '{\n "model_type": "llama", "torch_dtype": "float16",\n "hidden_size": 4096, "num_hidden_layers": 32,\n "text_config": {"hidden_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 8,\n  "head_dim": null, "vocab_size": 32000, "novelty": 3},\n "vision_config": {"hidden_size": 1152}\n}' > config.json
specstep import hf-config config.json --name small > small.yaml
cat small.yaml
specstep check small.yaml
specstep import hf-config config.json --strict || echo "exit $?"
