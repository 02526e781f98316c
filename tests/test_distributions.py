"""The two distributions, built as `make dist` builds them, installed into a new environment and used there."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dllm_rl import shipped_models
from sudoku_env.kernels.cache_folder import cache_folder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PACKAGES = {"sudoku_env", "dllm_rl", "llm_rl", "sudoku_dllm"}
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff")
PUZZLE = "43265165123..243163..42524516..6.5.2"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdists of a copy of the tree, and the wheels that are built from them."""
    tree, dist = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "study", "base9x9", "start9x9")
    for name in (*PACKAGES, "data"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    for project in (tree, tree / "data" / "models"):
        command = [sys.executable, "-m", "build", "--outdir", str(dist), str(project)]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return dist


def wheel(built: Path, name: str) -> Path:
    """The one wheel of a distribution."""
    (found,) = built.glob(f"{name}-*.whl")
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program of a new virtual environment, which takes the packages that ours need from this one."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "venv")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if (kept := cache_folder()) is not None:  # the wheel's kernels are the same, compiled here once
        variables["NUMBA_CACHE_DIR"] = str(kept.parents[1])

    def run(program: str, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        command = [str(folder / "venv" / "bin" / program), *words]
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr[-3000:]
        return done

    purelib = run("python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").stdout.strip()
    (Path(purelib) / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return run


def install(run: Run, wheel: Path) -> None:
    """Install a wheel into the new environment by the shared pip; another one of its name lies beside that."""
    options = ("--disable-pip-version-check", "--quiet", "--no-deps", "--ignore-installed")
    run("python", "-m", "pip", "install", *options, str(wheel))


def test_the_wheel_of_the_code_has_no_weights(built: Path) -> None:
    names = zipfile.ZipFile(wheel(built, "sudoku_dllm")).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == PACKAGES
    assert not [name for name in names if "study" in name or name.endswith((".safetensors", ".sha256"))]
    assert wheel(built, "sudoku_dllm").stat().st_size < 2e6


def test_the_wheel_of_the_models_has_every_file_of_theirs(built: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel(built, "sudoku_dllm_models")).namelist() if "dist-info" not in name}
    folders = [path for path in (ROOT / "data" / "models").iterdir() if (path / "config.json").is_file()]
    files = {f"sudoku_dllm_models/{path.parent.name}/{path.name}" for each in folders for path in each.iterdir()}
    assert held == {"sudoku_dllm_models/__init__.py", *files}


def test_source_distributions_have_sources_license_and_no_tests(built: Path) -> None:
    for name in ("sudoku_dllm", "sudoku_dllm_models"):
        (archive,) = built.glob(f"{name}-[0-9]*.tar.gz")
        with tarfile.open(archive) as opened:
            names = {member.name.partition("/")[2] for member in opened if member.isfile()}
            assert all(member.isfile() or member.isdir() for member in opened)  # no link leads out of it
        assert {"LICENSE", "README.md", "pyproject.toml"} <= names
        assert not [name for name in names if name.startswith("tests/")]


def test_the_links_of_the_page_lead_to_the_files_of_the_tag(built: Path) -> None:
    opened = zipfile.ZipFile(wheel(built, "sudoku_dllm"))
    (metadata,) = [name for name in opened.namelist() if name.endswith("/METADATA")]
    told = email.message_from_bytes(opened.read(metadata))
    page = told.get_payload(decode=True).decode()  # type: ignore[union-attr]
    (repository,) = [line.split(", ")[1] for line in told.get_all("Project-URL", []) if line.startswith("Repository")]
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", page)
    readme = re.findall(r"!?\[[^\]]*\]\([^)]*\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) == len(readme) > 20
    for picture, link in links:
        kind = "raw" if picture else "blob"
        start = f"{repository}/{kind}/v{told['Version']}/"
        assert link.startswith(start) and (ROOT / link.removeprefix(start).partition("#")[0]).exists()


def test_the_index_would_take_the_pages(built: Path) -> None:
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.count("PASSED") == 4, done.stdout + done.stderr


def test_the_code_asks_for_the_models_and_works_with_them(built: Path, run: Run) -> None:
    install(run, wheel(built, "sudoku_dllm"))
    assert run("sudoku-dllm", "solve", "1..4..1221...3..").stdout.strip() == "1234341221434321"

    # Alone it has no model, and says what to install; one process that has imported torch is asked for all.
    calls = ["decode", PUZZLE], ["demo", "--output_dir", "page"]
    code = "import os, dllm_rl, sudoku_dllm.__main__ as it\nprint(os.getcwd())\nprint(dllm_rl.__file__)"
    code += f"\nprint(dllm_rl.shipped_models(), *map(it.main, {calls}))"
    code += "\ntry: dllm_rl.load('llada-sudoku6x6')\nexcept ValueError as error: print(error)\nit.main(['train'])"
    done = run("python", "-c", code, status=2)
    remedy = "the trained models are not installed; get them with pip install 'sudoku-dllm[models]', or from a clone "
    folder, package, said = done.stdout.split("\n", 2)
    folder = Path(folder)
    assert package.startswith(str(folder / "venv"))
    assert said.startswith(f"[] 2 2\nthere is no model 'llada-sudoku6x6': {remedy}")
    assert done.stderr.count(remedy) == 1 + len(calls) and "Traceback" not in done.stderr
    assert not (folder / "runs").exists() and not (folder / "page").exists()

    # With the models: a decode, the page, and the main job in small.
    install(run, wheel(built, "sudoku_dllm_models"))
    small = ["--arms", "sft", "--max_steps", "1", "--eval_tokens", "4", "--jobs", "0"]
    boards = ["train", *small, "--boards", "20", "--test_boards", "3", "--draws", "2"]
    labels = ["train", "--setting", "labels", *small, "--max_puzzles", "8", "--eval_puzzles", "3"]
    calls = ["decode", PUZZLE], ["demo", "--output_dir", "page"], boards, labels
    done = run("python", "-c", f"from sudoku_dllm.__main__ import main; print(*map(main, {calls}))")
    assert done.stdout.endswith("0 0 0 0\n") and "\nsolved in " in done.stdout, (
        done.stdout[-3000:] + done.stderr[-3000:]
    )
    described = json.loads((folder / "page" / "models.json").read_text(encoding="utf-8"))
    assert [model["name"] for model in described["models"]] == shipped_models() and described["examples"]
    assert (folder / "runs" / "train_sudoku" / "valid.png").is_file()
    assert (folder / "runs" / "train_sudoku-2" / "report.html").is_file()
