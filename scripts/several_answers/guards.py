"""What a check at decoding makes of a model: the held-out boards by guard and cells a pass, as a table.

Valid is a full grid without a clash that keeps the clues; passes, checks and refused cells are means of a board. It
takes of the study's arguments those that name the model, the boards and the cells a pass (`--eval_tokens`).

    python -m scripts.several_answers.guards --eval_tokens 1 4 9 36
"""

from dllm_rl.decoding import Decoding, decode
from dllm_rl.models.shipped import load
from llm_rl.training import parse, user_errors
from sudoku_dllm.machine import machine
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.words import markdown_table
from sudoku_env.solver import completable

HEAD = ["cells a pass", "guard", "valid %", "passes", "checks", "refused", "dead ends %"]


def main() -> None:
    """Decode by margin, and print the table."""
    (script,) = parse(ScriptArguments, description=__doc__)
    with user_errors(OSError, ValueError):
        setting = Setting.load(script, RecipeArguments(use_cpu=True, report_to="none"))
        model, tests, rows = load(script.model).model, setting.batch(setting.test_boards()), []
    for count in script.eval_tokens:
        for guard in (None, "rules", "completable"):
            record = decode(model, tests, Decoding("margin", tokens_per_step=count, guard=guard))
            grids = tests.boards(record.responses)
            valid = 100 * ((grids > 0).all(1) & completable(grids)).mean()
            counts = (record.forward_passes, record.checks.sum(1), record.rejected.sum(1), 100 * record.dead_end)
            means = (valid, *(each.float().mean() for each in counts))
            rows.append([str(count), guard or "none", *(f"{float(each):.1f}" for each in means)])
    print(f"{script.model}, {len(tests)} boards\n\n{markdown_table(HEAD, rows)}\n{machine()}")


if __name__ == "__main__":
    main()
