"""Masked-diffusion models: LLaDA, any other model behind an adapter, compiled blocks."""
