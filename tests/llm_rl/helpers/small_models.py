"""Tiny random models of other architectures than Llama, and samples of all lengths to score with them."""

from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaForCausalLM

from llm_rl.rollout.data import Sample
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer

SIZE = len(tokenizer())
SAMPLES = [
    Sample({"prompt": ""}, [5, 6, 7, 8, 9], [3, 4, 0], truncated=False),
    Sample({"prompt": ""}, [10], [11, 12, 13, 14, 15, 16], truncated=True),
    Sample({"prompt": ""}, [17, 18], [], truncated=True),
    Sample({"prompt": ""}, [19, 20, 21], [0], truncated=False),
]


def graded(prompt_ids: list[int]) -> tuple[LlamaForCausalLM, torch.Tensor]:
    """A tiny Llama with known logits after a prompt, neither peaked nor uniform, float32 `(V,)`.

    A cut after the best tokens, a least probability or a penalty would move the counts of what is sampled.
    """
    model, logits = new_model(), torch.linspace(0, 2, SIZE)
    with torch.no_grad():
        hidden = model.model(torch.tensor([prompt_ids])).last_hidden_state[0, -1]
        model.lm_head.weight.copy_(torch.outer(logits, hidden / hidden.square().sum()))
    return model, logits


def adapted(r: int = 2, *targets: str) -> Any:
    """The tiny Llama with LoRA whose weights are not those of a fresh start."""
    config = LoraConfig(r=r, target_modules=[*(targets or ("q_proj", "v_proj"))], init_lora_weights=False)
    return get_peft_model(new_model(), config)


def gpt2() -> GPT2LMHeadModel:
    """Learned absolute positions, dropout, tied head."""
    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(vocab_size=SIZE, n_embd=16, n_layer=2, n_head=2, n_positions=32))


def gemma2() -> Gemma2ForCausalLM:
    """A soft cap on the logits."""
    torch.manual_seed(1)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "final_logit_softcapping": 2.0}
    return Gemma2ForCausalLM(Gemma2Config(vocab_size=SIZE, initializer_range=0.5, **shape, **heads))
