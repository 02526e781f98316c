"""Reinforcement learning core shared by the autoregressive and the masked-diffusion trainers."""
