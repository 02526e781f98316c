"""What a batch of problems must be, looked at once where a training or a decode begins."""

from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from dllm_rl.task import UnmaskBatch, UnmaskTask

WIDTHS = {"responses": "R", "answers": "R", "judged": "R", "scored": "R", "prompt_ids": "P", "prompt_mask": "P"}
TOKENS = ("prompt_ids", "responses", "answers")
FIRST_STATES = 4
"""How many problems are asked what is definite at their start."""


def check_batch(
    problems: UnmaskBatch, *, task: UnmaskTask | None = None, model: nn.Module | None = None, definite: bool = True
) -> None:
    """Refuse a batch that would fail, or mean something else, deep inside a training or a decode.

    Trainers call it with their first batch, `decode` and `evaluate` with each; a task of one's own is tried with it.

    Args:
        problems: What `task.batch` returned.
        task: Look at the task's `record_classes` as well.
        model: Look whether its vocabulary has the tokens as well; one without `get_input_embeddings` tells nothing.
        definite: Ask the first problems what is definite at their start.

    Raises:
        ValueError: A field has another shape, type or value than `UnmaskBatch` says, `per_problem` lacks a field or
            names one that is no tensor, `definite` returns something else than open judged positions, or
            `record_classes` lacks the batch's class. The message names the field, what it is and what it should be.
    """
    if not isinstance(problems, UnmaskBatch):
        raise ValueError(f"a batch is a {type(problems).__name__}; make it of a subclass of dllm_rl.UnmaskBatch")
    _check_columns(problems)
    _check_tokens(problems, None if model is None else _vocabulary(model))
    _check_answers(problems)
    if definite:
        _check_definite(problems)
    if task is not None:
        _check_record_classes(problems, task)


def _check_columns(problems: UnmaskBatch) -> None:
    names = tuple(problems.per_problem)
    if missing := [name for name in UnmaskBatch.per_problem if name not in names]:
        remedy = "write (*UnmaskBatch.per_problem, …) and your own names"
        _refuse(problems, "per_problem", str(names), f"it lacks {', '.join(missing)}: {remedy}")

    # The fields of every batch: Q, R and P are those of the first that has them.
    sizes: dict[str, int] = {}
    for name, width in WIDTHS.items():
        value, dtype = getattr(problems, name), torch.int64 if name in TOKENS else torch.bool
        expected = [sizes.get(size, size) for size in ("Q", width)]
        told = f"it must be {_name(dtype)} ({expected[0]}, {expected[1]}), a row for each problem"
        if name == "prompt_mask" and value is None:
            continue
        if not isinstance(value, Tensor) or value.ndim != 2 or value.dtype != dtype:
            _refuse(problems, name, _told(value), told)
        sizes = {"Q": value.shape[0], width: value.shape[1], **sizes}
        if tuple(value.shape) != (sizes["Q"], sizes[width]):
            _refuse(problems, name, _told(value), told)

    # Those that a subclass adds.
    for name in names:
        if not hasattr(problems, name):
            _refuse(problems, "per_problem", str(names), f"it names fields, and there is no {name}")
        value = getattr(problems, name)
        if name not in WIDTHS and not (isinstance(value, Tensor) and value.ndim and len(value) == sizes["Q"]):
            told = f"per_problem is for tensors of {sizes['Q']} rows, one for each problem; leave {name} out of it"
            _refuse(problems, name, _told(value), told)


def _check_tokens(problems: UnmaskBatch, vocabulary: int | None) -> None:
    """The mask and the tokens lie in the vocabulary, which is unknown where it is None."""
    mask_id, known = problems.mask_id, "" if vocabulary is None else f", below the {vocabulary} tokens of the model"
    if type(mask_id) is not int or mask_id < 0 or (vocabulary is not None and mask_id >= vocabulary):
        _refuse(problems, "mask_id", repr(mask_id), f"it must be an int, 0 or larger{known}: the tokenizer's mask")
    for name in TOKENS:
        tokens = getattr(problems, name)
        outside = (tokens < 0) | (tokens >= vocabulary) if vocabulary is not None else tokens < 0
        hint = "write mask_id where no answer is known" if name == "answers" else "use the model's own tokenizer"
        _refuse_where(problems, outside, name, f"token ids are 0 or larger{known}; {hint}")


