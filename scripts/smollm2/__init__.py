"""GRPO, VAPOR and RARO on SmolLM2-135M-Instruct."""
