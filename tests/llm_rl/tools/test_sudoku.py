"""GRPO and PPO on the real environment: `SudokuText` by tools, played from a script."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from llm_rl.rollout.scoring import causal_model
from llm_rl.tools.calls import CallFormat, ToolCall
from sudoku_env.chat.expert import expert_rows
from sudoku_env.integrations.trl import environment_factory
from tests.llm_rl.helpers.tool_play import END, ScriptedEngine, chat_model, chat_tokenizer
from tests.llm_rl.helpers.tool_runs import KINDS, grpo_of_two, trainer
from tests.llm_rl.helpers.watch import keep_samples

ROW = expert_rows(1, size=4, clues=13, seed=0, reasons=False)[0]


def turn(name: str, **arguments: int) -> str:
    form = CallFormat()
    return f"{form.start}{form.write(ToolCall(name, arguments))}{form.end}{END}"


def games() -> ScriptedEngine:
    """The first conversation is the ladder's; the second asks, breaks a rule and gives up."""
    solving = [
        turn("place", **message["tool_calls"][0]["function"]["arguments"])
        for message in ROW["completion"]
        if message["role"] == "assistant"
    ]
    given = ROW["puzzle"].index(next(digit for digit in ROW["puzzle"] if digit != "."))
    other = [turn("hint"), turn("place", row=1 + given // 4, column=1 + given % 4, digit=1), turn("give_up")]
    return ScriptedEngine(*([mine, its] for mine, its in zip(solving, other, strict=True)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_solved_grid_is_rewarded_and_a_hint_costs(tmp_path: Path, kind: str) -> None:
    chosen = {"num_generations": 2, "per_device_train_batch_size": 2, "max_completion_length": 120, "data": [ROW]}
    given = {"environment_factory": environment_factory(size=4, reward="cells")}
    model = chat_model(dtype=torch.float32)
    start = copy.deepcopy(model.state_dict())
    run = trainer(kind, tmp_path, games(), model, given=given, **chosen)
    samples = keep_samples(run)
    run.train()

    solved, lost = (sample.episode for sample in samples)
    assert solved.results[-1][0].endswith("The grid is complete and right.")
    assert lost.results[0][0].startswith("Hint (grade 1)") and lost.results[1][0].startswith("Refused:")
    paid = [sample.scores for sample in samples]
    assert paid == [pytest.approx([1]), pytest.approx([-1 / 3])], "a hint of grade 1 costs one of three blanks"
    game = solved.environment.game
    assert np.array_equal(game.info()["board"], game.solution) and not lost.environment.game.info()["solved"]
    line = run.state.log_history[0]
    assert line["reward_mean"] == pytest.approx(1 / 3) == line["reward/environment_reward"]
    assert line["turns"] == line["tool_calls"] == 3 and line["tool_refused_frac"] == 0
    trained = causal_model(run.model).state_dict()
    assert any(not torch.equal(value, start[name]) for name, value in trained.items())


def test_its_schemas_reach_the_model(tmp_path: Path) -> None:
    given = {"environment_factory": environment_factory(size=4)}
    run = grpo_of_two(tmp_path, None, data=[ROW], given=given, max_completion_length=6)
    names = [schema["function"]["name"] for schema in run.toolbox.schemas]
    assert sorted(names) == ["erase", "give_up", "hint", "place", "undo"]
    (sample, _) = run._generate_completions([ROW], 2)
    prompt = chat_tokenizer().decode(sample.prompt_ids)
    assert prompt.count("The row of the cell, counted from 1 at the top.") == 2 and "Solve this 4x4 Sudoku" in prompt