def _check_answers(problems: UnmaskBatch) -> None:
    """What is judged, scored or written agrees with the answers."""
    known, judged, scored = problems.known, problems.judged, problems.scored
    for name, chosen in (("judged", judged & (not problems.several)), ("scored", scored)):
        told = f"a position that is {name} needs its right token; write it, or leave the position out of {name}"
        _refuse_where(problems, chosen & ~known, "answers", f"{told} (mask_id means that none is known)")
    _refuse_where(
        problems, judged & scored, "scored", "scored is for positions that are not judged; set it to False there"
    )
    written = problems.responses != problems.mask_id
    _refuse_where(
        problems,
        written & known & (problems.responses != problems.answers),
        "responses",
        f"what is written at the start must be the answer's token; open the position with mask_id, which is "
        f"{problems.mask_id} here, or mend answers",
    )


def _check_definite(problems: UnmaskBatch) -> None:
    of = torch.arange(min(FIRST_STATES, len(problems)), device=problems.responses.device)
    states = problems.responses[of]
    found: Any = problems.definite(states, of)
    if not isinstance(found, Tensor) or found.dtype != torch.bool or found.shape != states.shape:
        expected = f"bool {tuple(states.shape)}, a row for each of the states that it was given"
        _refuse(problems, "definite(responses, of)", _told(found), f"it must return {expected}")
    if found.device != states.device:
        _refuse(problems, "definite(responses, of)", f"on {found.device}", f"it must stay on {states.device}")
    _refuse_where(
        problems,
        found & ~((states == problems.mask_id) & problems.judged[of]),
        "definite(responses, of)",
        "only open judged positions can be definite; take & (responses == self.mask_id) & self.judged[of]",
        shown=found,
    )


def _check_record_classes(problems: UnmaskBatch, task: UnmaskTask) -> None:
    kind, inside = type(problems), (getattr(problems, item.name) for item in fields(problems))
    needed = [kind, *{type(value) for value in inside if is_dataclass(value) and not isinstance(value, type)}]
    written = ", ".join(each.__name__ for each in needed) + ("," if len(needed) == 1 else "")
    remedy = f"checkpoints need it: write record_classes: ClassVar[tuple[type, ...]] = ({written})"
    found: Any = getattr(task, "record_classes", None)
    if not isinstance(found, (tuple, list)) or not all(isinstance(each, type) for each in found):
        told = "missing" if found is None else repr(found)
        raise ValueError(f"{type(task).__name__}.record_classes is {told}; {remedy}")
    if missing := [each.__name__ for each in needed if each not in found]:
        names = [each.__name__ for each in found]
        raise ValueError(f"{type(task).__name__}.record_classes is {names}, without {', '.join(missing)}; {remedy}")


def _vocabulary(model: nn.Module) -> int | None:
    """How many tokens a model has embeddings for; None where it does not say."""
    try:
        table = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return None
    return getattr(table, "num_embeddings", None)


def _refuse(problems: UnmaskBatch, field: str, found: str, expected: str) -> NoReturn:
    raise ValueError(f"{type(problems).__name__}.{field} is {found}; {expected}")


def _refuse_where(
    problems: UnmaskBatch, wrong: Tensor, field: str, expected: str, *, shown: Tensor | None = None
) -> None:
    """Name the first of the wrong positions, bool of a field's shape, and its value there."""
    if bool(wrong.any()):
        row, column = wrong.nonzero()[0].tolist()
        value = (getattr(problems, field) if shown is None else shown)[row, column].item()
        _refuse(problems, field, f"{value} at position {column} of problem {row}", expected)


def _told(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{_name(value.dtype)} {tuple(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
