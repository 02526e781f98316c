"""The tokenizer of the small model that ships with the project: words, single digits and packed puzzles."""

from itertools import product

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sudoku_env.board import BOX_SHAPES, SYMBOLS
from sudoku_env.prompts.alignment import get_answer_layout
from sudoku_env.prompts.text import DEFAULT_OPENING, DEFAULT_SYSTEM_PROMPT, TEMPLATES

BOS, EOS, MASK, UNKNOWN, ANSWER = "<|bos|>", "<|eos|>", "<|mask|>", "<|unk|>", "<|answer|>"

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ message['content'] }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '" + ANSWER + "' }}{% endif %}"
)


def build_small_tokenizer(size: int = 6, chunk: int = 3, answer_layout: str | None = None) -> PreTrainedTokenizerFast:
    """A word-level tokenizer in which a digit is one token and a compact prompt is short.

    Text is split at white space, so answers are written on one line (layouts "line", "lettered" and "bare"). A packed
    puzzle is cut into chunks of `chunk` cells, one token each: a 6×6 puzzle in the compact prompt takes 12 tokens.
    Other words than those of `sudoku_env.prompts.text`'s templates, and some numbers within these, become the unknown
    token. The chat template writes the user's message alone: a system prompt would cost the small model more than it is
    worth.

    Args:
        size: Board size whose packed puzzles are cut into chunks.
        chunk: Cells in a chunk.
        answer_layout: The answer layout of `pre_fill`, a key of `ANSWER_LAYOUTS`; None: the first one that fits.

    Returns:
        The tokenizer, with bos, eos (= pad), mask and unknown tokens and a chat template.

    Raises:
        TokenLayoutError: No answer layout has that name.
    """
    marks = "" if answer_layout is None else get_answer_layout(answer_layout).marks[:size]
    symbols = SYMBOLS[:size] + "."
    chunks = ["".join(cells) for cells in product(symbols, repeat=chunk)]
    names = [f"{n}x{n}" for n in BOX_SHAPES]
    texts = [*TEMPLATES.values(), DEFAULT_OPENING, DEFAULT_SYSTEM_PROMPT]
    words = sorted({word for text in texts for word in text.split() if "{" not in word})
    vocabulary = dict.fromkeys([BOS, EOS, MASK, UNKNOWN, ANSWER, ".", *SYMBOLS, *names, *words, *chunks, *marks])
    model = models.WordLevel({token: index for index, token in enumerate(vocabulary)}, unk_token=UNKNOWN)
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(f"[{symbols}]{{{chunk}}}"), behavior="isolated")]
    )
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=False)  # joins words by single spaces
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=EOS,
        mask_token=MASK,
        unk_token=UNKNOWN,
        additional_special_tokens=[ANSWER],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        **({} if answer_layout is None else {"answer_layout": answer_layout}),
    )
