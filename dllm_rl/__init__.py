"""Masked-diffusion language models and their reinforcement learning.

Importing the package registers LLaDA with the Auto classes of transformers.
"""

from dllm_rl.llada import LladaConfig, LladaForMaskedLM, LladaModel

__all__ = ["LladaConfig", "LladaForMaskedLM", "LladaModel"]
