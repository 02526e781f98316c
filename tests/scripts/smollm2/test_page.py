"""What the page of a run on SmolLM2 shows of an answer."""

from scripts.smollm2.page import Answer

PUZZLE, SOLUTION = "1..4..1221...3..", "1234341221434321"
ROW = {"prompt": [{"role": "user", "content": "Fill it."}], "puzzle": PUZZLE, "solution": SOLUTION}


def test_a_grid_becomes_a_board_and_any_answer_a_text() -> None:
    grid = "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 2"
    answer = Answer(3, ROW, [{"role": "assistant", "content": grid}], {"cells_reward": 0.875, "exact_reward": 0.0})
    replay = answer.replay()
    assert replay is not None and replay.title == "row 3, cells_reward 0.88, exact_reward 0.00"
    assert replay.boards[0][:4] == [1, 0, 0, 4] and replay.boards[1][-4:] == [4, 3, 2, 2]
    assert replay.solution[-4:] == [4, 3, 2, 1] and replay.boxes == (2, 2) and 1 in replay.definite[0]
    assert answer.text().text == f"user: Fill it.\n\n→\n\nassistant: {grid}"


def test_what_holds_no_grid_is_no_board() -> None:
    assert Answer(0, ROW, [{"role": "assistant", "content": "I give up."}], {}).replay() is None
    assert Answer(0, {"prompt": "1 + 1 ="}, "2", {}).replay() is None
