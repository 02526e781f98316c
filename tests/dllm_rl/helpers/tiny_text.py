"""A byte-level tokenizer with some longer tokens and a chat template, and models of it that have learned nothing."""

from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dllm_rl.models.llada import LladaForMaskedLM
from tests.dllm_rl.helpers.tiny_llada import make_model

PIECES = ['{"', '":', '",', "er", "in", "tr", "tru", "12", "Ã©", 'Ã©"']
"""The last two are é, in the letters of its bytes, and é with a quotation mark."""
CHAT = "{% for message in messages %}<{{ message['content'] }}>{% endfor %}{% if add_generation_prompt %}:{% endif %}"


def tokenizer(**changes: Any) -> PreTrainedTokenizerFast:
    """Each byte, the pieces, and <eos>, <pad> and <mask>."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: place for place, name in enumerate([*alphabet, *PIECES])}
    backend = Tokenizer(models.BPE(vocabulary, [(piece[:-1], piece[-1]) for piece in PIECES]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = {"eos_token": "<eos>", "pad_token": "<pad>", "mask_token": "<mask>", "chat_template": CHAT}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{**special, **changes})


def text_model(seed: int = 0) -> LladaForMaskedLM:
    """A LLaDA with random weights and some rows of logits that no token has."""
    names = tokenizer()
    return make_model(seed=seed, vocab_size=len(names) + 5, mask_token_id=names.mask_token_id, pad_token_id=None)
