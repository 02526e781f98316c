"""Roll-outs from a completion server, vLLM's or one that speaks as it does; see docs/grpo.md."""
