"""The house as CONTRIBUTING.md draws it: which room builds on which, no circle, and who may know Sudoku."""

import json

import pytest

from tests.helpers.ceilings import CEILINGS, SLACK, counts, floors
from tests.helpers.house import PACKAGES, ROOT, arrows, between_packages, circle, diagram, needed, within

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def arrows_of(name: str) -> set[tuple[str, str]]:
    """Read when a test runs: all sources are parsed."""
    return between_packages() if name == "packages" else within(name)


@pytest.mark.parametrize("name", ["packages", "llm_rl", "dllm_rl"])
def test_the_diagram_is_that_of_the_imports(name: str) -> None:
    drawn = diagram(arrows_of(name))
    assert drawn in PAGE, f"python -m tests.helpers.house prints what belongs there:\n{drawn}"


@pytest.mark.parametrize("name", ["packages", *PACKAGES])
def test_no_rooms_build_on_each_other_in_a_circle(name: str) -> None:
    assert arrows_of(name) and circle(arrows_of(name)) == []


def test_packages_know_those_below_them_alone() -> None:
    for low, high in (("sudoku_env", "llm_rl"), ("llm_rl", "dllm_rl"), ("dllm_rl", "sudoku_dllm")):
        assert (low, high) not in between_packages()
    assert not {pair for pair in between_packages() if pair[1] == "scripts" or pair[0] == "sudoku_env"}
    assert ("llm_rl", "sudoku_env") not in between_packages()


def test_one_room_of_the_trainers_knows_sudoku() -> None:
    to_sudoku = {here for here, there in arrows() if there.startswith("sudoku_env.") and here.startswith("dllm_rl.")}
    assert to_sudoku == {"dllm_rl.sudoku"}


def test_circles_and_what_is_needed_by_hand() -> None:
    chain = {("a", "b"), ("b", "c"), ("a", "c")}
    assert circle(chain) == [] and needed(chain) == {("a", "b"), ("b", "c")}
    assert circle({*chain, ("c", "b"), ("d", "a")}) == ["a", "b", "c", "d"]


def test_nothing_outgrows_its_ceiling_and_no_ceiling_hangs_high() -> None:
    allowed, found = json.loads(CEILINGS.read_text(encoding="utf-8")), counts()
    assert found.keys() == allowed.keys()
    above = {name: (count, allowed[name]) for name, count in found.items() if count > allowed[name]}
    assert not above, f"above the ceiling (found, allowed): {above}; say what leaves for it, or take lines away"
    low = {name: count for name, count in found.items() if count < (1 - SLACK) * allowed[name]}
    assert not low, f"far below the ceiling: {low}; lower these in {CEILINGS.name}"


def test_floors_by_hand() -> None:
    assert (floors(set()), floors({("a", "b")}), floors({("a", "b"), ("b", "c"), ("a", "d")})) == (1, 2, 3)
