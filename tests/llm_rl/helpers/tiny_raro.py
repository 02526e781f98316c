"""RARO on the tiny Llama: a policy and a critic that write by a script, so that all can be computed by hand."""

import copy
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken

from llm_rl.raro import RAROArguments, RAROTrainer
from llm_rl.rollout.generation import Completion, SamplingParams
from tests.helpers import SHORT
from tests.llm_rl.helpers.fixed_engine import Weightless
from tests.llm_rl.helpers.tiny_vapor import tag_model, tag_tokenizer
from tests.llm_rl.helpers.watch import Call

PROMPT = re.compile(r"(?:Q (?P<question>.*)|C (?P<asked>.*)\|(?P<first>.*)\|(?P<second>.*))\n\n", re.DOTALL)
QUESTIONS = ["red", "blue sky", "one two three", "sun"]
SPECIAL = ["<R>", "</R>", "[Answer 1]", "[Answer 2]", "[Tie]", "<|turn|>"]
"""Tags and labels that a tokenizer may have as special tokens."""
Policy = Callable[[str, int], str]
Critic = Callable[[str, str, str, int], str]


def rows(count: int = 4) -> list[dict[str, Any]]:
    return [{"question": question, "answer": f"E {question}", "wanted": "4"} for question in QUESTIONS[:count]]


def number(*parts: Any) -> int:
    """A number that depends on the parts alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4])


class ScriptedEngine(Weightless):
    """Reads which role is asked and writes what the role's function says of it and of how often it was asked.

    A text that ends in "…" is written without it and without an end token: it is over-length.
    """

    def __init__(self, policy: Policy, critic: Critic) -> None:
        self.policy, self.critic = policy, critic
        self.asked: list[dict[str, str]] = []

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        seen: Counter[str] = Counter()
        result = []
        for prompt in prompts:
            found = PROMPT.fullmatch(text := tag_tokenizer().decode(prompt))
            assert found, text
            asked = {name: value for name, value in found.groupdict().items() if value is not None}
            self.asked.append(asked)
            role: Callable[..., str] = self.policy if "question" in asked else self.critic
            said = role(*asked.values(), seen[text])
            seen[text] += 1
            ids = tag_tokenizer()(said.removesuffix("…"))["input_ids"]
            assert len(ids) < params.max_new_tokens, said
            result.append(Completion(ids if said.endswith("…") else [*ids, params.eos_token_ids[0]], None))
        return result


def mixed_policy(question: str, n: int) -> str:
    """Answers of different length, some without an answer, some over-length."""
    draw = number(question, n)
    thought = "<R>" + "red " * (draw % 4) + ("</R>" if draw % 7 else "")
    return f"{thought}P {question} {n}{'…' if draw % 5 == 0 else ''}"


def mixed_critic(question: str, first: str, second: str, n: int) -> str:
    """All labels, some unparsable, some over-length."""
    draw = number(question, first, second, n)
    label = ["[Answer 1]", "[Answer 2]", "[Tie]", "[Answer 1]", "answer 2"][draw % 5]
    return f"{'one ' * (draw % 3)}{label}{'…' if draw % 11 == 0 else ''}"


def numbered(question: str, n: int) -> str:
    """Answers that all differ."""
    return f"<R>one</R>P {question} {n}"


def tie(question: str, first: str, second: str, n: int) -> str:
    return "[Tie]"


def judged(first: str, right: bool) -> str:
    """The label of a critic who sees this answer first, and finds the expert's or takes the policy's for it."""
    return "[Answer 1]" if first.startswith("E") is right else "[Answer 2]"


def asked_of_critic(run: RAROTrainer) -> list[dict[str, str]]:
    """What the critic of a run was asked by a scripted engine."""
    return [one for one in run.engine.asked if "asked" in one]  # type: ignore[attr-defined]


def rewards_of(advantages: Sequence[Call], *, is_critic: bool) -> list[float | None]:
    """The rewards of one role's completions in the calls of `_with_advantages`."""
    return [reward for call in advantages if call.named["is_critic"] == is_critic for reward in call.arguments[1]]


def special_tokenizer(texts: Sequence[str] = SPECIAL) -> Any:
    """`tag_tokenizer` with some texts as special tokens."""
    names = copy.deepcopy(tag_tokenizer())
    names.add_tokens([AddedToken(text, special=True) for text in texts], special_tokens=True)
    return names


def arguments(folder: Path, **changes: Any) -> RAROArguments:
    chosen: dict[str, Any] = {
        "output_dir": str(folder), "max_steps": 1, "per_device_train_batch_size": 16, "num_generations": 4,
        "critic_generations": 4, "max_completion_length": 40, "max_tokens_per_batch": 1024,
        "reasoning_tags": ["<R>", "</R>"], "prompt_format": "text", "policy_system": "", "critic_system": "",
        "policy_template": "Q {question}", "critic_template": "C {question}|{answer_1}|{answer_2}",
        **SHORT, "max_grad_norm": 0.0,
    }  # fmt: skip
    return RAROArguments(**{**chosen, **changes})


def raro_model(dtype: torch.dtype = torch.float32) -> Any:
    return tag_model(dtype, max_position_embeddings=512)


def trainer(
    folder: Path, model: Any = None,
    *, policy: Policy = mixed_policy, critic: Critic = mixed_critic, data: Any = None, given: Any = None,
    **changes: Any,
) -> RAROTrainer:  # fmt: skip
    return RAROTrainer(
        raro_model() if model is None else model,
        arguments(folder, **changes),
        rows() if data is None else data,
        tag_tokenizer(),
        **{"engine": ScriptedEngine(policy, critic), **(given or {})},
    )
