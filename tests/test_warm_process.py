import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.warm_process import run_in_two_processes, run_script, start_script

TOLD = """
import json, os, sys
import beside
print(json.dumps([__name__, __file__, sys.argv, sys.path[:2], os.getcwd(), sorted(os.environ.items()), beside.VALUE]))
print("a word", file=sys.stderr)
"""
ENDS = {
    "a number": "import sys; sys.exit(3)",
    "a sentence": "import sys; sys.exit('no such file')",
    "an exception": "print('before'); raise ValueError('x=0 must be positive')",
    "nothing": "print('till the end', end='')",
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A file in a folder with a module `beside`."""
    (tmp_path / "beside.py").write_text("VALUE = 5")
    return tmp_path / "script.py"


def test_a_warm_script_sees_what_a_fresh_interpreter_sees(script: Path, tmp_path_factory) -> None:
    script.write_text(TOLD)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    env = {**os.environ, "PYTHONPATH": str(elsewhere), "OF_THIS_RUN": "1", "LC_CTYPE": "C.UTF-8"}
    fresh, warm = (run_script(script, ["--count", 2], env=env, cwd=elsewhere, fresh=fresh) for fresh in (True, False))
    assert json.loads(fresh.stdout) == json.loads(warm.stdout)
    assert json.loads(fresh.stdout)[2] == [str(script), "--count", "2"]
    assert fresh.stderr == warm.stderr == "a word\n"
    assert "OF_THIS_RUN" not in os.environ and Path.cwd() != elsewhere


@pytest.mark.parametrize("end", ENDS)
def test_a_warm_script_ends_as_a_fresh_interpreter_does(script: Path, end: str) -> None:
    script.write_text(ENDS[end])
    fresh, warm = (run_script(script, fresh=fresh) for fresh in (True, False))
    assert warm.returncode == fresh.returncode and warm.stdout == fresh.stdout
    assert warm.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_script_that_goes_on_for_too_long_is_an_error(script: Path, fresh: bool) -> None:
    script.write_text("import time; time.sleep(600)")
    started = time.monotonic()
    process = start_script(script, fresh=fresh)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.2)
    process.kill()
    assert time.monotonic() - started < 60


RANK = """
import sys, torch.distributed as dist
dist.init_process_group("gloo")
parts = [None, None]
dist.all_gather_object(parts, (dist.get_rank(), sys.argv[1:]))
if dist.get_rank() == int(sys.argv[1]):
    raise ValueError("one rank fails")
if dist.get_rank() == 1:
    print(parts)
dist.destroy_process_group()
"""


WARM_AND_FRESH = pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.slow)])


@WARM_AND_FRESH
def test_two_processes_are_one_job(script: Path, fresh: bool) -> None:
    script.write_text(RANK)
    done = run_in_two_processes(script, [-1, "word"], fresh=fresh)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{[(0, ['-1', 'word']), (1, ['-1', 'word'])]}\n"


@WARM_AND_FRESH
def test_when_a_process_of_two_fails_the_job_fails(script: Path, fresh: bool) -> None:
    script.write_text(RANK.replace("if dist.get_rank() == 1:", "import time; time.sleep(600)\nif False:"))
    done = run_in_two_processes(script, [1], fresh=fresh, timeout=60)
    assert done.returncode == 1 and "one rank fails" in done.stderr
    assert sys.executable not in done.stdout
