"""Each objective gives the loss and the gradient that its authors' code gives at a fixed commit (docs/referee.md)."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from scripts.referee.objectives import cj_grpo, diffu_grpo, espo, just_grpo, spg, trace_rl, upo, wd1
from scripts.referee.objectives.copies import Completions, Copies, Objective
from scripts.referee.objectives.coupled_grpo import PUBLISHED as COUPLED
from scripts.referee.objectives.coupled_grpo import coupled_copies
from scripts.referee.objectives.lightning_reward import lightning_rewards
from scripts.referee.tiny import TinyModel, logprobs_of, position_logprobs_of

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))
PROMPT, MASK, SEED = 3, 5, 11
TOKENS = torch.tensor([[0, 1, 2, 3, 0, 2, 1], [0, 1, 2, 1, 2, 4, 4], [3, 2, 0, 2, 2, 0, 3], [3, 2, 0, 1, 4, 4, 4]])
ENDS = torch.tensor([4, 3, 4, 2])
"""So many tokens of each completion count: up to its first 4, which ends a text."""
PASSES = torch.tensor([[2, 0, 3, 1], [0, 1, 1, 2], [0, 1, 2, 3], [2, 2, 1, 0]])
ORDERS = torch.tensor([[2, 0, 3, 1], [0, 1, 3, 2], [0, 1, 2, 3], [3, 2, 1, 0]])
REWARDS = torch.tensor([[1.0, 0.0, 0.5, 0.25]], dtype=torch.float64)
PHASES = {"new": 0.0, "old": 0.15, "reference": 0.4}
RIGHT = torch.tensor([[True, False, True, True], [True, False, False, False], [False, True, True, False]])
LENGTHS = torch.tensor([[12, 16, 9, 8], [10, 12, 14, 16], [8, 8, 8, 8]])
FORWARDS = torch.tensor([[6, 4, 9, 2], [5, 6, 2, 16], [4, 4, 4, 4]])


def completions(all_count: bool = False, passes: Tensor = PASSES) -> Completions:
    """Four completions of four tokens, behind prompts of three; tokens behind the end may count too."""
    position = torch.arange(TOKENS.shape[1]) - PROMPT
    completed = (position >= 0).expand(TOKENS.shape)
    counted = completed if all_count else completed & (position < ENDS.unsqueeze(1))
    return Completions(TOKENS, completed, counted, torch.nn.functional.pad(passes, (PROMPT, 0), value=-1))


def model(which: str) -> TinyModel:
    """The model "new", which is trained, "old", which sampled, or "reference"."""
    return TinyModel(TOKENS.shape[1], MASK + 1, MASK + 1, PHASES[which])


COUNTED, ALL, ONE_BY_ONE = completions(), completions(all_count=True), completions(True, ORDERS)
RATE = 0.2 + 0.6 * 0.4523795535098186
"""t as the random numbers of Python have it at the golden start."""


def start(number: int = SEED) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def judged(objective: Objective, of: Completions, copies: Copies, *, groups: int = 1, old: bool = True) -> list[Tensor]:
    """The loss and its gradient."""
    new = model("new")
    asked = position_logprobs_of if isinstance(objective, upo.Upo) else logprobs_of
    logprobs = asked(new, of, copies, MASK)
    with torch.no_grad():
        others = [asked(model(which), of, copies, MASK) for which in ("old", "reference")]
    if isinstance(objective, trace_rl.TraceRl):
        others[1] = others[0]
    advantages = objective.advantages(REWARDS.reshape(groups, -1))
    loss = objective.loss(logprobs, copies, advantages, *(others if old else ()))
    gradient = torch.autograd.grad(loss, list(new.parameters()))
    return [loss.detach(), torch.cat([part.flatten() for part in gradient])]


def drawn(objective: Objective, of: Completions, number: int = SEED, **options: bool | int) -> list[Tensor]:
    return judged(objective, of, objective.copies(of, start(number)), **options)


UPPER = spg.Spg(bound="upper", power=1.5, block_length=2, prompt_rate=0.3)
CLOSELY = espo.Espo(to_even=True, num_draws=1, clip_low=0.02, clip_high=0.03)
"""A range so close that the ratios of whole completions are clipped."""
CASES = {
    "diffu_grpo": lambda: drawn(diffu_grpo.DiffuGrpo(reduction="mean", prompt_rate=0.3), COUNTED),
    "coupled_grpo": lambda: judged(COUPLED, COUNTED, coupled_copies(COUNTED, torch.tensor([[RATE]]), start(), 0.5)),
    "wd1": lambda: drawn(wd1.Wd1(prompt_rate=0.3), COUNTED),
    "wd1_two_groups": lambda: drawn(wd1.Wd1(prompt_rate=0.3, over_batch=True), COUNTED, groups=2),
    "spg": lambda: drawn(spg.Spg(block_length=2, prompt_rate=0.3), COUNTED),
    "spg_upper": lambda: drawn(UPPER, COUNTED),
    "espo_11": lambda: drawn(espo.Espo(to_even=True, num_draws=1), ALL),
    "espo_12": lambda: drawn(CLOSELY, ALL, SEED + 1),
    "trace_rl": lambda: drawn(trace_rl.PUBLISHED, ALL),
    "trace_rl_shrink": lambda: drawn(trace_rl.TraceRl(reduction="mean", shrink=2), ALL),
    "cj_grpo": lambda: drawn(cj_grpo.PUBLISHED, ALL),
    "just_grpo": lambda: drawn(just_grpo.PUBLISHED, ALL, old=False),
    "upo": lambda: drawn(upo.PUBLISHED, ONE_BY_ONE),
}


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_those_of_the_authors(name) -> None:
    loss, gradient = CASES[name]()
    assert float(loss) == pytest.approx(GOLDEN[name]["value"], rel=1e-5, abs=1e-6)
    assert gradient.abs().max() > 0.01
    torch.testing.assert_close(gradient, torch.tensor(GOLDEN[name]["gradient"]).double(), rtol=1e-5, atol=1e-6)


REWARDED = {
    "z_score": {},
    "minmax": {"right_scale": "signs", "speed_scale": "range"},
    "none": {"right_scale": "signs", "speed_scale": "plain", "weight": 0.1},
}


@pytest.mark.parametrize("name", REWARDED)
def test_the_rewards_of_lightning_are_those_of_the_authors(name) -> None:
    rewards = lightning_rewards(RIGHT, LENGTHS / FORWARDS.double(), **REWARDED[name])
    torch.testing.assert_close(rewards, torch.tensor(GOLDEN[f"lightning_{name}"]["rewards"], dtype=torch.float64))


def test_what_the_authors_code_gave_is_all_compared() -> None:
    padded, rewards = ("diffu_grpo_padded", "coupled_grpo_padded"), (f"lightning_{name}" for name in REWARDED)
    assert {*CASES, *padded, *rewards} == {*GOLDEN}


@pytest.mark.parametrize(
    ("name", "objective", "of", "number"),
    [
        ("diffu_grpo", diffu_grpo.DiffuGrpo(reduction="mean", prompt_rate=0.3), COUNTED, SEED),
        ("espo_12", CLOSELY, ALL, SEED + 1),
        ("trace_rl", trace_rl.PUBLISHED, ALL, SEED),
        ("cj_grpo", cj_grpo.PUBLISHED, ALL, SEED),
        ("upo", upo.PUBLISHED, ONE_BY_ONE, SEED),
    ],
)
def test_clipping_acts_in_what_is_compared(name, objective, of, number) -> None:
    loss, _ = drawn(replace(objective, clip_low=1.0, clip_high=math.inf), of, number)
    assert abs(float(loss) - GOLDEN[name]["value"]) > 1e-3


@pytest.mark.parametrize("name", ["diffu_grpo", "coupled_grpo"])
def test_their_code_reads_padding_as_prompt(name) -> None:
    """A token that the mask of the prompt hides changes nothing there, and what a model says that does not read it."""
    assert GOLDEN[f"{name}_padded"] == GOLDEN[name]
    copies = diffu_grpo.PUBLISHED.copies(COUNTED, start())
    inputs = copies.inputs(COUNTED, MASK).squeeze(1)
    read = torch.ones_like(inputs, dtype=torch.bool)
    read[:, 0] = False
    assert not torch.allclose(model("new")(inputs).logits, model("new")(inputs, read).logits)


def test_the_papers_formula_differs_from_the_code_where_the_page_says_so() -> None:
    cases: list[tuple[str, list[Tensor]]] = [
        ("diffu_grpo", drawn(diffu_grpo.DiffuGrpo(prompt_rate=0.3), COUNTED)),
        ("wd1_two_groups", drawn(wd1.Wd1(prompt_rate=0.3), COUNTED, groups=2)),
        ("spg", drawn(spg.Spg(block_length=2, prompt_rate=0.3, block_only=True), COUNTED)),
        ("espo_11", drawn(espo.Espo(num_draws=1), ALL)),
        ("trace_rl", drawn(trace_rl.TraceRl(), ALL)),
        ("just_grpo", drawn(just_grpo.PUBLISHED, ALL)),
    ]
    for name, (loss, _) in cases:
        assert abs(float(loss) - GOLDEN[name]["value"]) > 1e-4, name
