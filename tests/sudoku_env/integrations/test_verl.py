"""Sudoku's rows and reward for verl, which need nothing of it, and games as an agent loop where it is installed."""

import asyncio

import pytest

from sudoku_env import SudokuText, generate, parse_puzzle
from sudoku_env.errors import BoardError, SudokuError
from sudoku_env.integrations.verl import compute_score, verl_rows
from tests.helpers.refusals import refused

PUZZLE, SOLUTION = "123.341221434321", "1234341221434321"


def test_rows_ask_for_the_puzzle_that_the_reward_solves():
    asked = {"size": 4, "clues": 8, "seed": 5, "split": "validation"}
    rows = verl_rows(3, **asked)
    assert rows == verl_rows(5, **asked)[:3] != verl_rows(3, size=4, clues=8, seed=6)
    for row in rows:
        board = parse_puzzle(row["prompt"][0]["content"])
        puzzle = row["reward_model"]["ground_truth"]
        assert "".join(str(digit or ".") for digit in board) == puzzle == row["extra_info"]["puzzle"]
        assert puzzle.count(".") == 8 and row["agent_name"] == "single_turn_agent"
    games = verl_rows(3, **asked, game=True, max_turns=4)
    assert [row["extra_info"]["puzzle"] for row in games] == [row["extra_info"]["puzzle"] for row in rows]
    assert {row["agent_name"] for row in games} == {"sudoku_text"}
    assert "at most 4 of them" in games[0]["prompt"][0]["content"]
    assert [row.keys() for row in games] == [row.keys() for row in rows]
    refused("template", lambda: verl_rows(1, size=4, template="none"), SudokuError)


def test_the_reward_is_the_solvers():
    answers = [SOLUTION, " ".join(SOLUTION), "1231341221434321", "no idea", ""]
    found = [compute_score("sudoku_env/4x4", answer, PUZZLE, extra_info={"index": 0}) for answer in answers]
    assert [one["score"] for one in found] == [1, 1, 0, 0, 0]
    two = generate(1, size=4, clues=14, seed=0)
    puzzle, solution = two.boards[0], two.solutions[0].copy()
    first, _ = (puzzle == 0).nonzero()[0]
    solution[first] = solution[first] % 4 + 1
    text = " ".join(map(str, solution))
    assert compute_score("", text, puzzle, score="partial") == {"score": 0.5, "exact": 0.0, "partial": 0.5}
    refused("score 'some' is unknown", lambda: compute_score("", SOLUTION, PUZZLE, score="some"), SudokuError)
    with pytest.raises(BoardError):
        compute_score("", SOLUTION, "." * 16)


class Player:
    """Writes moves one after the other, each with an end token and a log-probability for each token."""

    def __init__(self, tokenizer, moves):
        self.tokenizer, self.moves, self.asked = tokenizer, list(moves), []

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        from verl.workers.rollout.replica import TokenOutput

        self.asked.append((self.tokenizer.decode(prompt_ids), sampling_params["max_tokens"]))
        ids = [*self.tokenizer(self.moves.pop(0))["input_ids"], self.tokenizer.eos_token_id]
        ids = ids[: sampling_params["max_tokens"]]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={"global_steps": 4})


@pytest.fixture(scope="module")
def tokenizer():
    import copy

    from tests.llm_rl.helpers.tiny_vapor import tag_tokenizer

    result = copy.deepcopy(tag_tokenizer())
    result.chat_template = "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}"
    return result


def play(tokenizer, moves, limit=400, **game):
    """The output of a game of the puzzle, and what its player was shown."""
    pytest.importorskip("verl", reason="verl is not installed, see docs/raro.md")
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap

    from sudoku_env.integrations.verl.agent_loop import SudokuAgentLoop

    rollout = {"prompt_length": 2000, "response_length": limit}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    player = Player(tokenizer, moves)
    (row,) = verl_rows(1, size=4, game=True, max_turns=3)
    row["extra_info"]["puzzle"] = PUZZLE

    async def run():
        loop = SudokuAgentLoop(
            trainer_config=DictConfigWrap(config), server_manager=player, tokenizer=tokenizer, processor=None,
            dataset_cls=None, data_config=DictConfigWrap(config.data), game=game,
        )  # fmt: skip
        return await loop.run({"temperature": 1.0}, raw_prompt=row["prompt"], extra_info=row["extra_info"])

    return asyncio.run(run()), player


def test_a_game_is_one_conversation_whose_moves_alone_are_trained(tokenizer):
    moves = ["place 9 9 9", "hint", "place 1 4 4"]
    output, player = play(tokenizer, moves, reward="cells", hint_cost=0.25)
    game = SudokuText(size=4, max_turns=3, reward="cells", hint_cost=0.25)
    game.reset(options={"puzzle": PUZZLE})
    replies = [game.step(move)[0] for move in moves]
    assert output.reward_score == game.score == 0.75
    assert output.extra_fields["reward_extra_info"] == {"solved": 1.0, "unparsed": 0.0}
    assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs)
    trained = [ids for ids, kept in zip(output.response_ids, output.response_mask, strict=True) if kept]
    assert tokenizer.decode(trained, skip_special_tokens=True) == "".join(moves)
    read = tokenizer.decode([i for i, kept in zip(output.response_ids, output.response_mask, strict=True) if not kept])
    assert all(reply in read for reply in replies[:2]) and replies[2] not in read
    assert [logprob == -0.5 for logprob in output.response_logprobs] == [bool(kept) for kept in output.response_mask]
    assert replies[0] in player.asked[1][0] and replies[1] in player.asked[2][0]
    assert output.num_turns == 7 and output.extra_fields["global_steps"] == 4


def test_a_game_ends_where_there_is_no_room(tokenizer):
    output, player = play(tokenizer, ["hint"] * 3, limit=30)
    assert len(output.response_ids) == len(output.response_mask) == 30 and len(player.asked) == 1
    assert player.asked[0][1] == 30 and output.extra_fields["reward_extra_info"]["solved"] == 0.0
