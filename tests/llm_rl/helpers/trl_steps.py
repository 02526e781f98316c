"""TRL's GRPO trainer on the completions of `ScriptedEngine`: the gradients that its optimizer is about to apply."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from llm_rl.rollout.generation import Completion, SamplingParams
from tests.helpers import SHORT
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import distinct_rows, tokenizer
from tests.llm_rl.helpers.watch import gradients_of

LENGTH = 6


class ScriptedEngine(FixedEngine):
    """The completions of `FixedEngine`, with log-probabilities that follow from the ids alone."""

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        return [Completion(ids, scripted_logprobs(ids)) for ids, _ in super().generate(prompts, params)]


def scripted_logprobs(ids: Sequence[int]) -> list[float]:
    return [-4.0 - 0.5 * (token % 5 - 2) for token in ids]


def trl_gradients(
    folder: Path, model: Any, reward_funcs: Any, processor: Any = None, rows: Any = None, **settings: Any
) -> list[dict[str, torch.Tensor]]:
    """The gradients of each step.

    Args:
        folder: The run folder.
        model: Is trained.
        reward_funcs: Reward functions.
        processor: The processor. None: the tiny tokenizer.
        rows: The rows. None: two distinct ones.
        **settings: Arguments of `trl.GRPOConfig`. With `vllm_importance_sampling_mode` the importance correction acts,
            for which TRL asks for vLLM.
    """
    corrects = "vllm_importance_sampling_mode" in settings
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    class Scripted(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
            ends = (self._tokenizer.eos_token_id,)
            params = SamplingParams(LENGTH, 1.0, ends, self._tokenizer.pad_token_id)
            found = ScriptedEngine().generate(prompt_ids, params)
            logprobs = [completion.logprobs for completion in found]
            return [completion.token_ids for completion in found], logprobs if corrects else None

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            self.use_vllm = corrects
            return super()._generate_and_score_completions(inputs)

    common: dict[str, Any] = {
        **SHORT, "output_dir": str(folder), "max_steps": 1, "per_device_train_batch_size": 8, "num_generations": 4,
        "max_completion_length": LENGTH, "max_grad_norm": 0.0, "bf16": False, "gradient_checkpointing": False,
        "temperature": 1.0, "use_bias_correction_kl": False,
    }  # fmt: skip
    model.save_pretrained(folder / "model")
    model.config._name_or_path = str(folder / "model")  # where the copy for the reference is loaded from
    run = Scripted(
        model,
        reward_funcs,
        args=GRPOConfig(**{**common, **settings}),
        train_dataset=Dataset.from_list(distinct_rows(2) if rows is None else rows),
        processing_class=tokenizer() if processor is None else processor,
    )
    return gradients_of(run)
