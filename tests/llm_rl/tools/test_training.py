"""The gradient of conversations with tools, against loops over the sampled tokens alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from llm_rl.rollout.data import Sample
from llm_rl.rollout.turns import joined, turns_of
from tests.llm_rl.helpers.grpo_reference import slow_advantages, token_logps
from tests.llm_rl.helpers.tiny_ppo import slow_advantages as slow_gae
from tests.llm_rl.helpers.tiny_ppo import slow_values, whitened
from tests.llm_rl.helpers.tool_play import END, ScriptedEngine, answered, chat_model, chat_tokenizer, up
from tests.llm_rl.helpers.tool_runs import TO_FOUR, trainer
from tests.llm_rl.helpers.watch import assert_gradients, gradients_of, keep_samples

SETTINGS: dict[str, Any] = {"data": TO_FOUR, "per_device_train_batch_size": 4, "max_grad_norm": 0.0}
REWARDS = [1.0, 0.75, 0.0, 0.5]


def engine() -> ScriptedEngine:
    return ScriptedEngine([up(1), up(3), f"ab{END}", up(2)], [up(1), f"ab{END}", f"a{END}"], [up(2)])


def check(start: Any, loss: Tensor, gradients: dict[str, Tensor], prefix: str = "") -> None:
    loss.backward()
    assert_gradients(gradients, start, prefix)
    assert all(parameter.grad.abs().max() > 0 for parameter in start.parameters())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loss_type": "dapo", "kl_weight": 0.3, "padding_free": True},
        {"loss_type": "dapo", "episode_as": "turns"},
        {"loss_type": "dr_grpo"},
    ],
    ids=str,
)
def test_grpo_trains_on_what_was_sampled_and_reads_the_results(tmp_path: Path, changes: dict[str, Any]) -> None:
    start, reference = chat_model(), chat_model(seed=5)
    given = {"ref_model": chat_model(seed=5)} if "kl_weight" in changes else {}
    run = trainer("grpo", tmp_path, engine(), given=given, **SETTINGS, **changes)
    samples = keep_samples(run)
    (gradients,) = gradients_of(run)
    assert [len(turns_of(sample)) for sample in samples] == [3, 2, 1, 2]
    advantages = slow_advantages(REWARDS, run.args)
    count = sum(len(turn.completion_ids) for sample in samples for turn in turns_of(sample))
    loss = torch.zeros((), dtype=torch.float64)
    for sample, advantage in zip(samples, advantages, strict=True):
        own = sum(len(turn.completion_ids) for turn in turns_of(sample))
        weight = {"grpo": 1 / (4 * own), "dapo": 1 / count, "dr_grpo": 1 / (4 * 300)}[run.args.loss_type]
        for turn in turns_of(sample):
            logps, ref = token_logps(start, turn, 1.0), token_logps(reference, turn, 1.0).detach()
            values = advantage * (logps - logps.detach()).exp()
            if run.args.kl_weight:
                values = values - run.args.kl_weight * ((ref - logps).exp() - (ref - logps) - 1)
            loss = loss - weight * values.sum()
    check(start, loss, gradients)
    line = run.state.log_history[0]
    assert line["reward_mean"] == pytest.approx(0.5625) and line["turns"] == 2 and line["masked_frac"] == 0


@pytest.mark.parametrize("bootstrap", [False, True])
def test_ppo_passes_over_results(tmp_path: Path, bootstrap: bool) -> None:
    """The one-step error of a turn's last token has the value before the first token of the next turn in it.

    The first conversation has no turn left: bootstrapped, it goes on with the value behind the result of its last call.
    """
    start = chat_model()
    chosen = {"num_ppo_epochs": 1, "gamma": 0.9, "lam": 0.8, "cliprange_value": None, "bootstrap_cut_off": bootstrap}
    run = trainer("ppo", tmp_path, engine(), **SETTINGS, **chosen)
    torch.nn.init.normal_(run.value_function.head.weight, std=0.3)
    head = {name: value.clone() for name, value in run.value_function.head.state_dict().items()}
    samples = keep_samples(run)
    (gradients,) = gradients_of(run)
    assert [sample.cut_off for sample in samples] == [True, False, False, False]
    assert chat_tokenizer().decode(samples[0].state_behind).endswith(up(2) + answered("\nb4"))

    own_head = torch.nn.Linear(16, 1, dtype=torch.float64)
    own_head.load_state_dict(head)
    found = []
    for sample, total in zip(samples, REWARDS, strict=True):
        turns = turns_of(sample)
        logps = [logp for turn in turns for logp in token_logps(start, turn, 1.0)]
        values = [value for turn in turns for value in slow_values(start, own_head, turn)[:-1]]
        pays, last = [0.0] * (len(logps) - 1) + [total], 0.0
        if bootstrap and sample is samples[0]:
            state = Sample({}, sample.state_behind, [], truncated=True)
            last = float(slow_values(start, own_head, state)[0].detach())
        found.append((logps, values, slow_gae(pays, [*(float(value.detach()) for value in values), last], run.args)))

    loss, count = torch.zeros((), dtype=torch.float64), sum(len(logps) for logps, _, _ in found)
    for (logps, values, gained), white in zip(found, whitened([gained for _, _, gained in found]), strict=True):
        for logp, value, advantage, its in zip(logps, values, gained, white, strict=True):
            loss = loss - its * (logp - logp.detach()).exp()
            loss = loss + run.args.vf_coef * (value - value.detach() - advantage) ** 2 / 2
    check(start, loss / count, gradients, "model.")
    assert joined(samples[0]).given is not None


def test_the_first_conversation_is_shown_with_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer("grpo", tmp_path, engine(), show_supervised=True, **SETTINGS).train()
    shown = capsys.readouterr().out
    assert shown.count("The first sample; what is trained on stands between ⟦ and ⟧") == 1
    begin = shown.index("<|im_start|>assistant\n⟦") + len("<|im_start|>assistant\n")
    told = [f"⟦{up(1)}⟧", answered("\nb1"), f"⟦{up(1)}⟧", answered("\nb2"), f"⟦{up(2)}⟧\n"]
    assert shown[begin:].startswith("".join(told))
