"""The policy that may mask cells again, by hand, and its expected reward against actions really taken."""

from itertools import product

import gymnasium
import numpy as np
import pytest
import torch

from dllm_rl.policy import PolicyConfig, log_margins
from dllm_rl.revision import expected_reward, revision_logprobs
from dllm_rl.self_correction import SelfCorrectionArguments, SelfCorrectionTrainer
from dllm_rl.sft import SftDataset
from sudoku_env.envs.sources import PromptPool
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill
from tests.dllm_rl.helpers.tiny_training import sudoku_task, tokenizer, warm_model

MASK, COST, LAM = tokenizer().mask_token_id, 0.75, 0.25


def test_scores_by_hand():
    """Masked: first against second. Filled: the best other token against the one that stands there."""
    probabilities = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.1, 0.6, 0.3]])
    logits = torch.cat([probabilities.log(), torch.full((3, 1), float("-inf"))], dim=1)
    states, at = torch.tensor([[3, 9, 1, 2]]), torch.tensor([[True, False, True, True]])
    policy = PolicyConfig(position_temperature=0.5, margin_eps=1e-9)
    found = revision_logprobs(logits, states, at, 3, policy)
    scores = np.log([0.5 / 0.3, 0.3 / 0.6, 0.6 / 0.3]) / 0.5
    expected = scores - np.log(np.exp(scores).sum())
    assert found[0, [0, 2, 3]].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert found[0, 1] == float("-inf")
    assert float(log_margins(logits[:1], 1e-9)) == pytest.approx(scores[0] * 0.5, abs=1e-6)


def test_the_expected_reward_of_a_state_is_that_of_the_environment(tmp_path):
    """Every action is taken in `SudokuUnmask-v0(take_back=True)` from the states that decodes have come to."""
    prompts = [build_prompt(board, "compact") for board in generate(3, size=4, clues=(8, 10), seed=1).boards]
    args = SelfCorrectionArguments(
        str(tmp_path), report_to="none", use_cpu=True, decodes=3, lam=LAM, error_cost=COST, sampled_passes=1.0,
        position_temperature=0.7, token_temperature=0.8, objective_weight=1.0, most_tokens_per_step=2,
    )  # fmt: skip
    task = sudoku_task(with_tail=True)
    problems = task.batch([pre_fill(prompt, tokenizer(), 19) for prompt in prompts])
    trainer = SelfCorrectionTrainer(model=warm_model(), args=args, task=task, train_dataset=SftDataset(problems))
    trainer.decodes = trainer._first_decodes(problems)
    env = gymnasium.make(
        "sudoku_env:SudokuUnmask-v0",
        source=PromptPool(prompts),
        tokenizer=tokenizer(),
        max_gen_length=problems.responses.shape[1],
        take_back=True,
        error_cost=COST,
        lam=LAM,
        max_steps=200,
        disable_env_checker=True,
    ).unwrapped
    kinds = set()
    for _ in range(4):
        decodes = trainer.decodes
        with torch.no_grad():
            logits, _ = trainer._decode_loss(trainer.model, decodes)
            found = trainer._expected_reward(logits, decodes)
        for row in range(3):
            own = logits[decodes.open.nonzero()[:, 0] == row]
            total, seen = enumerated(env, row, decodes.states[row], decodes.open[row], own, args)
            assert float(found[row]) == pytest.approx(total, abs=2e-5)
            kinds |= seen
        decodes.advance(logits, args, trainer.policy)
    assert kinds == {"definite", "wrong", "right"}


def enumerated(env, index, state, open_, logits, args):
    """The mean reward over all positions and tokens, of a state that is written first, and what it holds."""
    length, places = len(state), open_.nonzero()[:, 0].tolist()
    actions = [np.array([ell, int(state[ell])]) for ell in places if state[ell] != MASK]
    info = played(env, index, actions)[1]
    cells = [ell for ell in places if info["remaskable"][ell] or state[ell] == MASK]
    scores, q = {}, {}
    for ell, row in zip(places, logits, strict=True):
        p = row.softmax(-1)
        q[ell] = (row / args.token_temperature).softmax(-1)
        held = int(state[ell])
        if held == MASK:
            first, second = p.topk(2).values
        else:
            first, second = p[torch.arange(len(p)) != held].max(), p[held]
        scores[ell] = float(((first + args.margin_eps) / (second + args.margin_eps)).log()) / args.position_temperature
    weights = np.exp([scores[ell] for ell in cells])
    pi = dict(zip(cells, weights / weights.sum(), strict=True))
    total = 0.0
    for ell in cells:
        if state[ell] != MASK:
            total += pi[ell] * played(env, index, [*actions, np.array([length + ell, 0])])[0]
    for ell, token in product(cells, range(logits.shape[1])):
        if state[ell] == MASK and token != MASK:
            total += pi[ell] * float(q[ell][token]) * played(env, index, [*actions, np.array([ell, token])])[0]
    filled = [ell for ell in cells if state[ell] != MASK]
    kinds = {"wrong" if info["wrong"][ell] else "right" for ell in filled}
    return total, kinds | ({"definite"} if info["definite"].any() else set())


def played(env, index, actions):
    """Reward and information of the last of some actions from the start of a puzzle."""
    reward, info = 0.0, env.reset(options={"index": index})[1]
    for action in actions:
        _, reward, _, _, info = env.step(action)
    return reward, info


def test_gradient_by_differences():
    """Of the expected reward with respect to logits, in double precision."""
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64)
    logits[:, 3] = float("-inf")
    states, at = torch.tensor([[3, 0, 3], [2, 1, 3]]), torch.tensor([[True, True, True], [True, False, True]])
    judged = torch.tensor([[True, True, False], [True, True, True]])
    answers = torch.tensor([[1, 2, 0], [2, 1, 0]])

    def value(free):
        whole = logits.clone()
        whole[:, :3] = free
        chosen = whole.log_softmax(-1).gather(1, answers[at][:, None]).squeeze(1)
        return expected_reward(
            revision_logprobs(whole, states, at, 3, PolicyConfig(position_temperature=0.6)),
            torch.zeros(2, 3, dtype=torch.float64).masked_scatter(at, chosen),
            masked=states == 3,
            judged=judged,
            definite=torch.tensor([[False, False, False], [False, False, True]]),
            scored=torch.zeros(2, 3, dtype=torch.bool),
            filled=at & (states != 3) & judged,
            wrong=at & (states != 3) & judged & (states != answers),
            lam=LAM,
            error_cost=COST,
        ).sum()

    free = logits[:, :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(value, (free,))
