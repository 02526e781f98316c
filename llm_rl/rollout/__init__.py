"""Roll-outs of causal language models: rows, generation, rewards, scoring, and the trainer on them."""
