"""A batch that is not what `UnmaskBatch` says is refused where a training begins, by the name of the field."""

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from dllm_rl.batch_check import check_batch
from dllm_rl.decoding import Decoding, decode, evaluate
from dllm_rl.models.adapter import as_policy_model
from dllm_rl.sft import SftArguments, SftDataset, SftTrainer
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from dllm_rl.training.trainer import UnmaskTrainer
from tests.dllm_rl.helpers.tiny_sums import LENGTH, MASK, SumBatch, SumTask, sum_model
from tests.dllm_rl.helpers.tiny_training import arguments
from tests.helpers.refusals import refused

PAIRS = [(1, 2), (3, 4), (6, 9), (8, 8), (2, 2)]
OPEN = torch.full((5, LENGTH), MASK)
ANSWERS = SumTask().batch(PAIRS).answers
JUDGED = SumTask().batch(PAIRS).judged
LAST = (3, LENGTH - 1)


def put(tensor: Tensor, place: tuple[int, int], value: float) -> Tensor:
    """A copy with another value in one place."""
    copy = tensor.clone()
    copy[place] = value
    return copy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"responses": OPEN[0]}, "responses is int64 (4,); it must be int64 (Q, R), a row for each problem"),
        ({"responses": OPEN.int()}, "responses is int32 (5, 4); it must be int64 (Q, R)"),
        ({"responses": OPEN.tolist()}, "responses is a list; it must be int64 (Q, R)"),
        ({"answers": ANSWERS[:, 1:]}, "answers is int64 (5, 3); it must be int64 (5, 4), a row for each problem"),
        ({"answers": ANSWERS[:4]}, "answers is int64 (4, 4); it must be int64 (5, 4)"),
        ({"judged": JUDGED.float()}, "judged is float32 (5, 4); it must be bool (5, 4)"),
        ({"judged": JUDGED[0]}, "judged is bool (4,); it must be bool (5, 4)"),
        ({"scored": JUDGED.long()}, "scored is int64 (5, 4); it must be bool (5, 4)"),
        ({"scored": None}, "scored is None; it must be bool (5, 4)"),
        ({"prompt_ids": torch.zeros(2, 2).long()}, "prompt_ids is int64 (2, 2); it must be int64 (5, P)"),
        ({"prompt_ids": torch.zeros(5, 2)}, "prompt_ids is float32 (5, 2); it must be int64 (5, P)"),
        ({"prompt_mask": torch.ones(5, 2)}, "prompt_mask is float32 (5, 2); it must be bool (5, 2)"),
        ({"prompt_mask": torch.ones(5, 3).bool()}, "prompt_mask is bool (5, 3); it must be bool (5, 2)"),
        ({"weight": torch.ones(4)}, "weight is float32 (4,); per_problem is for tensors of 5 rows, one for each"),
        ({"weight": [1.0] * 5}, "weight is a list; per_problem is for tensors of 5 rows, one for each problem; leave "),
        ({"mask_id": None}, "mask_id is None; it must be an int, 0 or larger"),
        ({"mask_id": torch.tensor(MASK)}, "mask_id is tensor(10); it must be an int, 0 or larger"),
        ({"mask_id": -1}, "mask_id is -1; it must be an int, 0 or larger"),
        ({"mask_id": 11}, "mask_id is 11; it must be an int, 0 or larger, below the 11 tokens of the model"),
        ({"prompt_ids": put(torch.zeros(5, 2).long(), (1, 0), 11)}, "prompt_ids is 11 at position 0 of problem 1; "),
        ({"responses": put(OPEN, LAST, -7)}, "responses is -7 at position 3 of problem 3; token ids are 0 or"),
        ({"answers": put(ANSWERS, LAST, -100)}, "answers is -100 at position 3 of problem 3; token ids are 0 or "),
        ({"answers": put(ANSWERS, (2, 1), MASK)}, "answers is 10 at position 1 of problem 2; a position that is ju"),
        ({"answers": put(ANSWERS, LAST, MASK)}, "answers is 10 at position 3 of problem 3; a position that is sco"),
        ({"scored": put(~JUDGED, (4, 2), True)}, "scored is True at position 2 of problem 4; scored is for posit"),
        ({"responses": put(OPEN, (0, 0), 9)}, "responses is 9 at position 0 of problem 0; what is written at the "),
    ],
)
def test_a_wrong_field_is_named_with_what_it_is_and_what_it_should_be(changes, message) -> None:
    wrong = replace(SumTask().batch(PAIRS), **changes)
    refused("^" + re.escape(f"SumBatch.{message}"), lambda: check_batch(wrong, task=SumTask(), model=sum_model()))


