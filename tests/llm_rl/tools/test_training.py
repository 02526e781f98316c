"""The gradient of conversations with tools, against loops over the sampled tokens alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.ppo.arguments import PPOArguments
from llm_rl.ppo.trainer import PPOTrainer
from llm_rl.rollout.data import Sample
from llm_rl.rollout.turns import joined, turns_of
from tests.llm_rl.helpers.grpo_reference import slow_advantages, token_logps
from tests.llm_rl.helpers.tiny_grpo import KeepGradients, keep_samples, settings
from tests.llm_rl.helpers.tiny_ppo import slow_advantages as slow_gae
from tests.llm_rl.helpers.tiny_ppo import slow_values, whitened
from tests.llm_rl.helpers.tool_play import END, Count, ScriptedEngine, chat_model, chat_tokenizer, up

ROWS = [{"prompt": [{"role": "user", "content": "Count"}], "goal": 4}]
SETTINGS: dict[str, Any] = {
    "max_completion_length": 100,
    "max_turns": 3,
    "max_grad_norm": 0.0,
    "show_supervised": False,
}
REWARDS = [1.0, 0.75, 0.0, 0.5]


def engine() -> ScriptedEngine:
    return ScriptedEngine([up(1), up(3), f"ab{END}", up(2)], [up(1), f"ab{END}", f"a{END}"], [up(2)])


def grpo(folder: Path, model: Any, **changes: Any) -> tuple[GRPOTrainer, KeepGradients, list[Sample]]:
    kept = KeepGradients()
    chosen = {**SETTINGS, "num_generations": 4, "per_device_train_batch_size": 4, **changes}
    args = GRPOArguments(**settings(folder, **chosen))
    reference = {"ref_model": chat_model(seed=5)} if "kl_weight" in changes else {}
    run = GRPOTrainer(
        model, None, args, ROWS, chat_tokenizer(), engine=engine(), environment_factory=Count, callbacks=[kept],
        **reference,
    )  # fmt: skip
    samples = keep_samples(run)
    run.train()
    return run, kept, samples


def check(start: Any, loss: Tensor, gradients: dict[str, Tensor], prefix: str = "") -> None:
    loss.backward()
    for name, parameter in start.named_parameters():
        assert parameter.grad is not None and float(parameter.grad.abs().max()) > 0
        assert (gradients[prefix + name] - parameter.grad).abs().max() < 1e-6, name


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
    run, kept, samples = grpo(tmp_path, chat_model(), **changes)
    assert [len(turns_of(sample)) for sample in samples] == [3, 2, 1, 2]
    advantages = slow_advantages(REWARDS, run.args)
    count = sum(len(turn.completion_ids) for sample in samples for turn in turns_of(sample))
    loss = torch.zeros((), dtype=torch.float64)
    for sample, advantage in zip(samples, advantages, strict=True):
        own = sum(len(turn.completion_ids) for turn in turns_of(sample))
        weight = {"grpo": 1 / (4 * own), "dapo": 1 / count, "dr_grpo": 1 / (4 * 300)}[run.args.loss_type]
        for turn in turns_of(sample):
            for logp, ref in zip(token_logps(start, turn, 1.0), token_logps(reference, turn, 1.0), strict=True):
                value = advantage * (logp - logp.detach()).exp()
                if run.args.kl_weight:
                    gap = ref.detach() - logp
                    value = value - run.args.kl_weight * (gap.exp() - gap - 1)
                loss = loss - weight * value
    check(start, loss, kept.steps[0])
    line = run.state.log_history[0]
    assert line["reward_mean"] == pytest.approx(0.5625) and line["turns"] == 2 and line["masked_frac"] == 0


@pytest.mark.parametrize("bootstrap", [False, True])
def test_ppo_passes_over_results(tmp_path: Path, bootstrap: bool) -> None:
    """The one-step error of a turn's last token has the value before the first token of the next turn in it.

    The first conversation has no turn left: bootstrapped, it goes on with the value behind the result of its last call.
    """
    start, kept = chat_model(), KeepGradients()
    chosen = {**SETTINGS, "per_device_train_batch_size": 4, "num_generations": 4, "num_ppo_epochs": 1, "gamma": 0.9}
    chosen |= {"lam": 0.8, "cliprange_value": None, "bootstrap_cut_off": bootstrap}
    args = PPOArguments(**settings(tmp_path, **chosen))
    offered: dict[str, Any] = {"environment_factory": Count, "callbacks": [kept]}
    run = PPOTrainer(chat_model(), None, args, ROWS, chat_tokenizer(), engine=engine(), **offered)
    torch.nn.init.normal_(run.value_function.head.weight, std=0.3)
    head = {name: value.clone() for name, value in run.value_function.head.state_dict().items()}
    samples = keep_samples(run)
    run.train()
    assert [sample.cut_off for sample in samples] == [True, False, False, False]
    assert (
        chat_tokenizer()
        .decode(samples[0].state_behind)
        .endswith(
            f"{up(2)}\n<|im_start|>tool\n<tool_response>\n\nb4\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
        )
    )

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
        found.append((logps, values, slow_gae(pays, [*(float(value.detach()) for value in values), last], args)))

    loss, count = torch.zeros((), dtype=torch.float64), sum(len(logps) for logps, _, _ in found)
    for (logps, values, gained), white in zip(found, whitened([gained for _, _, gained in found]), strict=True):
        for logp, value, advantage, its in zip(logps, values, gained, white, strict=True):
            loss = loss - its * (logp - logp.detach()).exp()
            loss = loss + args.vf_coef * (value - value.detach() - advantage) ** 2 / 2
    check(start, loss / count, kept.steps[0], "model.")
    assert joined(samples[0]).given is not None


def test_the_first_conversation_is_shown_with_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grpo(tmp_path, chat_model(), show_supervised=True, max_steps=1)
    shown = capsys.readouterr().out
    assert shown.count("The first sample; what is trained on stands between ⟦ and ⟧") == 1
    begin = shown.index("<|im_start|>assistant\n⟦") + len("<|im_start|>assistant\n")
    first, second, third = up(1), up(1), up(2)
    answers = [
        f"\n<|im_start|>tool\n<tool_response>\n\nb{k}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
        for k in (1, 2)
    ]
    assert shown[begin:].startswith(f"⟦{first}⟧{answers[0]}⟦{second}⟧{answers[1]}⟦{third}⟧\n")
