"""Masked-diffusion language models and their reinforcement learning."""