def test_a_right_batch_passes_and_is_left_as_it_is(puzzles, batch) -> None:
    sums, model = SumTask().batch(PAIRS), sum_model()
    for each in (sums, sums.select(torch.tensor([2])), replace(sums, prompt_mask=torch.ones(5, 2, dtype=torch.bool))):
        before = {name: value.clone() for name, value in vars(each).items() if isinstance(value, Tensor)}
        check_batch(each, task=SumTask(), model=model)
        check_batch(each, model=as_policy_model(model, shifted=True))
        assert all(torch.equal(getattr(each, name), value) for name, value in before.items())
    check_batch(replace(sums, prompt_ids=sums.prompt_ids[:, :0]), model=model)
    check_batch(batch, task=SudokuTask(pad_id=0))
    for tail in ("free", "prefill", "scored"):
        check_batch(PuzzleBatch.collate(puzzles, pad_id=77, tail_id=50, tail=tail))


def test_the_vocabulary_is_looked_at_where_the_model_tells_it() -> None:
    wrong = replace(SumTask().batch(PAIRS), prompt_ids=torch.full((5, 2), 11))
    check_batch(wrong)
    check_batch(wrong, model=torch.nn.Identity())
    for model in (sum_model(), as_policy_model(sum_model(), shifted=True)):
        with pytest.raises(ValueError, match="below the 11 tokens of the model; use the model's own tokenizer"):
            check_batch(wrong, model=model)


def test_a_batch_of_another_class_is_refused() -> None:
    refused(r"a batch is a dict; make it of a subclass of dllm_rl\.UnmaskBatch", lambda: check_batch({}))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("weight",), r"per_problem is \('weight',\); it lacks prompt_ids, .*write \(\*UnmaskBatch.per_problem"),
        ((*SumBatch.per_problem, "wait"), r"per_problem is \(.*'wait'\); it names fields, and there is no wait"),
        ((*SumBatch.per_problem, "name"), r"name is a str; per_problem is for tensors of 5.* leave name out of it"),
    ],
)
def test_per_problem_names_all_tensors_and_nothing_else(names, message, monkeypatch) -> None:
    monkeypatch.setattr(SumBatch, "per_problem", names)
    refused(message, lambda: check_batch(SumTask().batch(PAIRS)))


@pytest.mark.parametrize(
    ("definite", "message"),
    [
        (lambda batch, responses, of: None, "is None; it must return bool (4, 4), a row for each of the states"),
        (lambda batch, responses, of: responses, "is int64 (4, 4); it must return bool (4, 4)"),
        (lambda batch, responses, of: batch.judged, "is bool (5, 4); it must return bool (4, 4)"),
        (lambda batch, responses, of: batch.judged[of][:, :2], "is bool (4, 2); it must return bool (4, 4)"),
        (lambda batch, responses, of: (batch.judged[of]).to("meta"), "is on meta; it must stay on cpu"),
        (lambda batch, responses, of: ~batch.judged[of], "is True at position 3 of problem 0; only open judged posi"),
        (lambda batch, responses, of: batch.judged[of], "is True at position 1 of problem 0; only open judged posit"),
    ],
)
def test_definite_returns_open_judged_positions_of_the_states_it_is_given(definite, message, monkeypatch) -> None:
    whole = SumTask().batch(PAIRS)
    given = replace(whole, responses=torch.where(torch.arange(LENGTH) == 1, whole.answers, whole.responses))
    check_batch(given)
    monkeypatch.setattr(SumBatch, "definite", definite)
    refused(re.escape(f"SumBatch.definite(responses, of) {message}"), lambda: check_batch(given))
    check_batch(given, definite=False)


