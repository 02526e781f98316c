"""What a release says of itself in several files agrees: versions, addresses, platforms, pins."""

import re
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.release.lock import CONSTRAINTS, CUDA_LOCK, LOCK, OF_CUDA, needed, pins, versions
from tests.helpers.dialects import DIALECTS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODELS = tomllib.loads((ROOT / "data/models/pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
REPOSITORY = PROJECT["urls"]["Repository"]
SYSTEMS = {"ubuntu": "Operating System :: POSIX :: Linux", "macos": "Operating System :: MacOS"}
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_changelog_begins_with_the_version() -> None:
    first = re.search(r"^## (\S+) — (unreleased|\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert first and first[1] == PROJECT["version"] and re.fullmatch(r"\d+\.\d+\.\d+", first[1])


def test_all_addresses_are_of_one_repository() -> None:
    assert all(url == REPOSITORY or url.startswith(f"{REPOSITORY}/") for url in PROJECT["urls"].values())
    assert MODELS["urls"]["Repository"] == read(ROOT / "CITATION.cff")["repository-code"] == REPOSITORY
    hosted = re.findall(r"https://github\.com/[\w-]*sudoku-dllm[\w/-]*", (ROOT / "data/models/README.md").read_text())
    assert set(hosted) == {REPOSITORY}


def test_the_citation_has_what_the_format_asks_for_and_no_version_of_its_own() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys() and "version" not in citation
    assert citation["license"] == PROJECT["license"] == MODELS["license"]
    assert [{"name": each["name"]} for each in citation["authors"]] == PROJECT["maintainers"] == MODELS["maintainers"]


def test_the_extra_models_takes_the_models_of_this_tree() -> None:
    (wanted,) = map(Requirement, EXTRAS["models"])
    assert wanted.name == MODELS["name"] and MODELS["version"] in wanted.specifier


def test_no_other_extra_needs_what_is_not_uploaded() -> None:
    """So that `pip install ".[train]"` works in a clone."""
    named = {Requirement(line).name for extra, lines in EXTRAS.items() if extra != "models" for line in lines}
    assert MODELS["name"] not in named | {Requirement(line).name for line in PROJECT["dependencies"]}
    used = {extra for lines in EXTRAS.values() for line in lines for extra in Requirement(line).extras}
    assert "models" not in used


# The workflow on a public host.


def jobs() -> list[dict[str, str]]:
    """System, Python and arithmetic of each job."""
    matrix = read(ROOT / ".github/workflows/ci.yml")["jobs"]["ci"]["strategy"]["matrix"]
    added = matrix.pop("include")
    return [dict(zip(matrix, values, strict=True)) for values in product(*matrix.values())] + added


def test_the_workflow_runs_what_the_classifiers_promise() -> None:
    classifiers = PROJECT["classifiers"]
    pythons = {text.split(" :: ")[-1] for text in classifiers if re.search(r":: Python :: 3\.\d+$", text)}
    systems = {text for text in classifiers if text.startswith("Operating System")}
    assert {SYSTEMS[job["system"].split("-")[0]] for job in jobs()} == systems
    for system in SYSTEMS:
        assert {job["python"] for job in jobs() if job["system"].startswith(system)} == pythons
    assert min(pythons, key=lambda text: int(text[2:])) == PROJECT["requires-python"].removeprefix(">=")


def test_the_workflow_calls_the_script_of_continuous_integration() -> None:
    steps = read(ROOT / ".github/workflows/ci.yml")["jobs"]["ci"]["steps"]
    assert steps[-1]["run"] == "env ${{ matrix.arithmetic }} .ci/run"
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)


def test_one_job_computes_as_the_dialect_avx2() -> None:
    (held,) = {job["arithmetic"] for job in jobs()} - {""}
    assert dict(word.split("=") for word in held.split()).items() <= DIALECTS["avx2"].environment.items()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_issue_forms_have_what_the_host_asks_for(form: Path) -> None:
    content = read(form)
    if form.stem == "config":
        assert content.keys() == {"blank_issues_enabled"}
        return
    assert {"name", "description", "body"} <= content.keys()
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert fields and len({field["id"] for field in fields}) == len(fields)
    assert all(field["type"] in ("textarea", "input") and field["attributes"]["label"] for field in fields)


# The lock.


def test_the_lock_has_the_versions_of_the_constraints() -> None:
    kept, locked = (versions(path.read_text(encoding="utf-8")) for path in (CONSTRAINTS, LOCK))
    assert locked and {name: kept.get(name) for name in locked} == locked


def test_the_lock_holds_all_that_make_setup_asks_for() -> None:
    asked, names = [Requirement("sudoku-dllm[dev,agents]")], set()
    for line in asked:
        if line.name == PROJECT["name"]:
            asked += [Requirement(text) for extra in line.extras for text in EXTRAS[extra]]
        else:
            names.add(canonicalize_name(line.name))
    names |= {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    locked = versions(LOCK.read_text(encoding="utf-8"))
    assert names <= locked.keys()
    assert all(locked[canonicalize_name(line.name)] in line.specifier for line in asked if line.name != PROJECT["name"])


@pytest.mark.parametrize("path", [LOCK, CUDA_LOCK], ids=lambda path: path.stem)
def test_each_entry_has_hashes_and_none_an_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for pin, entry in pins(text):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), pin
        assert not pin.url
        assert bool(OF_CUDA.match(pin.name)) == (path == CUDA_LOCK)
    assert "://" not in text and "index" not in text and "/" not in text


def test_the_lock_for_accelerators_is_for_linux_alone() -> None:
    for pin, _ in pins(CUDA_LOCK.read_text(encoding="utf-8")):
        assert needed(pin.marker) and pin.marker and not pin.marker.evaluate({"sys_platform": "darwin"})
