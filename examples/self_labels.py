"""A language model labels data with calls of tools itself, and learns from those that help (Toolformer).

A tiny Llama from scratch learns sums, differences and products modulo 97. In half of its examples the call of a tool
stands before the answer; which tool is drawn at random, so they show how calls are written, and not which tool is for
what. From this start four arms train for the same number of steps, on as many rows:

- `labels`: calls of its own that `self_labelled_rows` kept, as their results help to predict the answer;
- `unfiltered`: the first call that it samples for a question;
- `shuffled`: the kept calls with their results, each before the answer to another question;
- `answers`: the questions of `labels` without calls.

    python examples/self_labels.py [--seeds 0 1 2 3]
"""

import argparse
import copy
import math
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from scipy import stats
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback, set_seed

from llm_rl import (
    CallFormat,
    GRPOArguments,
    GRPOTrainer,
    SelfLabelOptions,
    TrajectoryDataset,
    self_labelled_rows,
    supervised_trainer,
)
from llm_rl.tools.calls import CallError, ToolCall
from llm_rl.training import RunArguments, quiet_libraries

Row = dict[str, Any]
MODULUS, CALL_SHARE = 97, 0.5


def plus(first: int, second: int) -> int:
    """Add two numbers.

    Args:
        first: A number.
        second: Another one.
    """
    return (first + second) % MODULUS


def minus(first: int, second: int) -> int:
    """Subtract a number.

    Args:
        first: A number.
        second: What is subtracted.
    """
    return (first - second) % MODULUS


def times(first: int, second: int) -> int:
    """Multiply two numbers.

    Args:
        first: A number.
        second: Another one.
    """
    return first * second % MODULUS


TOOLS = {"plus": plus, "minus": minus, "times": times}
SIGNS = {"+": plus, "-": minus, "*": times}
TAGS = ("[", "]", "=", ">", ";", "<end>")
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name + ' ' }}{% endfor %}{% for message in messages %}"
    "{% if message.role == 'user' %}{{ message.content }} = {% elif message.role == 'tool' %}> {{ message.content }} ; "
    "{% else %}{{ message.content }}<end>{% endif %}{% endfor %}"
)
"""`plus minus times 12 + 34 = [ plus 12 34 ]<end>> 46 ; 46<end>`"""


def read_call(body: str) -> list[ToolCall]:
    """The call between two brackets, ` plus 12 34 `.

    Raises:
        CallError: It is none.
    """
    words = body.split()
    if len(words) != 3 or words[0] not in TOOLS or not all(word.isdecimal() for word in words[1:]):
        raise CallError(f"{body[:20]!r} is no call such as plus 12 34")
    return [ToolCall(words[0], {"first": int(words[1]), "second": int(words[2])})]


CALLS = CallFormat("[", "]", ">", read_call)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A token for each number, sign, tag and name of a tool."""
    words = ["<unknown>", *TAGS, *SIGNS, *TOOLS, *map(str, range(MODULUS))]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unknown>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_tokens([AddedToken(tag) for tag in TAGS[:-1]])
    backend.add_special_tokens([AddedToken("<end>", special=True)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<end>", pad_token="<end>", unk_token="<unknown>", chat_template=TEMPLATE
    )


def make_model(tokenizer: PreTrainedTokenizerFast, width: int) -> LlamaForCausalLM:
    """A random Llama of four layers."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=64,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def draw_questions(count: int, seed: int) -> list[Row]:
    """Different questions with their answers."""
    every = [(a, sign, b) for a in range(MODULUS) for sign in SIGNS for b in range(MODULUS)]
    return [
        {
            "prompt": [{"role": "user", "content": f"{a} {sign} {b}"}],
            "chosen": str(SIGNS[sign](a, b)),
            "numbers": (a, b),
        }
        for a, sign, b in random.Random(seed).sample(every, count)
    ]


def answered(row: Row, tool: str | None = None) -> Row:
    """A question with its answer, behind the call of a tool or alone."""
    turns = [("assistant", row["chosen"])]
    if tool is not None:
        first, second = row["numbers"]
        turns = [("assistant", f"[ {tool} {first} {second} ]"), ("tool", str(TOOLS[tool](first, second))), *turns]
    return {**row, "completion": [{"role": role, "content": content} for role, content in turns]}


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    """The same rows, each with the call and the result of another one."""
    others = random.Random(seed).sample(rows, len(rows))
    return [
        {**row, "completion": [*other["completion"][:-1], row["completion"][-1]]}
        for row, other in zip(rows, others, strict=True)
    ]


def solved(turns: Sequence[Sequence[str]], chosen: Sequence[str], **columns: Any) -> list[float]:
    """1 where the last turn is the answer."""
    return [float(said[-1].removesuffix("<end>").strip() == right) for said, right in zip(turns, chosen, strict=True)]


