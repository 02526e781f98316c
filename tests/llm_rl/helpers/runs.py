"""Trainings of every trainer from tables of settings: in one process or two, sharded, killed and resumed.

Settings of a run beside the arguments of its trainer: "kind", which one; "tools", whether it plays `Count`; "lora", a
rank; "own", whether the model samples itself; "tied", whether its head is its embedding; "dtype"; "prompt", the only
one; "reward", a function of `REWARDS`; "extensions" with their options; "replay", what sampled before; and for
`record` "resume", a checkpoint, and "evaluate".
"""

import gc
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback

from llm_rl.grpo import extensions
from llm_rl.raro.batches import TokenBudgetEngine
from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine
from llm_rl.training.lora import add_lora
from llm_rl.training.sharding import whole
from tests.helpers.warm_process import run_in_two_processes
from tests.llm_rl.helpers import tiny_dpo, tiny_grpo, tiny_ppo, tiny_raro, tiny_vapor, tool_runs
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer, untimed
from tests.llm_rl.helpers.tiny_vapor import tag_tokenizer
from tests.llm_rl.helpers.tool_play import chat_model
from tests.llm_rl.helpers.watch import KeepGradients, spy

KINDS: dict[str, Any] = {"grpo": tiny_grpo, "ppo": tiny_ppo, "dpo": tiny_dpo, "vapor": tiny_vapor, "raro": tiny_raro}
REWARDS = {"small_ids": tiny_grpo.small_ids, "unless_cut": tiny_grpo.unless_cut}
OF_A_PROCESS = {"reward_std", "groups_without_spread"}
"""What PPO logs of its own roll-out alone."""


class KillAfter(TrainerCallback):
    """Ends the process with SIGKILL when a number of steps is done and before its checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


class Replay(FixedEngine):
    """Samples what two processes have sampled; the k-th call has what is left of their k-th roll-out."""

    def __init__(self, stem: str) -> None:
        ranks = [json.loads(Path(f"{stem}-rank{rank}.json").read_text())["samples"] for rank in (0, 1)]
        self.roll_outs = [first + second for first, second in zip(*ranks, strict=True)]

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        left = defaultdict(list)
        for prompt, ids, logprobs in self.roll_outs.pop(0):
            left[tuple(prompt)].append(Completion(ids, logprobs))
        return [left[tuple(prompt)].pop(0) for prompt in prompts]


class TaggingEngine(TransformersEngine):
    """Samples, but the first completion of each call has both tags and the second none, whatever is sampled."""

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        found = super().generate(prompts, params)
        for place, text in enumerate(("e red o", "sky")):
            ids = tag_tokenizer()(text)["input_ids"]
            found[place] = Completion(ids, [-1.0] * len(ids))
        return found


class DrawingEngine(TokenBudgetEngine):
    """Samples a few tokens from the model, and writes what it drew as an answer or a label."""

    def generate(self, prompts: Any, params: Any) -> list[Completion]:
        names = tag_tokenizer()
        result = []
        for prompt, drawn in zip(prompts, super().generate(prompts, replace(params, max_new_tokens=4)), strict=True):
            draw, (question, *answers) = tiny_raro.number(drawn.token_ids), names.decode(prompt).strip()[2:].split("|")
            role: Any = tiny_raro.mixed_critic if answers else tiny_raro.mixed_policy
            text = role(question, *answers, draw)
            ids = names(text.removesuffix("…"))["input_ids"][: params.max_new_tokens - 1]
            result.append(Completion(ids if text.endswith("…") else [*ids, params.eos_token_ids[0]], None))
        return result


def lengths(completions: list[str], **kwargs: Any) -> list[float]:
    return [len(text) / 10 for text in completions]


def made(folder: Path, settings: dict[str, Any], callbacks: list[Any]) -> Any:
    """The trainer of some settings."""
    changes = dict(settings)
    kind, dtype = changes.pop("kind"), getattr(torch, changes.pop("dtype", "float64"))
    own, tied, adapters = changes.pop("own", False), changes.pop("tied", False), changes.pop("lora", 0)
    given: dict[str, Any] = {"callbacks": callbacks}
    if changes.pop("tools", False):
        player = tool_runs.DrawingPlayer() if own else tool_runs.fixed_player()
        return tool_runs.trainer(kind, folder, player, chat_model(dtype=dtype), given=given, **changes)
    if kind == "vapor":
        model = tiny_vapor.tag_model(dtype)
        given |= {"engine": TaggingEngine()} if own else {"ref_model": tiny_vapor.shifted_model()}
        changes |= {"reward_funcs": lengths} if own else {}
    elif kind == "raro":
        model = tiny_raro.raro_model(dtype)
        given |= {"engine": DrawingEngine(2048)} if own else {}
    else:
        model = new_model(dtype=dtype, tie_word_embeddings=tied)
    if kind in ("grpo", "ppo"):
        prompt = changes.pop("prompt", None)
        changes["data"] = tiny_grpo.distinct_rows() if prompt is None else [{"prompt": prompt}] * 8
        changes["reward_funcs"] = REWARDS[changes.pop("reward", "small_ids")]
        replay = changes.pop("replay", None)
        if own:  # completions that end
            model.lm_head.weight.data[tokenizer().eos_token_id] += 0.5
        if replay or not own:
            given["engine"] = Replay(replay) if replay else FixedEngine()
        given |= {"next_turn": tiny_grpo.go_on} if changes.get("max_turns", 1) > 1 else {}
    if chosen := changes.pop("extensions", {}):
        given["extensions"] = [
            getattr(extensions, name)(**({"rows": tiny_grpo.EXPERTS} if name == "Chord" else {}), **options)
            for name, options in chosen.items()
        ]
    if adapters:
        torch.manual_seed(5)
        model = add_lora(model, r=adapters, target_modules=["q_proj", "o_proj", "down_proj"])
        for name, weight in model.named_parameters():
            if "lora_B" in name:  # so that adapters at the start are something
                torch.nn.init.normal_(weight, std=0.1)
    run = KINDS[kind].trainer(folder, model, given=given, **changes)
    if kind == "ppo" and not own:
        run.value_function.head.weight.data += 0.1
    return run


def play(folder: Path, settings: dict[str, Any], kill_after: int = 0) -> Any:
    """Train, from the last checkpoint if there is one, and write down what came out."""
    if kill_after:
        gc.freeze()  # in a process of its own, where the collection that `train()` asks for copies what was imported
    run = made(folder, settings, [KillAfter(kill_after)])
    # With two threads torch adds up gradients of rows that stand twice in an index in whatever order they come.
    torch.use_deterministic_algorithms(True)
    try:
        run.train(resume_from_checkpoint="last")
    finally:
        torch.use_deterministic_algorithms(False)
    (folder / "log.json").write_text(json.dumps(untimed(run.state.log_history)))
    run.save_model(str(folder / "final"))
    return run


def in_two_processes(folder: Path, runs: dict[str, dict[str, Any]]) -> Path:
    """`record` of runs by their names in two processes of one job; the folder with what they tell."""
    done = run_in_two_processes(Path(__file__), [folder, json.dumps(runs)])
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def record(stem: Path, settings: dict[str, Any]) -> None:
    """Train once, and write down this process's logs, samples, gradients, final weights and evaluation."""
    changes, kept = dict(settings), KeepGradients()
    resume, evaluate = changes.pop("resume", None), changes.pop("evaluate", False)
    notes: dict[str, Any] = {"error": None, "logs": [], "samples": []}
    try:
        run = made(stem, changes, [kept])
        roll_outs = spy(run, "_prepare_rollout") if settings["kind"] == "grpo" else []
        run.train(resume_from_checkpoint=resume)
        notes["logs"] = run.state.log_history
        notes["samples"] = [
            [(one.prompt_ids, one.completion_ids, one.engine_logprobs) for one in call.arguments[0]]
            for call in roll_outs
        ]
        steps = {f"{step}.{name}": value for step, found in enumerate(kept.steps) for name, value in found.items()}
        named = ((name, each) for name, each in run.model.named_parameters() if each.requires_grad)
        ends = {f"end.{name}": whole(each.detach()).clone() for name, each in named}
        save_file({**steps, **ends}, rank_file(stem, run.args.process_index, "safetensors"))
        if evaluate:
            notes["evaluated"] = run.evaluate(run.train_dataset)
    except Exception as error:
        notes["error"] = [type(error).__name__, str(error)]
    rank_file(stem, int(os.environ.get("RANK", 0)), "json").write_text(json.dumps(notes))


