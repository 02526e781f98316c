"""Puzzles of signed digits: each has an answer, and those for tests have digits of their own."""

from itertools import permutations, product

from scripts.shared.signs import puzzles, value


def test_every_puzzle_has_an_answer_and_chance_is_about_one_in_ten() -> None:
    rows, chance = puzzles(60, 3, held_out=False), []
    for row in rows:
        values = [
            value(" ".join(f"{sign} {digit}" for sign, digit in zip(signs, digits, strict=True)))
            for digits in permutations(row["digits"])
            for signs in product("+-", repeat=3)
        ]
        chance.append(values.count(row["target"]) / len(values))
    assert min(chance) > 0 and 0.07 < sum(chance) / len(chance) < 0.2


def test_training_and_held_out_puzzles_share_no_digits() -> None:
    train, test = ({tuple(sorted(row["digits"])) for row in puzzles(300, 0, held)} for held in (False, True))
    assert not train & test and len(test) > 40


def test_what_is_no_expression_has_no_value() -> None:
    assert value("+ 7 - 4 - 2") == 1
    assert {value(text) for text in ("", "7 - 4", "+ 7 -", "+- 7 - 4", "+ x")} == {None}
