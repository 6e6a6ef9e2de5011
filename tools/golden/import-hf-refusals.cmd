# exit 0
refuse() { printf '%s' "$1" > config.json; specstep import hf-config config.json && exit 1 || echo "exit $?"; }
refuse '{"hidden_size": 64, "hidden_size": 64}'
refuse '{"hidden_size": 64,,}'
refuse '{"num_hidden_layers": 2, "hidden_size": "64", "num_attention_heads": [4, 8], "vocab_size": 100}'
refuse '{"num_hidden_layers": null, "hybrid_override_pattern": "M-M*-", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}'
refuse '{"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100, "quantization_config": {"quant_method": "hqq"}}'
specstep import hf-config no-such.json || echo "exit $?"
