"""Conversations with tools at scale: a model plays many at once, and each is written down as it ends.

An environment, or tools and a file of tasks (JSON lines with a "prompt", messages) give conversations.jsonl in the
output folder, a line for each conversation, and in the end kept.jsonl with those that pass the filters. Whatever stops
it, the same command goes on where it stopped; other filters need no more playing.

    python -m llm_rl.tools.collect --model FOLDER --tasks tasks.jsonl --environment my_games:Game --per_task 4
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from llm_rl.core._checks import check_positive
from llm_rl.core._options import option
from llm_rl.rollout.completions import check_all_rows, prompt_ids, sampling_params
from llm_rl.rollout.data import Sample, is_conversation, text_messages
from llm_rl.rollout.generation import GenerationEngine, TransformersEngine
from llm_rl.rollout.loading import load_policy, read_lines
from llm_rl.rollout.rewards import RewardFunctions, listed
from llm_rl.rollout.sampling import score_samples
from llm_rl.rollout.scoring import causal_model, positions_of
from llm_rl.rollout.server.engine import ServedEngine
from llm_rl.rollout.turns import play_turns, texts_of, turns_of
from llm_rl.tools.calls import CallFormat
from llm_rl.tools.episodes import Episode, EpisodePartner, begin, new_episode, offered, spoken
from llm_rl.tools.template import ResultFrame, check_shows_tools
from llm_rl.training.callbacks import append_json_line, write_json_lines
from llm_rl.training.command_line import INTERRUPTED, fail, need_file, need_model, need_writable, parse, user_errors
from llm_rl.training.errors import CheckpointError
from llm_rl.training.run_folder import run_lock

FAILED = 1
WRITTEN, KEPT = "conversations.jsonl", "kept.jsonl"
BAR = "{l_bar}{bar}| {n_fmt} of {total_fmt} [{elapsed}<{remaining}{postfix}]"


class CollectError(RuntimeError):
    """Something failed while conversations were played; those that had ended are written, and the same call goes on."""


@dataclass
class CollectOptions:
    """How conversations are played and which are kept.

    Raises:
        ValueError: A value is out of range, or a filter does nothing.
    """

    output_dir: str = option("runs/collected", f"Folder of {WRITTEN} and {KEPT}.")
    per_task: int = option(1, "Conversations about each task.")
    at_once: int = option(64, "Conversations side by side; one that ends makes room.")
    max_turns: int = option(8, "Turns of the model in a conversation, at most.")
    max_completion_length: int = option(256, "Longest turn of the model in tokens.")
    max_result_tokens: int = option(256, "Longest result of a tool in tokens; cut behind.")
    tool_timeout: float = option(60.0, "Seconds until a tool counts as not answering.")
    temperature: float = option(1.0, "Temperature of sampling.")
    seed: int = option(0, "Seed of sampling.")
    min_reward: float | None = option(None, "Keep conversations with this reward at least.")
    shortest_per_task: bool = option(False, "Keep of each task the one with fewest tokens.")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name not in ("output_dir", "seed", "min_reward", "shortest_per_task"):
                check_positive(name, value)
        if self.shortest_per_task and self.per_task == 1:
            raise ValueError("shortest_per_task does nothing with per_task=1; ask for several conversations of a task")


def collect(
    model: nn.Module | str,
    tasks: Sequence[Mapping[str, Any]],
    options: CollectOptions,
    processing_class: Any = None,
    *,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment_factory: Callable[[], Any] | None = None,
    reward_funcs: Any = (),
    call_format: CallFormat | None = None,
    engine: GenerationEngine | None = None,
) -> list[dict[str, Any]]:
    """Play conversations about tasks, as roll-outs of a trainer do, and write each as it ends.

    A record has "task" and "conversation", numbers; "prompt" and "completion", messages, and "tools", as
    `read_trajectories` reads them; "reward", None where nothing pays or a tool left the environment's state unknown;
    "turns", "tokens" of the model, "calls" by outcome, "cut_off", "truncated"; and "row", the task.

    Args:
        model: A causal language model, or its folder or name on the hub.
        tasks: Rows with a "prompt", messages, and columns for `reset` of the environment and the reward functions.
        options: How to play and what to keep.
        processing_class: The tokenizer. None: that of `model`.
        tools: Functions that the model may call.
        environment_factory: Makes an environment for each conversation, in place of `tools`.
        reward_funcs: Reward functions beside the `get_reward` of environments.
        call_format: How the model writes calls. None: as `CallFormat` has it.
        engine: What samples. None: `TransformersEngine`.

    Returns:
        The records that pass the filters, by task. None ends without an end token, as it would be learned with one, and
        of those with the same messages the first is there.

    Raises:
        ValueError: A task, a tool or the chat template is not fit, there are both tools and an environment or neither,
            nothing pays where `min_reward` is set, or the folder has conversations about other tasks.
        CollectError: Something failed while conversations were played.
        CheckpointError: Another process plays into the folder.
    """
    if (tools is None) == (environment_factory is None):
        raise ValueError("give tools or an environment, one of the two, as what answers the model")
    model, tokenizer = load_policy(model, processing_class)
    causal, calls = causal_model(model), call_format or CallFormat()
    toolbox, functions = offered(tools, environment_factory, listed(reward_funcs))
    assert toolbox is not None
    if options.min_reward is not None and not functions:
        raise ValueError("min_reward is set and nothing pays; give reward functions, or environments with get_reward")
    check_shows_tools(tokenizer, toolbox.schemas, {})
    params = sampling_params(causal, tokenizer, options.max_completion_length, options.temperature)
    params, template = calls.ending(params, tokenizer), {"tools": toolbox.schemas}

    def encode(row: Any) -> list[int]:
        ids = prompt_ids(row, causal, tokenizer, params, template)
        if not is_conversation(row["prompt"]):
            raise ValueError(f"prompt is {row['prompt']!r}, a text; with tools it must be a list of messages")
        return ids

    check_all_rows("tasks", tasks, encode, quiet=False)
    path = Path(options.output_dir) / WRITTEN
    with run_lock(path.parent):
        records = _written(path, tasks)
        wanted = [(task, number) for task in range(len(tasks)) for number in range(options.per_task)]
        left = sorted({*wanted} - {*map(_place, records)})
        episodes: dict[int, Episode] = {}

        def begun() -> Iterator[tuple[Mapping[str, Any], list[int]]]:
            for index, (task, _) in enumerate(left):
                episodes[index] = new_episode(environment_factory)
                row = begin(episodes[index], tasks[task], tokenizer)
                yield row, encode(row)

        limits = options.max_result_tokens, options.tool_timeout
        partner = EpisodePartner(episodes, toolbox, ResultFrame(tokenizer, {}), calls, tokenizer, *limits)
        rewards = RewardFunctions(functions, leave_out=True) if functions else None
        room = positions_of(causal)
        engine = TransformersEngine() if engine is None else engine
        torch.manual_seed(options.seed + len(records))  # other numbers than those that were drawn before
        since = time.monotonic()
        bar = tqdm(total=len(wanted), initial=len(wanted) - len(left), bar_format=BAR, desc="Conversations")
        try:
            if left:  # other filters alone need no engine
                engine.load_weights(causal)
            for index, sample in play_turns(begun(), partner, options.max_turns, engine, params, room, options.at_once):
                task, number = left[index]
                about = {"tools": toolbox.schemas, "row": dict(tasks[task])}
                played = _record(replace(sample, episode=episodes.pop(index)), tokenizer, rewards)
                record = {"task": task, "conversation": number, **played, **about}
                append_json_line(path, record)
                records.append(record)
                bar.update()
                bar.set_postfix_str(f"{60 * (bar.n - bar.initial) / (time.monotonic() - since):.0f} a minute", False)
            kept = _kept(records, options)
            write_json_lines(path.with_name(KEPT), kept)
        except Exception as error:
            raise CollectError(
                f"{type(error).__name__}: {error}; {bar.n} of {len(wanted)} conversations are in {path}, and the same "
                "command goes on from them"
            ) from error
        finally:
            bar.close()
        return kept


def _record(sample: Sample, tokenizer: Any, rewards: RewardFunctions | None) -> dict[str, Any]:
    """What is written of a conversation, but for its task."""
    completion, episode, reward = spoken(sample, tokenizer), sample.episode, math.nan
    if rewards is not None and not episode.over:
        further: dict[str, list[Any]] = {"turns": [texts_of(sample, tokenizer)]}
        if episode.environment is not None:
            further["environments"] = [episode.environment]
        reward = rewards.total(score_samples(rewards, [sample], [completion], further)).item()
    return {
        "prompt": text_messages(sample.row["prompt"]),
        "completion": completion,
        "reward": None if math.isnan(reward) else reward,
        "turns": len(turns_of(sample)),
        "tokens": sum(len(turn.completion_ids) for turn in turns_of(sample)),
        "calls": episode.outcomes,
        "cut_off": sample.cut_off,
        "truncated": sample.truncated,
    }


def _written(path: Path, tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records of a file about these tasks; a last line that is torn is taken away."""
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)

    def checked(line: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(line)
        task = record.get("task", -1)
        if not 0 <= task < len(tasks) or json.dumps(record["row"]) != json.dumps(dict(tasks[task])):
            raise ValueError("a conversation about another task; name another output_dir, or give the tasks as before")
        return record

    return read_lines(path, checked, "") if whole else []


def _kept(records: Sequence[dict[str, Any]], options: CollectOptions) -> list[dict[str, Any]]:
    """The records that pass the filters, in the order of the tasks."""
    found = sorted((record for record in records if not record["truncated"]), key=_place, reverse=True)
    if (least := options.min_reward) is not None:
        found = [record for record in found if record["reward"] is not None and record["reward"] >= least]
    # Of several that a key is the same of, the last stays, which is the first one.
    found = [*{json.dumps([record["prompt"], record["completion"]]): record for record in found}.values()]
    if options.shortest_per_task:
        found = [*{each["task"]: each for each in sorted(found, key=lambda each: -each["tokens"])}.values()]
    return sorted(found, key=_place)


def _place(record: Mapping[str, Any]) -> tuple[int, int]:
    return record["task"], record["conversation"]


@dataclass
class Command:
    """The model, the tasks and what answers; module:name is what has this name in a module."""

    model: str = option("", "Folder or name of the model; with a server, of its tokenizer.")
    tasks: Path = option(Path("tasks.jsonl"), "JSON lines, each a task with a prompt.")
    server: str | None = option(None, "Address of a server that has the model.")
    environment: str | None = option(None, "module:name of what makes an environment.")
    tools: str | None = option(None, "module:name of a list of functions.")
    rewards: list[str] = option([], "module:name of each reward function.")
    call_format: str | None = option(None, "module:name of a CallFormat, if not JSON's.")


def main() -> None:
    """Play and tell how many are written and kept."""
    command, options = parse(Command, CollectOptions, description=__doc__)
    need_model("model", command.model)
    need_file("tasks", command.tasks)
    need_writable("output_dir", options.output_dir)
    names = {"environment_factory": command.environment, "tools": command.tools, "call_format": command.call_format}
    try:
        with user_errors(ValueError, OSError, ImportError, AttributeError):
            given = {name: None if text is None else _named(text) for name, text in names.items()}
            rewards = [_named(text) for text in command.rewards]
            tasks = read_lines(command.tasks, json.loads, 'one task a line, as {"prompt": [{"role": "user", …}]}')
            model, tokenizer, engine = _loaded(command)
        with user_errors(ValueError, OSError, CheckpointError):
            kept = collect(model, tasks, options, tokenizer, reward_funcs=rewards, engine=engine, **given)
    except CollectError as error:
        fail(str(error), FAILED)
    except KeyboardInterrupt:
        fail("stopped; the same command goes on", INTERRUPTED)
    print(f"Conversations: {Path(options.output_dir) / WRITTEN}; {len(kept)} kept: {Path(options.output_dir) / KEPT}")


def _named(text: str) -> Any:
    """What `module:name` names."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise ValueError(f"{text!r} is not module:name, such as my_games:Game")
    return getattr(import_module(module), name)


def _loaded(command: Command) -> tuple[Any, Any, GenerationEngine | None]:
    """The model with its weights, or without them where a server has them; its tokenizer; the server's engine."""
    if command.server is None:
        model, tokenizer = load_policy(command.model, None)
        return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer, None
    with torch.device("meta"):
        bare = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(command.model))
    with suppress(OSError):  # a folder without generation settings
        bare.generation_config = GenerationConfig.from_pretrained(command.model)
    return bare, AutoTokenizer.from_pretrained(command.model), ServedEngine(command.server)


if __name__ == "__main__":
    main()
