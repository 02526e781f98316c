"""The model and its decoding in JavaScript, held against Python."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from dllm_rl import PolicyConfig, SudokuTask, get_strategy
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.trajectories import Step, Trajectories, decoding_steps, draw_uniforms
from sudoku_env import pre_fill, read_prompts

MODELS = ("llada-sudoku6x6", "llada-sudoku6x6-converged")
ROOM = 2e-5
"""Scores nearer to each other than this are a tie: fp32 sums in another order tell them apart otherwise."""


@pytest.fixture(scope="session", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def load(name: str) -> tuple[Any, Any]:
    folder = f"data/models/{name}"
    return AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def problems(tokenizer: Any, count: int) -> PuzzleBatch:
    prompts = read_prompts("data/sudoku6x6_test.jsonl")[:count]
    task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id)
    return task.batch([pre_fill(prompt, tokenizer, 40) for prompt in prompts])


def boards(batch: PuzzleBatch) -> list[list[int]]:
    return batch.boards(batch.responses).tolist()


def test_puzzles_become_the_tokens_of_pre_fill(node: Callable[..., Any], name: str) -> None:
    _, tokenizer = load(name)
    batch = problems(tokenizer, 200)
    found = node("prefill", name=name, puzzles=boards(batch))
    assert [one["prompt"] for one in found] == batch.prompt_ids.tolist()
    assert [one["response"] for one in found] == batch.responses.tolist()


def test_logits_are_those_of_python(node: Callable[..., Any], name: str) -> None:
    model, tokenizer = load(name)
    batch = problems(tokenizer, 20)
    generator = torch.Generator().manual_seed(0)
    shown = torch.rand(batch.responses.shape, generator=generator) < torch.linspace(0, 1, 20)[:, None]
    states = torch.where(shown, batch.answers, batch.responses)  # from the puzzle to the solution
    sequences = torch.cat([batch.prompt_ids, states], dim=1)
    with torch.no_grad():
        expected = model(input_ids=sequences).logits.flatten(1)
    found = node("logits", name=name, sequences=sequences.tolist(), positions=list(range(sequences.shape[1])))
    torch.testing.assert_close(torch.tensor(found), expected, atol=1e-4, rtol=0)


def test_the_configuration_is_written_out_whole(page: Path, name: str) -> None:
    content = json.loads((page / "models.json").read_text())
    model, _ = load(name)
    entry = next(one for one in content["models"] if one["name"] == name)
    assert content["policy"] == vars(PolicyConfig())
    assert entry["parameters"] == model.num_parameters()
    assert all(getattr(model.config, key) == value for key, value in entry["config"].items())


DECODES = [
    ("margin", {}),
    ("margin", {"tokens_per_step": 3}),
    ("margin", {"tokens_per_step": None, "entropy_bound": 1e-4}),
    ("margin_difference", {}),
    ("probability", {}),
    ("probability", {"tokens_per_step": None, "threshold": -0.001}),
    ("entropy", {}),
    ("random", {"tokens_per_step": 2}),
    ("left_to_right", {}),
    ("semi_autoregressive", {"tokens_per_step": 2}),
    ("policy", {}),
    ("policy", {"tokens_per_step": 3}),
    ("policy_greedy", {}),
    ("definite_first", {"tokens_per_step": 2}),
]


@pytest.mark.parametrize(("strategy", "limits"), DECODES)
def test_decodes_are_those_of_python_step_for_step(
    node: Callable[..., Any], strategy: str, limits: dict[str, Any], count: int = 5
) -> None:
    compare_decodes(node, MODELS[0], strategy, limits, count)


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "limits"), DECODES)
def test_decodes_of_200_puzzles(node: Callable[..., Any], name: str, strategy: str, limits: dict[str, Any]) -> None:
    compare_decodes(node, name, strategy, limits, 200)


def compare_decodes(node: Callable[..., Any], name: str, strategy: str, limits: dict[str, Any], count: int) -> None:
    """Fail unless both decodes do the same at each step until, in Python's scores, one of them has a tie."""
    model, tokenizer = load(name)
    batch = problems(tokenizer, count)
    uniforms = draw_uniforms(get_strategy(strategy), Trajectories(batch), torch.Generator().manual_seed(1))
    spelt = {"tokens_per_step": "tokensPerStep", "threshold": "threshold", "entropy_bound": "entropyBound"}
    found = node(
        "decode",
        name=name,
        puzzles=boards(batch),
        strategy=strategy,
        uniforms=None if uniforms is None else uniforms.tolist(),
        limits={spelt[key]: value for key, value in limits.items()},
    )
    live, same = set(range(count)), 0
    for step in python_steps(model, batch, strategy, limits, uniforms):
        for row in sorted(live & set(step.trajectories.tolist())):
            state = int(step.states[(step.trajectories == row).nonzero()[0, 0]])
            mine = (step.trajectories[step.rows] == row).nonzero().squeeze(1)
            choices = torch.stack([step.positions[mine], step.tokens[mine]], dim=1).tolist()
            done = found[row][step.number]
            assert done["definite"] == step.definite[state].nonzero().squeeze(1).tolist()
            if done["choices"] == choices:
                same += 1
                continue
            live.discard(row)
            assert is_tie(step, state, strategy, [choice[0] for choice in choices], done["choices"], limits), (
                f"puzzle {row}, step {step.number}: {choices} in Python, {done['choices']} on the page"
            )
    assert same >= 0.9 * sum(map(len, found))


def python_steps(
    model: Any, batch: PuzzleBatch, strategy: str, limits: dict[str, Any], uniforms: torch.Tensor | None
) -> list[Step]:
    with torch.no_grad():
        return list(
            decoding_steps(
                model,
                Trajectories(batch),
                get_strategy(strategy),
                policy=PolicyConfig(),
                uniforms=uniforms,
                on_error="continue",
                **limits,
            )
        )


def is_tie(
    step: Step, state: int, strategy: str, expected: list[int], found: list[list[int]], limits: dict[str, Any]
) -> bool:
    """Whether the scores of the positions that only one side chose are equal but for rounding."""
    score = get_strategy(strategy).score(step.scores, step.definite)[state]
    positions = [position for position, _ in found]
    other = {*expected} ^ {*positions}
    differing = [pair for pair in zip(expected, positions, strict=False) if pair[0] != pair[1]]
    near = all(abs(float(score[a] - score[b])) < ROOM for a, b in differing)
    if len(expected) == len(positions):
        return bool(differing) and near
    # One side took more: what it took beside the other's lies on the limit.
    limit = limits.get("threshold")
    return near and limit is not None and all(abs(float(score[position]) - limit) < ROOM for position in other)
