import json
from collections import Counter
from pathlib import Path

import pytest

from llm_rl.raro import Pair, ReplayBuffer, question_key
from llm_rl.training.storage import load_record, save_record
from tests.helpers.refusals import refused


def pair(number: int, question: int = 0) -> Pair:
    return Pair(f"q{question}", f"question {question}", f"expert {question}", f"answer {number}", number)


def numbers(buffer: ReplayBuffer) -> list[int]:
    return sorted(found.step for found in buffer.pairs)


def text_bytes(buffer: ReplayBuffer) -> int:
    """UTF-8 bytes of all texts that are held, each object once."""
    held = {id(text): text for pair in buffer.pairs for text in (*pair.texts[:2], pair.policy_answer)}
    return sum(len(text.encode()) for text in held.values())


def test_fifo_keeps_the_latest() -> None:
    buffer = ReplayBuffer(4)
    for number in range(11):
        buffer.add([pair(number, number % 3)])
        assert numbers(buffer) == list(range(max(0, number - 3), number + 1))
    assert {found.question for found in buffer.pairs} == {"question 0", "question 1", "question 2"}
    assert all(found == pair(found.step, found.step % 3) for found in buffer.pairs)


def test_a_reservoir_is_a_uniform_sample_of_all_that_was_added() -> None:
    kept: Counter[int] = Counter()
    for seed in range(2000):
        buffer = ReplayBuffer(3, "reservoir", seed)
        buffer.add([pair(number) for number in range(12)])
        assert len(numbers(buffer)) == 3
        kept.update(numbers(buffer))
    # 2,000 · 3/12 = 500 of each, standard deviation 19.4.
    assert set(kept) == set(range(12)) and all(abs(count - 500) < 90 for count in kept.values())


def test_draws_are_different_pairs_and_uniform() -> None:
    buffer = ReplayBuffer(10, seed=3)
    buffer.add([pair(number) for number in range(10)])
    drawn: Counter[int] = Counter()
    for _ in range(1000):
        sample = [found.step for found in buffer.sample(4)]
        assert len(set(sample)) == 4
        drawn.update(sample)
    assert all(abs(drawn[number] - 400) < 80 for number in range(10))  # standard deviation 15.5


def test_empty_or_smaller_than_asked() -> None:
    buffer = ReplayBuffer(5)
    assert buffer.sample(3) == [] and buffer.pairs == []
    buffer.add([pair(0), pair(1)])
    assert sorted(found.step for found in buffer.sample(3)) == [0, 1] and buffer.sample(0) == []


def test_texts_are_held_once_and_go_with_their_last_pair() -> None:
    buffer = ReplayBuffer(2)
    buffer.add([Pair("a", "é" * 100, "x", "1", 0), Pair("a", "é" * 100, "x", "22", 0)])
    assert text_bytes(buffer) == 200 + 1 + 3
    buffer.add([Pair("b", "q", "y", "3", 1)])
    assert text_bytes(buffer) == 201 + 2 + 2 + 1
    buffer.add([Pair("b", "q", "y", "4", 1)])
    assert text_bytes(buffer) == 4 and buffer.state_dict()["question_ids"] == ["b"]


def test_one_question_id_may_have_several_texts(tmp_path: Path) -> None:
    pairs = [
        Pair("a", "red", "one", "1", 0),
        Pair("a", "red", "two", "2", 0),
        Pair("a", "blue", "one", "3", 1),
        Pair("a", "red", "one", "4", 1),
    ]
    buffer = ReplayBuffer(4)
    buffer.add(pairs)
    assert buffer.pairs == pairs and text_bytes(buffer) == len("redonetwoblue") + 4
    save_record(buffer.state_dict(), tmp_path / "replay")
    other = ReplayBuffer(4)
    other.load_state_dict(load_record(tmp_path / "replay"))
    assert other.pairs == pairs and text_bytes(other) == text_bytes(buffer)
    for number in range(3):  # the last pair still needs the first one's texts
        other.add([Pair("b", "q", "y", str(number), 2)])
    assert other.pairs[3] == pairs[3] and text_bytes(other) == 6 + 1 + 2 + 3


def test_a_large_buffer_is_as_large_as_its_answers() -> None:
    buffer = ReplayBuffer(50_000)
    question, expert = "q" * 2000, "e" * 4000
    buffer.add([Pair("q", question, expert, str(number) * 3, number) for number in range(60_000)])
    assert len(buffer) == 50_000 and text_bytes(buffer) == 6000 + sum(3 * len(str(n)) for n in range(10_000, 60_000))


@pytest.mark.parametrize("mode", ["fifo", "reservoir"])
def test_a_saved_buffer_goes_on_as_it_would_have(tmp_path: Path, mode: str) -> None:
    buffer = ReplayBuffer(6, mode, 1)  # type: ignore[arg-type]
    buffer.add([pair(number, number % 4) for number in range(9)])
    buffer.sample(2)
    save_record(buffer.state_dict(), tmp_path / "replay")
    other = ReplayBuffer(6, mode, 99)  # type: ignore[arg-type]
    other.add([pair(50, 9)])
    other.load_state_dict(load_record(tmp_path / "replay"))
    assert text_bytes(other) == text_bytes(buffer)
    for _ in range(3):
        assert other.sample(3) == buffer.sample(3)
        for either in (buffer, other):
            either.add([pair(number, number % 5) for number in range(10, 17)])
        assert other.pairs == buffer.pairs
    assert json.loads((tmp_path / "replay.json").read_text())["kind"] == "dict"


def test_what_is_wrong_raises() -> None:
    refused("capacity=0 must", lambda: ReplayBuffer(0))
    refused("mode is 'lifo'", lambda: ReplayBuffer(1, "lifo"))  # type: ignore[arg-type]
    buffer = ReplayBuffer(3)
    refused("count=-1 must be at least 0", lambda: buffer.sample(-1))
    with pytest.raises(ValueError, match="capacity 3 and mode 'fifo', this one 4 and 'reservoir'"):
        ReplayBuffer(4, "reservoir").load_state_dict(buffer.state_dict())


def test_questions_without_an_identifier_get_one() -> None:
    assert question_key("a", "b") == question_key("a", "b") != question_key("a", "c")
    assert question_key("a, b", "c") != question_key("a", "b, c")
