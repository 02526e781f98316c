"""An engine that writes what a test says, whatever the weights."""

from collections.abc import Callable, Sequence
from typing import Any

from llm_rl import SamplingParams
from llm_rl.rollout.generation import Completion


class Scripted:
    """Answers a prompt's text by another text and the end token.

    Args:
        tokenizer: The tokenizer.
        answer: What is written, by the prompt's text.
    """

    def __init__(self, tokenizer: Any, answer: Callable[[str], str]) -> None:
        self.tokenizer, self.answer = tokenizer, answer

    def load_weights(self, model: Any) -> None:
        """Does nothing."""

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        """A completion for each prompt."""
        texts = [f"{self.answer(self.tokenizer.decode(ids))}{self.tokenizer.eos_token}" for ids in prompts]
        return [Completion(self.tokenizer(text)["input_ids"], None) for text in texts]
