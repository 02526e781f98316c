"""What a check at decoding makes of a model: the held-out boards by guard and cells a pass, as a table.

Valid is a full grid without a clash that keeps the clues; passes, checks and refused cells are means of a board, and a
dead end is a board on which the guard let no token of the surest cell stand. Nothing is drawn.

    python -m scripts.several_answers.guards [--model llada-sudoku9x9 --size 9 --clues 0 20 --test_boards 60]
"""

from dataclasses import dataclass, field

from dllm_rl.decoding import Decode, Decoding, decode
from dllm_rl.models.shipped import load
from llm_rl.training import parse, user_errors
from scripts.study.tables import markdown_table
from sudoku_dllm.machine import machine
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.setting import Setting
from sudoku_env.errors import SudokuError
from sudoku_env.solver import completable


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/guards.py`."""

    model: str = field(default="llada-sudoku6x6-converged", metadata={"help": "A model's name or folder."})
    size: int = field(default=6, metadata={"help": "Size of the boards; the model must know its tokens."})
    clues: list[int] = field(default_factory=lambda: [1, 8], metadata={"help": "Fewest and most clues of a board."})
    test_boards: int = field(default=400, metadata={"help": "Held-out boards."})
    tokens_per_step: list[int] = field(
        default_factory=lambda: [1, 4, 9, 36], metadata={"help": "Cells that a pass offers at most."}
    )
    strategy: str = field(default="margin", metadata={"help": "Which cells come first."})


def row(valid: float, record: Decode) -> list[str]:
    """The figures of one way of decoding."""
    counts = (record.forward_passes, record.checks.sum(1), record.rejected.sum(1), 100 * record.dead_end)
    return [f"{valid:.1f}", *(f"{float(each.float().mean()):.1f}" for each in counts)]


def main() -> None:
    """Decode, and print the table."""
    (args,) = parse(Arguments, description=__doc__)
    with user_errors(OSError, ValueError, SudokuError):
        script = ScriptArguments(
            model=args.model, size=args.size, clues=args.clues, test_boards=args.test_boards, arms=["judged"]
        )
        setting = Setting.load(script, RecipeArguments(use_cpu=True, report_to="none"))
        model, tests = load(args.model).model, setting.batch(setting.test_boards())
        hows = [
            Decoding(args.strategy, tokens_per_step=count, guard=guard)
            for count in args.tokens_per_step
            for guard in (None, "rules", "completable")
        ]
    rows = []
    for how in hows:
        record = decode(model, tests, how)
        grids = tests.boards(record.responses)
        valid = 100 * float(((grids > 0).all(1) & completable(grids)).mean())
        rows.append([str(how.tokens_per_step), str(how.guard or "none"), *row(valid, record)])
    head = ["cells a pass", "guard", "valid %", "passes", "checks", "refused", "dead ends %"]
    print(f"{args.model}, {len(tests)} boards\n\n{markdown_table(head, rows)}\n\n{machine()}")


if __name__ == "__main__":
    main()