@dataclass(frozen=True)
class TaskWithout:
    """A task of sums that forgot what it does."""

    def batch(self, problems: Any) -> SumBatch:
        return SumTask().batch(problems)


class TaskWithOthers(SudokuTask):
    record_classes: ClassVar[tuple[type, ...]] = (PuzzleBatch,)


class TaskWithText(SumTask):
    record_classes = "SumBatch"


def test_record_classes_name_the_class_of_the_batch_and_those_in_it(batch) -> None:
    sums = SumTask().batch(PAIRS)
    for task, given, told, needed in (
        (TaskWithout(), sums, r"TaskWithout.record_classes is missing", r"\(SumBatch,\)"),
        (TaskWithText(), sums, r"TaskWithText.record_classes is 'SumBatch'", r"\(SumBatch,\)"),
        (TaskWithOthers(0), batch, r"is \['PuzzleBatch'\], without TokenLayout", r"\(PuzzleBatch, TokenLayout\)"),
    ):
        remedy = rf"; checkpoints need it: write record_classes: ClassVar\[tuple\[type, ...\]\] = {needed}"
        with pytest.raises(ValueError, match=told + remedy):
            check_batch(given, task=task)


class FloatTask(SumTask):
    """Sums whose judged positions are numbers."""

    def batch(self, problems: Any) -> SumBatch:
        right = super().batch(problems)
        return replace(right, judged=right.judged.float())


def test_trainings_and_decodes_refuse_a_wrong_batch_before_they_begin(tmp_path) -> None:
    model, wrong = sum_model(), r"SumBatch\.judged is float32 \(\d, 4\); it must be bool \(\d, 4\)"
    refused(wrong, lambda: UnmaskTrainer(model, arguments(tmp_path), PAIRS, FloatTask()))
    refused(wrong, lambda: SftDataset(FloatTask().batch(PAIRS)))
    refused(wrong, lambda: evaluate(model, PAIRS, FloatTask()))
    refused(wrong, lambda: decode(model, FloatTask().batch(PAIRS), Decoding("margin")))
    with pytest.raises(ValueError, match=r"TaskWithout\.record_classes is missing"):
        UnmaskTrainer(model, arguments(tmp_path), PAIRS, TaskWithout())
    assert not list(tmp_path.iterdir())


def taught(folder: Any, problems: SumBatch, model: Any = None, **options: Any) -> SftTrainer:
    args = SftArguments(str(folder), use_cpu=True, report_to="none", **options)
    return SftTrainer(model=model or sum_model(), args=args, train_dataset=SftDataset(problems))


def test_sft_refuses_tokens_or_a_mask_that_the_model_does_not_know(tmp_path) -> None:
    right, model = SumTask().batch(PAIRS), sum_model()
    outside = replace(right, prompt_ids=right.prompt_ids + 11)
    told = r"SumBatch\.prompt_ids is 12 at position 0 of problem 0; .* 11 tokens"
    refused(told, lambda: taught(tmp_path, outside, model))
    model.config.mask_token_id = 9
    refused("the problems' mask_id is 10, the model's mask_token_id 9", lambda: taught(tmp_path, right, model))


def test_sft_asks_what_is_definite_where_its_loss_does(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(SumBatch, "definite", lambda batch, responses, of: batch.judged)
    problems, told = SumTask().batch(PAIRS), r"SumBatch\.definite\(responses, of\) is bool \(5, 4\)"
    taught(tmp_path, problems)
    refused(told, lambda: taught(tmp_path, problems, ce_on="definite"))
