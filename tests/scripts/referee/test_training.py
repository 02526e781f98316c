"""The trainer of the objectives: what it asks the model, what it rewards, and its gradient; the comparison in small."""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from dllm_rl.decoding import Decoding, decode, rollout
from dllm_rl.decoding.decisions import draw_decisions
from dllm_rl.decoding.noise import StateNoise
from dllm_rl.policy import NEG_INF, score_states
from dllm_rl.training.update import objective_pass
from scripts.referee.compare import METHODS, OURS, Boards, BoardsArguments
from scripts.referee.objectives.cj_grpo import CjGrpo
from scripts.referee.objectives.dispo import DispoConfig, Reach
from scripts.referee.order_head import add_order_head, head_strategy, position_logprobs
from scripts.referee.training import (
    TEMPERATURES,
    Asked,
    ObjectiveArguments,
    ObjectiveTrainer,
    asked_of,
    at_copies,
    completions_of,
    rewards_of,
    sampling,
    token_logprobs,
)
from sudoku_dllm.several.judging import judged
from sudoku_dllm.trials.record import Records
from sudoku_dllm.trials.trial import short_training
from tests.dllm_rl.helpers.weights import moved_from, weights
from tests.scripts.helpers.started import in_small


@cache
def trial() -> Boards:
    return Boards(BoardsArguments(boards=40, test_boards=12))


def model() -> Any:
    return trial().start(0, Path())


@cache
def sampled() -> Any:
    """Decodes of twelve boards, drawn."""
    setting, arguments = trial().setting, ObjectiveArguments(**short_training(Path("runs"), 1, 0, 1e-4))
    how = sampling(None, 4, arguments.sampler)
    return decode(model(), setting.batch(setting.test_boards()), how, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "upo"])
def test_log_probabilities_are_those_of_one_copy_after_the_other(method) -> None:
    record, policy = sampled(), model().double()
    completions, mask_id = completions_of(record), record.problems.mask_id
    copies = METHODS[method][1].copies(completions, torch.Generator().manual_seed(1))
    used = torch.arange(len(record.responses)) % 3 == 0
    with torch.no_grad():
        found = at_copies(token_logprobs, policy, completions, copies, used, mask_id)
    assert found.shape == copies.masked.shape
    for row, copy in (used[:, None] & copies.scored.any(-1)).nonzero().tolist()[:40:7]:
        tokens = completions.tokens[row].masked_fill(copies.masked[row, copy], mask_id)
        with torch.no_grad():
            logits = policy(input_ids=tokens[None]).logits[0]
        logits[:, mask_id] = NEG_INF
        expected = logits.log_softmax(-1).gather(1, completions.tokens[row][:, None]).squeeze(1)
        scored = copies.scored[row, copy]
        torch.testing.assert_close(found[row, copy][scored], expected[scored])
    assert not found[~(copies.scored & used[:, None, None])].any()


def test_rewards_are_what_the_judge_of_the_study_says_of_the_same_decodes() -> None:
    by_judge, record = judged(sampled()), sampled()
    assert torch.equal(rewards_of(record, "final"), torch.from_numpy(by_judge.valid).double())
    passes = torch.from_numpy(by_judge.joint / by_judge.passes)
    torch.testing.assert_close(rewards_of(record, "passes"), passes)
    assert torch.equal(passes == 1, rewards_of(record, "final") == 1)


def test_a_head_that_is_0_chooses_as_margins_do_and_alone_is_trained(tmp_path) -> None:
    record, policy = sampled(), model()
    add_order_head(policy, 0)
    for draws, name in ((True, "policy"), (False, "policy_greedy")):
        strategies = (name, head_strategy(policy, draws=draws))
        hows = (Decoding(strategy, tokens_per_step=4, policy=TEMPERATURES) for strategy in strategies)
        plain, by_head = (
            decode(policy, record.problems, how, generator=torch.Generator().manual_seed(2)) for how in hows
        )
        assert torch.equal(plain.responses, by_head.responses) and torch.equal(plain.step_of, by_head.step_of)

    # Of each copy the chances of all masked positions add up to 1, and positions written together share a copy.
    completions = completions_of(record)
    copies = METHODS["upo"][1].copies(completions, torch.Generator())
    every = copies._replace(scored=copies.masked)
    used = torch.ones(len(completions.tokens), dtype=torch.bool)
    logprobs = at_copies(position_logprobs, policy, completions, every, used, record.problems.mask_id)
    chances = (logprobs.exp() * copies.masked).sum(-1)[copies.masked.any(-1)]
    torch.testing.assert_close(chances, torch.ones_like(chances))

    arguments = BoardsArguments(boards=40, test_boards=12, prompts=2, num_generations=4, reward="passes")
    trainer = Boards(arguments).trainer("upo", start := model(), 0, tmp_path)
    before = weights(start)
    trainer.args.max_steps = 2
    trainer.train()
    moved = moved_from(before, start)
    assert moved and all(name.startswith("order_head") for name in moved)


