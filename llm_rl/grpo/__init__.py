"""GRPO: its trainer and its arguments."""
