"""`Pattern`: a regular expression, a JSON schema or a list of texts as a check of answers, in decoding and training."""

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import count
from typing import Any

import torch
from torch import Tensor

from dllm_rl.task import UnmaskBatch
from dllm_rl.text.automaton import Automaton, Sets

DEPTH = 3
"""How often a reference of a schema is followed into itself."""
ANNOTATIONS = {"$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "readOnly", "title"}
LOOSEST = {"additionalProperties", "items", "minItems", "minLength", "minProperties", "properties", "required"}
"""Parts of a schema that say nothing where they are 0 or empty."""
ENTAILED = {"additionalProperties": {"properties"}, "type": {"const", "enum", "prefixItems", "properties"}}
"""Parts that hold without being read where one of some others is beside them."""


class Pattern:
    """The answers of one form, as an automaton over the tokens of a tokenizer.

    `Decoding(guard=pattern)` decodes by it: every answer then has the form, whatever the model. In training, the
    `pattern` of a `TextBatch` judges decisions.

    An answer may end before its last position: with the end-of-text token, behind which that and padding alone stand.
    Any tokens that together spell the text will do. Properties of a schema come in its order, with at most one space
    between parts, and `oneOf` is read as `anyOf`.

    Args:
        tokenizer: A fast tokenizer of transformers whose text is that of its tokens, one behind the other.
        regex: A regular expression, as Rust's crate `regex` reads it, that the whole answer matches.
        schema: A JSON schema, or its text, that the answer as JSON is valid by.
        choices: The texts that an answer may be.
        exact: Whether an answer fills all of its positions.
        strict: Refuse a schema with parts that answers cannot be held to; else a warning names them.

    Raises:
        ImportError: outlines-core is not installed.
        ValueError: Not one of the three is given, it cannot be read, has such parts, or matches nothing that the
            tokenizer can spell; or the tokenizer has no end-of-text token, or its text is not that of its tokens.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        regex: str | None = None,
        schema: Mapping[str, Any] | str | None = None,
        choices: Sequence[str] | None = None,
        exact: bool = False,
        strict: bool = False,
    ) -> None:
        core, given = _outlines_core(), {"regex": regex, "schema": schema, "choices": choices}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise ValueError(f"Pattern takes one of regex, schema and choices, got {' and '.join(named) or 'none'}")
        if schema is not None:
            schema = json.loads(schema) if isinstance(schema, str) else schema
            regex, dropped = _regex_of(schema), ", ".join(_dropped(schema))
            if dropped and strict:
                raise ValueError(f"answers cannot be held to parts of the schema: {dropped}; leave them or strict out")
            if dropped:
                warnings.warn(f"answers are not held to these parts of the schema: {dropped}", stacklevel=2)
        elif choices is not None:
            if isinstance(choices, str) or not choices or not all(isinstance(text, str) for text in choices):
                raise ValueError(f"choices={choices!r} must be a list of at least one text")
            regex = "|".join("".join(f"\\x{{{ord(letter):x}}}" for letter in text) for text in choices)

        end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
        if end is None and not exact:
            raise ValueError("the tokenizer has no token that ends an answer; set eos_token, or exact=True")

        # The automaton of the text. outlines_core takes the first alternative that matches unless told where a text
        # ends, and then wants one to begin with something; it also asks for a token of its own at the end.
        self.texts = token_texts(tokenizer)
        begin = 1 + max(self.texts)
        vocabulary = core.Vocabulary(begin + 1, {b"\0": [begin]})
        for token, text in self.texts.items():
            vocabulary.insert(text, token)
        try:
            index = core.Index(rf"\x00(?:{regex})\z", vocabulary)
        except ValueError as error:
            raise ValueError(f"{named[0]} matches no text that the tokenizer can spell: {error}") from None
        moves, final = index.get_transitions(), index.get_final_states()
        first = moves[index.get_initial_state()][begin]
        for out in moves.values():
            out.pop(begin + 1, None)

        # One more state is that behind the end.
        if not exact:
            ended = max([*moves, *final]) + 1
            for state in final:
                moves.setdefault(state, {})[end] = ended
            moves[ended] = dict.fromkeys({end, end if pad is None else pad}, ended)
            final = {*final, ended}
        self.automaton = Automaton(moves, first, final)
        if not self.automaton.first.any():
            raise ValueError(f"{named[0]} matches no text that the tokenizer can spell; change one of them")

    def completable(self, responses: Tensor, mask_id: int) -> Tensor:
        """Whether states, int64 `(N, R)`, can become an answer of this form, bool `(N,)`."""
        parts = responses.split(1024)  # which bounds memory
        return torch.cat([Sets(self.automaton, part, mask_id).completable() for part in parts]).to(responses.device)

    def look(self, problems: UnmaskBatch, states: Tensor, of: Tensor) -> Sets:
        """What decodes are guarded by, of states `(A, R)` of problems `(A,)` (`dllm_rl.decoding.settings.Looking`).

        Raises:
            ValueError: A state cannot be completed, or the mask is a token that the pattern is spelled with.
        """
        if problems.mask_id in self.texts:
            raise ValueError(f"mask_id={problems.mask_id} is the token {self.texts[problems.mask_id]!r}; use another")
        sets, length = Sets(self.automaton, states, problems.mask_id), states.shape[1]
        if not bool((fits := sets.completable()).all()):
            blank = (torch.full((1, tokens), problems.mask_id) for tokens in count(1))
            needed = next(one.shape[1] for one in blank if bool(self.completable(one, problems.mask_id)))
            if needed > length:
                raise ValueError(f"the pattern needs {needed} tokens, has {length}; allow answers more")
            told = "what is written in it" if bool((states != problems.mask_id).any()) else f"exactly {length} tokens"
            problem = int(of[int(fits.byte().argmin())])
            raise ValueError(f"problem {problem}: no answer of the pattern has {told}; change that, or the pattern")
        return sets


def token_texts(tokenizer: Any) -> dict[int, bytes]:
    """The UTF-8 of each token that is no special one; it may be a part of a character.

    Raises:
        ValueError: There is none, or the text of all of them is not one behind the other.
    """
    added = tokenizer.added_tokens_decoder
    special = {*tokenizer.all_special_ids, *(token for token, known in added.items() if known.special)}
    by_bytes = "ByteLevel" in str(getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None))
    # In byte-level vocabularies a letter stands for each byte: for printable ones it is their own, others follow 255.
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(byte): byte for byte in own}
    byte_of |= {chr(256 + place): byte for place, byte in enumerate(sorted({*range(256)} - {*own}))}
    found = {}
    for name, token in sorted(tokenizer.get_vocab().items(), key=lambda each: each[1]):
        if token in added:
            text = name.encode()
        elif by_bytes:
            text = bytes(byte_of[letter] for letter in name)
        elif byte := re.fullmatch("<0x([0-9A-F]{2})>", name):
            text = bytes.fromhex(byte[1])
        else:
            text = name.replace("▁", " ").encode()
        if text and token not in special:
            found[token] = text
    whole = [token for token, text in found.items() if "\ufffd" not in text.decode(errors="replace")]
    told = tokenizer.decode(whole, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    if not told or told.lstrip(" ") != b"".join(found[token] for token in whole).decode().lstrip(" "):
        raise ValueError(
            f"a text of {type(tokenizer).__name__} is not that of its tokens, one behind the other (are words joined "
            "by spaces?); use one that spells all characters, e.g. a byte-level BPE"
        )
    return found


def _outlines_core() -> Any:
    try:
        import outlines_core
        import outlines_core.json_schema
    except ModuleNotFoundError as error:
        raise ImportError("Pattern needs outlines-core; install it with pip install 'sudoku-dllm[grammar]'") from error
    return outlines_core


def _regex_of(schema: Any, depth: int = DEPTH) -> str:
    regex: str = _outlines_core().json_schema.build_regex_from_schema(json.dumps(schema), None, depth)
    return regex


def _dropped(schema: Any) -> Iterator[str]:
    """Where in a schema the parts are that outlines_core leaves out without a word: the regex is the same without."""
    whole = _regex_of(schema)

    def is_read(path: list[Any]) -> bool:
        less = inside = deepcopy(schema)
        for key in path[:-1]:
            inside = inside[key]
        del inside[path[-1]]
        try:
            return _regex_of(less) != whole
        except (ValueError, TypeError):
            return True  # without it this is no schema

    def parts(node: Any, path: list[Any], names: bool) -> Iterator[str]:
        """Of a schema, of schemas by name, or of a list."""
        items: Any = node.items() if isinstance(node, Mapping) else enumerate(node if isinstance(node, list) else ())
        for key, value in items:
            here, inside = [*path, key], not names and key in ("properties", "$defs", "definitions")
            entailed = any(other in node for other in ENTAILED.get(key, ()))
            if not names and (entailed or key in ANNOTATIONS or (not value and key in LOOSEST)):
                continue
            if is_read(here) and (names or key != "allOf" or len(value) == 1):  # more would become one behind the other
                yield from parts(value, here, inside) if names or key not in ("const", "enum") else ()
            elif not inside and not (names and path[-1] != "properties"):  # a definition that nothing refers to
                yield "/" + "/".join(map(str, here))

    yield from parts(schema, [], False)
    if '"$ref"' in json.dumps(schema) and _regex_of(schema, DEPTH + 1) != whole:
        yield f"what refers to itself more than {DEPTH} times"