def test_padded_prompts_are_refused() -> None:
    record = sampled()
    padded = replace(record.problems, prompt_mask=torch.ones_like(record.problems.prompt_ids, dtype=torch.bool))
    with pytest.raises(ValueError, match="prompts differ in length"):
        completions_of(replace(record, problems=padded))


class Watched(ObjectiveTrainer):
    """Keeps the roll-outs and the gradients of its updates."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[Any] = []

    def _train_on_buffer(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        (rollout,) = self._buffered_inputs
        (copies, _, _), mask_id = rollout.updates[self._step], rollout.mask_id
        now = at_copies(token_logprobs, model, rollout.completions, copies, rollout.used, mask_id)
        loss = super()._train_on_buffer(model, inputs, num_items_in_batch)
        gradients = [None if each.grad is None else each.grad.clone() for each in model.parameters()]
        self.seen.append((rollout, now.detach(), gradients))
        return loss


def trained(folder: Path, **options: Any) -> Watched:
    setting = trial().setting
    boards, _ = setting.training_boards(0)
    settings = {**short_training(folder, 3, 0, 1e-3), "max_steps": 2, "num_generations": 4, "reward": "passes"}
    arguments = ObjectiveArguments(**{**settings, **options})
    trainer = Watched(model(), CjGrpo(), arguments, setting.filled(boards), setting.task)
    trainer.train()
    return trainer


def test_the_gradient_is_the_advantages_times_the_score_of_what_each_pass_wrote(tmp_path) -> None:
    """CJ-GRPO right after a roll-out: the mean over passes of mean A ∇ log p of the tokens that they wrote."""
    rollout, _, gradients = trained(tmp_path, max_steps=1).seen[0]
    policy, (copies, old, reference) = model(), rollout.updates[0]
    assert old is None and reference is None and rollout.used.any()
    advantage = (rollout.rewards - rollout.rewards.mean(1, keepdim=True)).flatten()
    everything = torch.ones_like(rollout.used)
    logprobs = at_copies(token_logprobs, policy, rollout.completions, copies, everything, rollout.mask_id)
    passes = copies.scored.sum((0, 2))
    each = (advantage.float()[:, None, None] * logprobs * copies.scored).sum((0, 2)) / passes
    (-each.mean()).backward()
    for parameter, found in zip(policy.parameters(), gradients, strict=True):
        torch.testing.assert_close(found, parameter.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"divergence": True, "num_iterations": 2}])
def test_many_passes_have_the_gradient_of_one(tmp_path, options) -> None:
    """Of the same roll-out; after the first update the two part by the rounding of their sums."""

    def seen(tokens: int) -> Any:
        return trained(tmp_path / str(tokens), max_steps=1, max_tokens_per_pass=tokens, **options).seen[0]

    whole, passed = seen(65536), seen(300)
    assert torch.equal(whole[0].completions.tokens, passed[0].completions.tokens)
    asked = asked_of(whole[0].completions, whole[0].updates[0][0], whole[0].used, whole[0].mask_id)
    assert len(list(asked.parts(300))) > 5 and len(list(asked.parts(65536))) == 1
    torch.testing.assert_close(whole[2], passed[2], rtol=1e-4, atol=1e-6)


def test_every_copy_is_in_one_pass() -> None:
    inputs = torch.arange(35).reshape(7, 5)
    asked = Asked(inputs, inputs > 3, inputs > 4, inputs + 1, 99)
    for tokens, sizes in ((1, [1] * 7), (10, [2, 2, 2, 1]), (14, [2, 2, 2, 1]), (35, [7])):
        parts = list(asked.parts(tokens))
        assert [len(part.inputs) for part in parts] == sizes
        for name in ("inputs", "masked", "scored", "tokens"):
            assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(asked, name))
    assert not list(Asked(inputs[:0], inputs[:0] > 3, inputs[:0] > 4, inputs[:0], 99).parts(10))


def test_a_second_update_is_compared_with_the_policy_that_sampled(tmp_path) -> None:
    (first, at_first, _), (second, at_second, _) = trained(tmp_path, num_iterations=2).seen
    assert first is second
    for now, (_, old, _), moved in zip((at_first, at_second), first.updates, (False, True), strict=True):
        assert (float((now - old).abs().max()) > 1e-3) == moved


def test_the_divergence_is_from_the_model_that_training_began_with(tmp_path) -> None:
    (first, now, _), (second, moved, _) = trained(tmp_path, divergence=True).seen
    torch.testing.assert_close(now, first.updates[0][2])
    assert first is not second
    copies, _, reference = second.updates[0]
    with torch.no_grad():
        of_start = at_copies(token_logprobs, model(), second.completions, copies, second.used, second.mask_id)
    torch.testing.assert_close(reference, of_start)
    assert float((moved - reference).abs().max()) > 1e-3
    with_it, without = (CjGrpo().loss(moved, copies, torch.zeros(3, 4), None, each) for each in (reference, None))
    assert float(with_it) > 0 and float(without) == 0


@pytest.mark.parametrize("reach", get_args(Reach))
def test_branches_of_a_state_are_worth_what_they_earn_in_it(reach) -> None:
    """DiSPO against a loop over states and branches: all that is masked is filled, or four cells of it."""
    setting, policy, noise = trial().setting, model(), StateNoise((7,))
    how = Decoding("policy", tokens_per_step=4, policy=TEMPERATURES, on_error="redraw", draws=32)
    grids = setting.training_boards(0)[1][:6].copy()
    grids[:, ::2] = 0  # so few cells are open that some fillings of all are right
    trajectories = rollout(policy, setting.batch(grids), how)
    config, problems = DispoConfig(reach=reach, judged_draws=16, reduction="mean"), trajectories.problems
    objective_pass(policy, trajectories, lambda one, other: (one + other).backward(), config=config, noise=noise)

    visits = Counter(trajectories.state_of[trajectories.live].tolist())
    most = trajectories.responses.shape[1] if reach == "all" else 4
    uniforms, expected = noise.of_states(trajectories.problem_of, 0, (16, most, 2)), model()
    for number, (state, of) in enumerate(zip(trajectories.responses, trajectories.problem_of, strict=True)):
        prompts, how = problems.prompts_of(of[None]), trajectories.policy
        scores = score_states(expected, *prompts, state[None], problems.mask_id, how)
        logits, filled, logprobs = scores.logits.log_softmax(-1), state.repeat(16, 1), []
        positions, tokens = draw_decisions(scores, torch.tensor([0]), uniforms[number, None], how)
        for branch, (at, new) in enumerate(zip(positions[0], tokens[0], strict=True)):
            rows, new = scores.row_of[0, at[at >= 0]], new[at >= 0]
            filled[branch, at[at >= 0]] = new
            logprobs.append(logits[rows, new].mean())
            assert len(rows) == min(most, int((state == problems.mask_id).sum()))
        earned = problems.completable(filled, of.expand(16)).float()
        spread = earned.std(correction=0)
        advantages = (earned - earned.mean()) / spread if spread > 0 else torch.zeros(16)
        weight = visits[number] / trajectories.decisions[of] / len(trajectories.state_of)
        (weight * (advantages * torch.stack(logprobs)).mean()).backward()
    assert any(bool(each.grad.any()) for each in expected.parameters())
    for one, other in zip(policy.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-6)


def test_all_methods_in_small(tmp_path) -> None:
    words = "--boards 40 --test_boards 6 --max_steps 2 --prompts 2 --num_generations 2 --reward passes"
    table = in_small("referee/__main__.py", tmp_path, *METHODS, *OURS, *words.split())
    assert all(title in table for title in Boards.ARMS.values()) and "right at 4 cells" in table
    assert Records(tmp_path).outcomes("judged/seed0")["right/4"].shape == (6,)
