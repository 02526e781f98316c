"""The table of what a check at decoding makes of a model."""

from pathlib import Path

from tests.helpers.warm_process import run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "several_answers" / "guards.py"


def test_by_the_solver_every_board_is_valid() -> None:
    done = run_script(SCRIPT, ["--test_boards", 4, "--eval_tokens", 4, 36], env=None)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    assert [row[:2] for row in rows] == [[k, guard] for k in ("4", "36") for guard in ("none", "rules", "completable")]
    for _, guard, valid, _, checks, _, dead in rows:
        assert guard != "completable" or (valid, dead) == ("100.0", "0.0")
        assert (float(checks) == 0) == (guard == "none") and float(valid) + float(dead) <= 100
