import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

from sudoku_env.kernels import cache_folder as folders
from sudoku_env.kernels import compiling

PACKAGE = Path(folders.__file__).parents[1]
USE = "from sudoku_env.kernels.tiny import twice as f; print(f({argument}), sum(f.stats.cache_hits.values()))"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where this test's kernels are kept."""
    monkeypatch.setattr(compiling, "cache_folder", lambda: tmp_path)
    return tmp_path


def doubled(number):
    return number + number


def hits(dispatcher) -> int:
    return sum(dispatcher.stats.cache_hits.values())


def small_install(where: Path) -> Path:
    """The package with two kernels that compile in no time, one in the file of another."""
    kernels = where / "sudoku_env" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("__init__.py", "board.py", "kernels/__init__.py"):
        (where / "sudoku_env" / name).touch()
    for name in ("cache_folder.py", "compiling.py"):
        shutil.copy(PACKAGE / "kernels" / name, kernels)
    head = "from sudoku_env.kernels.compiling import kernel\n"
    (kernels / "other.py").write_text(f"{head}\n@kernel\ndef factor():\n    return 2\n")
    (kernels / "tiny.py").write_text(
        f"{head}from sudoku_env.kernels.other import factor\n\n"
        "@kernel(nogil=True)\ndef twice(number):\n    return factor() * number\n"
    )
    return where


def close(install: Path) -> None:
    """No folder beside the kernels can be made, for root neither."""
    cache = install / "sudoku_env" / "kernels" / "__pycache__"
    shutil.rmtree(cache, ignore_errors=True)
    cache.touch()


@pytest.fixture
def closed_package(tmp_path) -> Path:
    """An install of the whole package beside which no kernels can be kept."""
    shutil.copytree(PACKAGE, tmp_path / "sudoku_env", ignore=shutil.ignore_patterns("__pycache__"))
    close(tmp_path)
    return tmp_path


def begin(install: Path, command: str, **environment: str) -> subprocess.Popen:
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    env = {**kept, "PYTHONPATH": str(install), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", command], env=env, cwd=install, **pipes)


def run(install: Path, command: str, **environment: str) -> tuple[str, str]:
    """What a process prints, and its warnings."""
    process = begin(install, command, **environment)
    output, errors = process.communicate(timeout=1200)
    assert process.returncode == 0, errors
    return output, errors


def use(install: Path, argument: str = "21", **environment: str) -> tuple[list[str], str]:
    """What a process prints that calls the kernel, its result and the hits in the cache; and its warnings."""
    output, errors = run(install, USE.format(argument=argument), **environment)
    return output.split(), errors


def test_a_kernel_is_loaded_again(folder):
    first, second = compiling.kernel(doubled), compiling.kernel(doubled)
    assert [first(4), second(4)] == [8, 8] and [hits(first), hits(second)] == [0, 1]


def test_types_have_files_of_their_own(folder):
    first = compiling.kernel(doubled)
    assert [first(4), first(0.25)] == [8, 0.5] and len(list(folder.glob("*.nbc"))) == 2
    second = compiling.kernel(doubled)
    assert [second(0.25), second(4)] == [0.5, 8] and hits(second) == 2


@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage", "one bit"])
def test_a_damaged_file_is_compiled_again(folder, damage, caplog):
    assert compiling.kernel(doubled)(4) == 8
    (path,) = folder.glob("*.nbc")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    half = content[: len(content) // 2]
    damaged = {"empty": b"", "truncated": half, "garbage": b"\x80garbage" * 99, "one bit": content}
    path.write_bytes(damaged[damage])
    again = compiling.kernel(doubled)
    assert again(4) == 8 and hits(again) == 0
    assert str(path) in caplog.text and "damaged" in caplog.text
    loaded = compiling.kernel(doubled)
    assert loaded(4) == 8 and hits(loaded) == 1


def test_a_folder_that_can_no_longer_be_written_costs_the_cache_alone(tmp_path, monkeypatch, caplog):
    place = tmp_path / "kernels"
    monkeypatch.setattr(compiling, "cache_folder", lambda: place)
    function = compiling.kernel(doubled)
    place.touch()
    assert function(4) == 8 and str(place) in caplog.text


def test_a_change_in_the_file_of_another_kernel_is_noticed(tmp_path):
    install = small_install(tmp_path)
    assert use(install)[0] == ["42", "0"] and use(install)[0] == ["42", "1"]
    other = install / "sudoku_env" / "kernels" / "other.py"
    other.write_text(other.read_text().replace("return 2", "return 3"))
    assert use(install)[0] == ["63", "0"]


def test_whatever_kernels_import_from_the_package_is_part_of_the_key():
    imported = set()
    for path in (PACKAGE / "kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sudoku_env."):
                imported.add(PACKAGE.parent / f"{node.module.replace('.', '/')}.py")
    assert imported and imported - {PACKAGE / "kernels.py"} <= set(folders.SOURCES)


def test_a_read_only_install_without_a_home_keeps_kernels_in_a_temporary_folder_of_the_users(tmp_path):
    install, temporary = small_install(tmp_path / "install"), tmp_path / "temporary"
    close(install)
    temporary.mkdir()
    closed = {"HOME": "/dev/null/x", "TMPDIR": str(temporary)}
    output, errors = use(install, **closed)
    assert output == ["42", "0"] and "RuntimeWarning" in errors and "NUMBA_CACHE_DIR" in errors
    assert use(install, **closed)[0] == ["42", "1"]
    (own,) = temporary.iterdir()
    assert own.stat().st_mode & 0o077 == 0
    own.chmod(0o777)  # somebody else may have put code there
    output, errors = use(install, **closed)
    assert output == ["42", "0"] and "each process compiles them anew" in errors


def test_a_folder_that_numba_is_told_and_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match=r"NUMBA_CACHE_DIR is .*file, .* Set NUMBA_CACHE_DIR to a folder"):
        assert not str(folders.cache_folder.__wrapped__()).startswith(str(tmp_path))


def test_the_whole_package_can_be_imported_from_a_read_only_install_without_a_home(closed_package):
    command = "import sudoku_env as env; [getattr(env, name) for name in env.__all__]; print(env.__file__)"
    output, errors = run(closed_package, command, HOME="/dev/null/x", TMPDIR=str(closed_package))
    assert output.startswith(str(closed_package)) and errors.count("RuntimeWarning") == 1


def test_processes_that_start_together_share_the_folder_that_numba_is_told(tmp_path):
    install, place = small_install(tmp_path), str(tmp_path / "cache")
    arguments = ["21", "0.25"]
    processes = [begin(install, USE.format(argument=one), NUMBA_CACHE_DIR=place) for one in arguments * 2]
    results = [process.communicate(timeout=300)[0].split()[0] for process in processes]
    assert results == ["42", "0.5"] * 2
    assert not (install / "sudoku_env" / "kernels" / "__pycache__").exists()
    script = "; ".join(USE.format(argument=argument) for argument in arguments)
    assert run(install, script, NUMBA_CACHE_DIR=place)[0].split() == ["42", "1", "0.5", "2"]


def test_folders_of_other_sources_do_not_pile_up(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))
    for age in range(8):
        old = tmp_path / folders.NAME / f"old_{age}"
        old.mkdir(parents=True)
        os.utime(old, (time.time() - 60 * (age + 1),) * 2)
    made = folders.cache_folder.__wrapped__()
    assert made.parent == tmp_path / folders.NAME
    assert {other.name for other in made.parent.iterdir()} == {made.name, "old_0", "old_1", "old_2"}


