import numpy as np
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from scripts.shared.small_tokenizer import build_small_tokenizer
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt, parse_puzzle
from sudoku_env.prompts.tokens import TokenLayout, pre_fill


@pytest.fixture(scope="module")
def six() -> PreTrainedTokenizerFast:
    return build_small_tokenizer()


@pytest.fixture(scope="module")
def boards() -> np.ndarray:
    return generate(5, size=6, clues=(12, 20), rule="singles", seed=0).boards


def test_special_tokens(six) -> None:
    special = (six.bos_token_id, six.eos_token_id, six.mask_token_id, six.unk_token_id)
    assert len(set(special)) == 4 and six.pad_token_id == six.eos_token_id
    assert six.convert_ids_to_tokens(list(special)) == ["<|bos|>", "<|eos|>", "<|mask|>", "<|unk|>"]
    assert six.encode("<|mask|>", add_special_tokens=False) == [six.mask_token_id]


def test_a_compact_prompt_takes_twelve_tokens_of_three_cells(six, boards) -> None:
    packed = build_prompt(boards[0], "compact")
    tokens = six.convert_ids_to_tokens(six.encode(packed, add_special_tokens=False))
    cells = packed.split()[-1]
    assert tokens == ["sudoku", "6x6", *(cells[first : first + 3] for first in range(0, 36, 3))]


@pytest.mark.parametrize("template", ["compact", "short"])
def test_prompts_hold_no_unknown_word(six, boards, template) -> None:
    for board in boards:
        assert six.unk_token_id not in six.encode(build_prompt(board, template), add_special_tokens=False)


def test_a_compact_prompt_keeps_its_puzzle(six, boards) -> None:
    for board in boards:
        text = six.decode(six.encode(build_prompt(board, "compact"), add_special_tokens=False))
        assert np.array_equal(parse_puzzle("sudoku 6x6 " + "".join(text.split()[2:])), board)


def test_other_words_are_unknown(six) -> None:
    assert six.encode("zebra", add_special_tokens=False) == [six.unk_token_id]


def test_digits_are_one_token_each_and_round_trip(six) -> None:
    text = "Solution: 1 2 3 4 5 6"
    ids = six.encode(text, add_special_tokens=False)
    assert len(ids) == 7
    assert six.decode(ids) == text


def test_chat_template_writes_the_users_message_alone(six) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "sudoku 6x6"}]
    text = six.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|bos|>sudoku 6x6<|answer|>"


@pytest.mark.parametrize("size", [4, 6, 9])
def test_pre_fill_finds_a_layout_and_a_state_gives_it_back(size) -> None:
    tokenizer = build_small_tokenizer(size, chunk=2)
    clues = {4: 8, 6: 18, 9: 45}[size]
    puzzles = generate(2, size=size, clues=clues, rule="singles", seed=1)
    for board, solution in zip(puzzles.boards, puzzles.solutions, strict=True):
        prefilled = pre_fill(build_prompt(board, "compact"), tokenizer, size * size + 4)
        layout = prefilled.layout
        assert np.array_equal(layout.solution, solution)
        assert prefilled.token_ids[layout.prompt_length + 1 :].count(layout.mask_id) == size * size - clues + 3
        digits = tokenizer.convert_ids_to_tokens(layout.digit_ids.tolist())
        assert digits == [str(digit) for digit in range(1, size + 1)]
        found = TokenLayout.from_state(prefilled.token_ids, tokenizer)
        assert np.array_equal(found.cell_positions, layout.cell_positions)
        assert np.array_equal(found.puzzle, board)


def test_a_saved_tokenizer_is_the_same(tmp_path, six, boards) -> None:
    six.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    prompt = build_prompt(boards[0], "compact")
    assert len(again) == len(six)
    assert pre_fill(prompt, again, 40).token_ids == pre_fill(prompt, six, 40).token_ids


def test_ids_do_not_change() -> None:
    """Trained checkpoints depend on them."""
    tokenizer = build_small_tokenizer()
    assert len(tokenizer) == 423
    names = ["<|bos|>", "<|eos|>", "<|mask|>", "<|unk|>", "<|answer|>", ".", "1", "9"]
    assert tokenizer.convert_tokens_to_ids(names) == [0, 1, 2, 3, 4, 5, 6, 14]
