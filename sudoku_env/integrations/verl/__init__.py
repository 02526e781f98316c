"""Sudoku for verl: rows of its data set, and a reward by the solver, which verl's workers call.

verl finds the reward by `reward.custom_reward_function`, `path: pkg://sudoku_env.integrations.verl` and `name:
compute_score`. Rows with `game=True` are played in turns by `sudoku_env.integrations.verl.agent_loop`, the only module
here that imports verl.
"""

from typing import Any

from sudoku_env.board import to_string
from sudoku_env.chat.text_rows import deal, row_seed, text_rows
from sudoku_env.errors import SudokuError
from sudoku_env.prompts.text import build_prompt
from sudoku_env.scoring import exact_score, partial_score

AGENT_NAME = "sudoku_text"
"""What rows call the agent loop that plays them."""
SCORES = {"exact": exact_score, "partial": partial_score}


def verl_rows(
    n: int,
    *,
    size: int = 9,
    clues: int | tuple[int, int] | None = None,
    rule: str | None = None,
    seed: int = 0,
    split: str = "train",
    template: str = "rules",
    game: bool = False,
    max_turns: int | None = None,
) -> list[dict[str, Any]]:
    """Puzzles as rows of a parquet file of verl; row k depends on the seed, k and what describes a puzzle.

    Args:
        n: Number of rows.
        size: Board size.
        clues: Number of givens or a range of it, as in `SudokuText`.
        rule: The hardest rule that a puzzle may need, as in `generate`.
        seed: Any non-negative integer.
        split: Name of the file's part.
        template: How an answer is asked for, as in `build_prompt`.
        game: Whether the puzzle is played in turns instead.
        max_turns: The turns of a game, as in `SudokuText`.

    Returns:
        verl's columns. `reward_model["ground_truth"]` is the puzzle: its solution is left to the solver.

    Raises:
        SudokuError: The seed is negative, the turns are not above 0, or the template is unknown.
        BoardError: `generate` refuses an argument.
    """
    if game:
        turns = text_rows(n, size=size, clues=clues, rule=rule, seed=seed, max_turns=max_turns)
        asked = [(row["prompt"], row["puzzle"]) for row in turns]
    else:
        boards = [deal(size, clues, rule, row_seed(seed, k))[0] for k in range(n)]
        asked = [([{"role": "user", "content": build_prompt(board, template)}], to_string(board)) for board in boards]
    return [
        {
            "data_source": f"sudoku_env/{size}x{size}",
            "agent_name": AGENT_NAME if game else "single_turn_agent",
            "prompt": prompt,
            "ability": "sudoku",
            "reward_model": {"style": "rule", "ground_truth": puzzle},
            "extra_info": {"index": k, "split": split, "puzzle": puzzle, "max_turns": max_turns},
        }
        for k, (prompt, puzzle) in enumerate(asked)
    ]


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, score: str = "exact", **_: Any
) -> dict[str, float]:
    """The score of an answer, as verl's reward workers ask for it.

    Args:
        data_source: Not read.
        solution_str: What the model wrote.
        ground_truth: The puzzle.
        extra_info: Not read.
        score: "exact" pays 1 for the solution alone, "partial" the share of the blanks that are right; verl passes it
            from `reward.custom_reward_function.reward_kwargs`.

    Returns:
        "score", and both scores by their names, which verl averages in validation.

    Raises:
        SudokuError: The score is unknown.
        BoardError: About the puzzle, never about what the model wrote.
    """
    if score not in SCORES:
        raise SudokuError(f"score {score!r} is unknown; choose one of {list(SCORES)}")
    found = {name: of(solution_str, ground_truth) for name, of in SCORES.items()}
    return {"score": found[score], **found}