def test_the_first_compilation_of_a_process_is_announced_once(folder, monkeypatch, caplog):
    monkeypatch.setattr(doubled, "__module__", "sudoku_env.kernels.tiny")
    monkeypatch.setattr(compiling._announcer, "said", False)
    said = []
    monkeypatch.setattr(compiling.logger, "warning", lambda *words: said.append((words[0] % words[1:], hits(function))))
    function = compiling.kernel(doubled)
    assert [function(4), function(0.5), function(1j)] == [8, 1.0, 2j]
    ((line, loaded),) = said
    assert str(folder) in line and "sudoku-dllm compile" in line and not loaded


def test_other_compilations_and_loading_are_not_announced(folder, monkeypatch, caplog):
    monkeypatch.setattr(compiling._announcer, "said", False)
    assert compiling.kernel(doubled)(4) == 8  # not a kernel of the package
    monkeypatch.setattr(doubled, "__module__", "sudoku_env.kernels.tiny")
    loaded = compiling.kernel(doubled)
    assert loaded(4) == 8 and hits(loaded) == 1 and not caplog.text


def test_a_person_sees_one_line_when_compiling_begins_and_can_silence_it(tmp_path):
    install = small_install(tmp_path)
    seen = [use(install)[1], use(install)[1]]
    assert [errors.count("\n") for errors in seen] == [1, 0] and "compiling kernels" in seen[0]
    silence = "import logging; logging.getLogger('sudoku_env').setLevel(logging.ERROR); "
    assert run(install, silence + USE.format(argument=0.5)) == ("1.0 0\n", "")


@pytest.mark.slow
def test_a_puzzle_is_solved_from_a_read_only_install_without_a_home(closed_package):
    command = (
        "from sudoku_env import default_puzzles, solve; puzzles = default_puzzles(9);"
        "print((solve(puzzles.boards[0]) == puzzles.solutions[0]).all())"
    )
    times = []
    for _ in range(2):
        begun = time.monotonic()
        output, errors = run(closed_package, command, HOME="/dev/null/x", TMPDIR=str(closed_package))
        assert output == "True\n" and errors.count("RuntimeWarning") == 1
        times.append(time.monotonic() - begun)
    assert times[1] < times[0] / 2
