"""Models as reward functions (`llm_rl.rollout.rewards`): a classifier with one label, and a judge that writes."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from llm_rl.core._checks import check_positive
from llm_rl.rollout.completions import sample_completions, sampling_params
from llm_rl.rollout.data import is_conversation, pad, text_messages
from llm_rl.rollout.generation import GenerationEngine, TransformersEngine
from llm_rl.rollout.loading import load_policy
from llm_rl.rollout.scoring import positions_of

SCORE = r"(?i)score\s*[:=]\s*(-?\d+(?:\.\d+)?)"


class RewardModel:
    """The score of a sequence classifier with one label, read at the end of prompt and completion.

    A conversation goes through the tokenizer's own chat template, a text and its completion are put together, both
    without further begin or end tokens, as TRL reads them.

    Args:
        model: The classifier, or its folder or name.
        tokenizer: Its tokenizer. None: that of the folder or name.
        batch_size: Texts of one forward pass.
        device: Where it computes. None: where it is.
        dtype: Its weights' type. None: as they are; of a folder float32.

    Raises:
        ValueError: It has another number of labels, nothing pads, or there is no tokenizer.
        OSError: There is no such model.
    """

    def __init__(
        self,
        model: nn.Module | str | Path,
        tokenizer: Any = None,
        *,
        batch_size: int = 16,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_positive("batch_size", batch_size)
        classifier: Any = model
        if not isinstance(model, nn.Module):
            tokenizer = AutoTokenizer.from_pretrained(str(model)) if tokenizer is None else tokenizer
            kind = dtype or torch.float32
            classifier = AutoModelForSequenceClassification.from_pretrained(str(model), dtype=kind)
        if tokenizer is None:
            raise ValueError("tokenizer is None; pass that of the reward model, or the model as a folder that has one")
        config = classifier.config
        if config.num_labels != 1:
            raise ValueError(
                f"the reward model has {config.num_labels} labels; give one with num_labels=1, or a function of your "
                "own that makes one number of them"
            )
        padding = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        if padding is None:
            raise ValueError("the reward model's tokenizer has neither pad nor end token; set tokenizer.pad_token")
        config.get_text_config().pad_token_id = config.pad_token_id = self.padding = padding
        self.model = classifier.to(device=device, dtype=dtype).eval()
        self.tokenizer, self.batch_size = tokenizer, batch_size
        self.__name__ = Path(str(config._name_or_path)).name or type(classifier).__name__

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """A score for each completion; `ValueError` where a text is too long, or a conversation has no template."""
        encoded = [self._encode(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]
        by_length = sorted(range(len(encoded)), key=lambda index: len(encoded[index]))
        scores = [math.nan] * len(encoded)
        for first in range(0, len(encoded), self.batch_size):
            chosen = by_length[first : first + self.batch_size]
            for index, score in zip(chosen, self._score([encoded[index] for index in chosen]), strict=True):
                scores[index] = score
        return scores

    def _encode(self, prompt: Any, completion: Any) -> list[int]:
        if is_conversation(prompt):
            if getattr(self.tokenizer, "chat_template", None) is None:
                raise ValueError(
                    "the reward model's tokenizer has no chat template and the prompt is a conversation; set "
                    "tokenizer.chat_template to what the model was trained with"
                )
            text = self.tokenizer.apply_chat_template(text_messages([*prompt, *completion]), tokenize=False)
        else:
            text = prompt + completion
        ids = list(self.tokenizer(text, add_special_tokens=False)["input_ids"]) or [self.padding]
        room = positions_of(self.model)
        if room is not None and len(ids) > room:
            raise ValueError(f"{len(ids)} tokens are more than the reward model's {room} positions (…{text[-80:]!r})")
        return ids

    @torch.no_grad()
    def _score(self, rows: Sequence[Sequence[int]]) -> list[float]:
        place = next(self.model.parameters()).device
        ids, mask = (each.to(place) for each in pad(rows, self.padding, "right"))  # (B, T) each
        return self.model(input_ids=ids, attention_mask=mask.long()).logits[:, 0].float().tolist()


class TextJudge:
    """A number that a language model writes about a completion, read by a pattern; None where it writes none.

    The share of the verdicts that could not be read is logged as "judge_unread".

    Args:
        model: A causal language model, or its folder or name.
        tokenizer: Its tokenizer. None: that of the folder or name.
        ask: Makes the judge's prompt, a text or messages, of a prompt and a completion.
        pattern: Regular expression whose first group is the number; the last match in a verdict counts.
        low: Smallest number; a smaller one is not read.
        high: Largest number.
        max_new_tokens: Of a verdict.
        temperature: Of sampling; 0 takes the most likely token each time.
        engine: What samples. None: `TransformersEngine`.

    Raises:
        ValueError: The pattern has no group, the bounds are the wrong way round, or there is no tokenizer.
    """

    def __init__(
        self,
        model: nn.Module | str,
        tokenizer: Any = None,
        *,
        ask: Callable[[Any, Any], Any],
        pattern: str = SCORE,
        low: float = -math.inf,
        high: float = math.inf,
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        engine: GenerationEngine | None = None,
    ) -> None:
        if re.compile(pattern).groups < 1:
            raise ValueError(f"pattern {pattern!r} has no group; put the number in parentheses")
        if not low < high:
            raise ValueError(f"low={low} must be below high={high}")
        model, self.tokenizer = load_policy(model, tokenizer)
        self.model, self.ask, self.pattern, self.low, self.high = model.eval(), ask, re.compile(pattern), low, high
        how = max_new_tokens, temperature or 1.0
        self.params = sampling_params(self.model, self.tokenizer, *how, greedy=temperature == 0)
        self.engine = engine or TransformersEngine()
        self.__name__ = "judge"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: Callable[[str, float], None] = lambda name, value: None,
        **columns: Any,
    ) -> list[float | None]:
        """A number for each completion, or None; `ValueError` where a prompt leaves no room for a verdict."""
        asked = [{"prompt": self.ask(*both)} for both in zip(prompts, completions, strict=True)]
        with torch.no_grad():
            verdicts = sample_completions(self.model, self.engine, self.tokenizer, asked, 1, self.params, {})
        texts = (self.tokenizer.decode(each.completion_ids, skip_special_tokens=True) for each in verdicts)
        scores = [self.read(text) for text in texts]
        log_metric("judge_unread", scores.count(None) / len(scores))
        return scores

    def read(self, verdict: str) -> float | None:
        """The number that a verdict ends with, None where there is none within the bounds."""
        found = [match.group(1) for match in self.pattern.finditer(verdict)]
        try:
            number = float(found[-1])
        except (IndexError, TypeError, ValueError):
            return None
        return number if self.low <= number <= self.high and math.isfinite(number) else None