class Lab:
    """Trains and judges models of one seed.

    Args:
        seed: Of batches and samples.
        folder: Where trainers write.
    """

    def __init__(self, seed: int, folder: str) -> None:
        self.tokenizer = make_tokenizer()
        self._common: dict[str, Any] = {
            "output_dir": folder,
            "overwrite_output_dir": True,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": True,
            "seed": seed,
        }

    def train(self, model: LlamaForCausalLM, rows: Sequence[Row], steps: int, rate: float) -> None:
        """Supervised steps of 64 rows, at a rate that falls to 0."""
        args = RunArguments(**self._common, max_steps=steps, per_device_train_batch_size=64, learning_rate=rate)
        data = TrajectoryDataset(rows, self.tokenizer, [*TOOLS.values()], CALLS)
        trainer = supervised_trainer(model, args, data, self.tokenizer)
        trainer.remove_callback(PrinterCallback)
        trainer.train()

    def judge(self, model: LlamaForCausalLM, test: Sequence[Row]) -> tuple[float, float]:
        """The share of questions that are solved, sampled and greedily."""
        args = GRPOArguments(**self._common, max_turns=2, max_completion_length=8, per_device_eval_batch_size=500)
        judge = GRPOTrainer(model, [solved], args, test, self.tokenizer, tools=[*TOOLS.values()], call_format=CALLS)
        judge.remove_callback(PrinterCallback)
        sampled, greedy = judge.evaluate(test), judge.evaluate(test, greedy=True)
        return sampled["eval_reward/solved"], greedy["eval_reward/solved"]

    def label(self, model: LlamaForCausalLM, rows: Sequence[Row], options: SelfLabelOptions) -> list[Row]:
        """The rows that the model finds a call for."""
        tools = [*TOOLS.values()]
        found = self_labelled_rows(model, self.tokenizer, rows, tools, options=options, call_format=CALLS)
        print(f"  {found.counts}", flush=True)
        return found.rows


def compare(seed: int, given: argparse.Namespace, folder: str) -> dict[str, tuple[float, float]]:
    """The shares of the start and of each arm, for one seed."""
    set_seed(seed)
    lab, draws = Lab(seed, folder), random.Random(seed)
    questions = draw_questions(given.start_questions + given.questions + given.test_questions, seed)
    seen, rest = questions[: given.start_questions], questions[given.start_questions :]
    own, test = rest[: given.questions], rest[given.questions :]

    # The start: how calls are written, not which tool helps.
    start = make_model(lab.tokenizer, given.width)
    tools = [draws.choice([*TOOLS]) if draws.random() < CALL_SHARE else None for _ in seen]
    lab.train(start, [answered(row, tool) for row, tool in zip(seen, tools, strict=True)], given.start_steps, 2e-3)

    # Its labels: a call before the answer, one token, of which it reads the whole loss.
    options = SelfLabelOptions(
        positions=1,
        filter_threshold=given.filter_threshold,
        reach=1,
        max_call_tokens=6,
        max_result_tokens=1,
        batch_size=256,
    )
    labels = lab.label(start, own, options)
    unfiltered = lab.label(start, own, replace(options, calls=1, filter_threshold=-math.inf))
    count = min(len(labels), len(unfiltered))
    if not count:
        raise SystemExit("no call was kept; train the start for more --start_steps, or lower --filter_threshold")
    arms = {
        "labels": labels[:count],
        "unfiltered": unfiltered[:count],
        "shuffled": shuffled(labels[:count], seed),
        "answers": [answered(row) for row in labels[:count]],
    }

    found = {"start": lab.judge(start, test)}
    for arm, rows in arms.items():
        model = copy.deepcopy(start)
        lab.train(model, rows, given.steps, 1e-3)
        found[arm] = lab.judge(model, test)
    for name, (sampled, greedy) in found.items():
        print(f"  {name}: solved {sampled:.3f} sampled, {greedy:.3f} greedily", flush=True)
    return found


def interval(values: Sequence[float]) -> str:
    """The mean over seeds in percent, with the half width of its 95 % interval by Student's t if there are several."""
    count, mean = len(values), f"{100 * sum(values) / len(values):.1f}"
    return f"{mean} ± {100 * stats.t.ppf(0.975, count - 1) * stats.sem(values):.1f}" if count > 1 else mean


def main() -> None:
    """Train and judge all seeds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3], help="random seeds")
    parser.add_argument("--width", type=int, default=64, help="width of the model")
    parser.add_argument("--start_steps", type=int, default=800, help="steps of the start")
    parser.add_argument("--start_questions", type=int, default=20_000, help="questions that the start learns from")
    parser.add_argument("--steps", type=int, default=150, help="steps of each arm")
    parser.add_argument("--questions", type=int, default=1000, help="questions that the model labels")
    parser.add_argument("--test_questions", type=int, default=500, help="held-out questions")
    parser.add_argument("--filter_threshold", type=float, default=1.0, help="nats that a kept call has to gain")
    given = parser.parse_args()
    quiet_libraries()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for seed in given.seeds:
            print(f"seed {seed}", flush=True)
            results.append(compare(seed, given, folder))
    print("\n| solved, % | sampled | greedily | labels ahead by, sampled | greedily |\n|---|---|---|---|---|")
    for name in results[0]:
        shares = [interval([found[name][how] for found in results]) for how in (0, 1)]
        ahead = [interval([found["labels"][how] - found[name][how] for found in results]) for how in (0, 1)]
        print(f"| {name} | {' | '.join(shares + ahead)} |")


if __name__ == "__main__":
    main()