def rank_file(stem: Path, rank: int, kind: str) -> Path:
    return stem.with_name(f"{stem.name}-rank{rank}.{kind}")


def told(stem: Path, rank: int = 0) -> Any:
    """What `record` told of a run, once it has told of no error."""
    found = json.loads(rank_file(stem, rank, "json").read_text())
    assert found["error"] is None, found["error"]
    return found


def tensors(stem: Path, rank: int = 0) -> dict[str, torch.Tensor]:
    return load_file(rank_file(stem, rank, "safetensors"))


def assert_steps_of_one(alone: Path, two: Path, settings: dict[str, Any]) -> list[dict[str, float]]:
    """Each of two processes has the gradients, log lines, weights and evaluation of one; its log lines."""
    one, expected = told(alone), tensors(alone)
    kept = range(settings.get("max_steps", 1))
    for rank in (0, 1):
        other, found = told(two, rank), tensors(two, rank)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert (found[name] - value).abs().max() < 1e-6, name
        for step, line, own in zip(kept, untimed(other["logs"]), untimed(one["logs"]), strict=False):
            left_out = {"rollout_staleness"} | (OF_A_PROCESS if settings["kind"] == "ppo" else set())
            # Before the first step policy and reference are equal up to rounding.
            left_out |= {"rewards/accuracies"} if step == 0 else set()
            lines = [{name: value for name, value in each.items() if name not in left_out} for each in (line, own)]
            assert lines[0] == pytest.approx(lines[1], rel=1e-5, abs=1e-6)
        assert other.get("evaluated") == pytest.approx(one.get("evaluated"), abs=1e-6)
    return one["logs"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, settings in json.loads(sys.argv[2]).items():
        record(Path(sys.argv[1]) / name, settings)
