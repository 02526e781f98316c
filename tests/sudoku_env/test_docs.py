"""The examples in docs/environments.md run as they stand."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
BLOCKS = [
    block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if not re.search("verifiers|Mine", block)
]


def test_examples_run_one_after_the_other(capsys):
    assert len(BLOCKS) >= 5
    names = {}
    for block in BLOCKS:
        exec(compile(block, "docs/environments.md", "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        if claimed := re.search(r"print\(.*\)  # ([-\d. ]+(False|True)?)$", block, re.MULTILINE):
            assert printed[-1] == claimed[1]
    puzzle, answer = "1..4|..12|21..|.3..", "1234341221434321"
    assert names["reward"]([answer, "no idea"], puzzle=[puzzle, puzzle]) == [1.0, 0.0]
