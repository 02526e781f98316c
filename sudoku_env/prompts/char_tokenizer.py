"""A tokenizer of one token a character, so that the environment works without any other."""

from collections.abc import Iterable

_CHARACTERS = "\n" + "".join(map(chr, range(ord(" "), ord("~") + 1)))
_SPECIAL = ("<pad>", "<eos>", "<mask>", "<unk>")


class CharTokenizer:
    """Newline and printable ASCII, one token each, after four special tokens.

    It has the part of the interface of a transformers tokenizer that `sudoku_env` uses. Text never encodes to a special
    token other than `<unk>`.

    Attributes:
        pad_token_id: Padding, 0.
        eos_token_id: End of the answer, 1.
        mask_token_id: A position not decoded yet, 2.
        unk_token_id: A character outside the vocabulary, 3.
        bos_token_id: None.
        chat_template: None.
        all_special_ids: The four ids above.
    """

    pad_token_id = 0
    eos_token_id = 1
    mask_token_id = 2
    unk_token_id = 3
    bos_token_id = None
    chat_template = None
    all_special_ids = (0, 1, 2, 3)

    def __init__(self) -> None:
        self._tokens = (*_SPECIAL, *_CHARACTERS)
        self._ids = {character: len(_SPECIAL) + index for index, character in enumerate(_CHARACTERS)}

    def __len__(self) -> int:
        return len(self._tokens)

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """One id a character; `add_special_tokens` adds the end token."""
        ids = [self._ids.get(character, self.unk_token_id) for character in text]
        return [*ids, self.eos_token_id] if add_special_tokens else ids

    def decode(
        self, token_ids: Iterable[int], skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> str:
        """The characters of the ids; there are no spaces to clean up.

        Raises:
            IndexError: An id is outside the vocabulary.
        """
        kept = (int(i) for i in token_ids if not (skip_special_tokens and int(i) < len(_SPECIAL)))
        return "".join(self._tokens[index] for index in kept)
