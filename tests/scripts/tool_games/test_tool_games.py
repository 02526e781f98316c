"""The games of `scripts/tool_games`, and its comparison as a user runs it, in small."""

import pytest

from llm_rl.rollout.sft import IGNORED
from llm_rl.tools.calls import CallError, ToolCall, find_calls
from scripts.shared.tiny_llama import tiny_llama
from scripts.tool_games.compare import CompareArguments, ToolGames
from scripts.tool_games.task import CALL_TOKENS, CALLS, games, make_game, read_words, tokenizer, trajectories
from sudoku_dllm.trials.record import Records
from sudoku_env import parse_board, solve, to_string
from tests.scripts.helpers.started import in_small


def test_calls_are_read_as_they_are_written_also_after_a_round_of_tokens() -> None:
    names = tokenizer()
    for call in (ToolCall("place", {"row": 1, "column": 4, "digit": 2}), ToolCall("give_up", {}), ToolCall("hint", {})):
        ids = names(f"{CALLS.start}{CALLS.write(call)}{CALLS.end}{names.eos_token}")["input_ids"]
        assert names.unk_token_id not in ids and len(ids) <= CALL_TOKENS
        assert find_calls(names.decode(ids), CALLS) == [call]
    with pytest.raises(CallError, match="place is written `place ROW COLUMN DIGIT`"):
        read_words("place 1 2")


def test_tests_have_grids_of_their_own() -> None:
    parts = [games(60, 3, held_out=held, clues=(10, 12)) for held in (False, True)]
    solved = [[solve(parse_board(row["puzzle"])) for row in part] for part in parts]
    train, test = ({to_string(grid) for grid in part if grid is not None} for part in solved)
    assert not train & test and len(train) > 30 and len(test) > 20
    assert {row["puzzle"].count(".") for part in parts for row in part} == {4, 5, 6}


def test_every_word_of_a_game_is_known_and_the_calls_are_learnt() -> None:
    rows, names = games(30, 1, held_out=False, clues=(9, 12), hints=0.5), tokenizer()
    for row, item in zip(rows, trajectories(rows).items, strict=True):
        assert names.unk_token_id not in item["input_ids"]
        game = make_game(0.25)()
        game.reset(puzzle=row["puzzle"])
        learnt = names.decode([label for label in item["labels"] if label != IGNORED])
        for call in find_calls(learnt, CALLS):
            assert isinstance(call, ToolCall)
            getattr(game, call.name)(**call.arguments)
        assert game.game.info()["solved"] and learnt.count(names.eos_token) == game.game.turns


def test_the_comparison_in_small(tmp_path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "start_steps": 2, "test_puzzles": 6, "train_puzzles": 16}
    sizes |= {"completions": 4, "num_generations": 2, "batch_size": 4, "cpu_seconds": 0.2, "arms": ["grpo", "more"]}
    table, records = in_small("tool_games/compare.py", tmp_path, **sizes), Records(tmp_path)
    found = {job.removesuffix("/seed0"): records.result(job) for job in records.jobs()}
    assert set(found) == {"start", "grpo", "more"}
    for line in found.values():
        assert 0 <= line["reward"] <= line["solved"] <= 1 and line["turns"] >= 1 and line["hints"] >= 0
    assert found["grpo"]["updates"] > 0 and found["grpo"]["solved_greedily"] <= 1
    assert f"{found['grpo']['turns']:.3g} (" in table


def test_own_games_take_a_part_of_the_budget_and_a_start_that_wins_none_is_told(tmp_path) -> None:
    trial = ToolGames(CompareArguments(cpu_seconds=7, own_puzzles=1, hidden_size=16, train_puzzles=4))
    assert [(arm, budget.amount) for arm, budget in trial.stages("own_grpo")] == [("own", 3.5), ("grpo", 3.5)]
    model = tiny_llama(len(trial.words), eos_token_id=trial.words.eos_token_id, pad_token_id=trial.words.pad_token_id)
    with pytest.raises(ValueError, match="no game about own_puzzles=1 pays 1; lower min_reward, or"):
        trial.trainer("own", model, 0, tmp_path)
