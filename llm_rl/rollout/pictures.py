"""Pictures in messages: what a processor makes of them goes with a prompt's tokens, once for all of its answers."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from llm_rl.rollout.shared_prompts import inputs_of, positions

A_TOKEN = "token_type_ids"
"""How the names end of tensors that have a value for each token."""
MOST = "pixel_values"
"""The tensor that the model's vision tower reads."""


class PicturedPrompt(list[int]):
    """The tokens of a prompt, with a place for each part of a picture.

    `tensors` holds what the processor returned beside them, for this prompt, by the names of the model's arguments.
    """

    def __init__(self, ids: Iterable[int], tensors: dict[str, Tensor]) -> None:
        super().__init__(ids)
        self.tensors = tensors


@dataclass
class Pictures:
    """What a processor returned beside the tokens of a batch, once for each prompt.

    Attributes:
        prompts: The tensors of each prompt that has any.
        rows: For each row of the batch the number of its prompt there, or −1.
    """

    prompts: list[dict[str, Tensor]]
    rows: list[int]

    @classmethod
    def of(cls, prompts: Sequence[Sequence[int]]) -> Self | None:
        """Those of the prompts of a batch; None where none has any."""
        own = [prompt.tensors if isinstance(prompt, PicturedPrompt) else None for prompt in prompts]
        distinct = list({id(tensors): tensors for tensors in own if tensors is not None}.values())
        numbers = {id(tensors): number for number, tensors in enumerate(distinct)}
        return cls(distinct, [numbers.get(id(tensors), -1) for tensors in own]) if distinct else None

    def inputs(self, causal: Any, mask: Tensor) -> dict[str, Any]:
        """What the forward pass of a model takes beside tokens; a picture that several rows show is looked at once.

        Args:
            causal: The model.
            mask: bool `(B, L)`, the tokens, which in each row begin with those of the prompt.
        """
        known = inputs_of(causal.__class__)
        prompts = [
            {
                name: value.to(mask.device, causal.dtype if value.is_floating_point() else None)
                for name, value in tensors.items()
                if name in known
            }
            for tensors in self.prompts
        ]
        shown = [prompts[number] for number in self.rows if number >= 0 and MOST in prompts[number]]
        made: dict[str, Any] = _seen_once(causal, prompts, shown) if "mm_encoder_outputs" in known else {}
        for name in {name: None for tensors in prompts for name in tensors}:
            if name.endswith(A_TOKEN):
                made[name] = torch.zeros_like(mask, dtype=torch.long)
                for row, (number, start) in enumerate(zip(self.rows, mask.int().argmax(1).tolist(), strict=True)):
                    if number >= 0 and name in prompts[number]:
                        kinds = prompts[number][name]
                        made[name][row, start : start + kinds.shape[1]] = kinds[0]
            elif name != MOST or "mm_encoder_outputs" not in made:
                made[name] = _joined([tensors[name] for tensors in shown])
        return made


def _seen_once(
    causal: Any, prompts: Sequence[dict[str, Tensor]], shown: Sequence[dict[str, Tensor]]
) -> dict[str, dict[str, BaseModelOutputWithPooling]]:
    """What the vision tower says of each prompt's pictures, for each row that shows them; empty where none does twice.

    Empty, too, where the tower says more than a list of features, which the rows would have to share as well.
    """
    encode = getattr(causal.base_model, "get_image_features", None)
    if encode is None or len({id(tensors) for tensors in shown}) == len(shown):
        return {}
    takes = inspect.signature(encode).parameters
    seen: dict[int, Any] = {}
    for tensors in shown:
        if id(tensors) not in seen:
            given = {name: value for name, value in tensors.items() if name in takes}
            said = seen[id(tensors)] = encode(**given, return_dict=True)
            if type(said) is not BaseModelOutputWithPooling or not isinstance(said.pooler_output, (list, tuple)):
                return {}
    features: Any = [feature for tensors in shown for feature in seen[id(tensors)].pooler_output]
    return {"mm_encoder_outputs": {"image": BaseModelOutputWithPooling(pooler_output=features)}}


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one after the other; those that are smaller in further dimensions are filled up with 0."""
    sizes = [max(sizes) for sizes in zip(*(tensor.shape[1:] for tensor in tensors), strict=True)]
    made = tensors[0].new_zeros(sum(len(tensor) for tensor in tensors), *sizes)
    for tensor, part in zip(tensors, made.split([len(tensor) for tensor in tensors]), strict=True):
        part[(slice(None), *(slice(size) for size in tensor.shape[1:]))] = tensor
    return made


def beside_tokens(causal: Any, mask: Tensor, pictures: Pictures | None) -> dict[str, Any]:
    """What a model's forward pass takes beside tokens and their bool mask `(B, L)`: pictures and positions.

    A model that places pictures in a grid, or that knows no positions, counts these itself.
    """
    made = {} if pictures is None else pictures.inputs(causal, mask)
    if "position_ids" in inputs_of(causal.__class__):
        if not (made and hasattr(causal.base_model, "get_rope_index")):
            made["position_ids"] = positions(mask)
    return made


# Processors


def reads_pictures(processing_class: Any) -> bool:
    """Whether it is a processor, which takes pictures, and no tokenizer."""
    return hasattr(processing_class, "image_processor")


def tokenizer_of(processing_class: Any) -> Any:
    """A processor's tokenizer, or the tokenizer itself."""
    return processing_class.tokenizer if reads_pictures(processing_class) else processing_class


def blind_engine(engine: Any) -> list[str]:
    """The name of an engine that does not say that it takes pictures."""
    return [] if engine is None or getattr(engine, "takes_pictures", False) else [type(engine).__name__]


def refuse_pictures(processing_class: Any, *where: str) -> None:
    """Raises `ValueError` where a processor meets something, named in `where`, that cannot take pictures."""
    if where and reads_pictures(processing_class):
        raise ValueError(
            f"processing_class is a {type(processing_class).__name__}, and {' and '.join(where)} cannot take pictures; "
            "leave that out, or pass processing_class=processor.tokenizer with prompts of text alone"
        )


def check_takes(causal: Any, ids: Sequence[int]) -> None:
    """Raises `ValueError` where a prompt has pictures, and the model does not know a tensor of them."""
    tensors, known = ids.tensors if isinstance(ids, PicturedPrompt) else {}, inputs_of(causal.__class__)
    if unknown := [name for name in tensors if name not in known and not name.endswith(A_TOKEN)]:
        raise ValueError(
            f"the processor makes {', '.join(unknown)} of a prompt, which {type(causal).__name__} does not take; pass "
            "the model's own processor, or a model that sees pictures"
        )
