"""`DPOTrainer`: direct preference optimization (arXiv:2305.18290) on pairs of completions; see docs/dpo.md."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from llm_rl.core import MetricAccumulator, dpo_loss, masked_sum
from llm_rl.dpo.arguments import DPOArguments
from llm_rl.dpo.pairs import PairBatch, PairDataset
from llm_rl.rollout.data import RolloutBatch
from llm_rl.rollout.pictures import refuse_pictures
from llm_rl.rollout.scored import ScoredTrainer
from llm_rl.rollout.scoring import PolicyScorer, ReferenceModel, positions_of
from llm_rl.rollout.symptoms import warn_of_text_prompts
from llm_rl.training.modes import evaluation_mode


class DPOTrainer(ScoredTrainer):
    """A `transformers.Trainer` that raises the probability of chosen completions over that of rejected ones.

    Nothing is sampled. Rows that do not fill the last optimizer step of an epoch are left out of it.

    Args:
        model: A causal language model of transformers, or PEFT's wrapper of one.
        args: The arguments.
        train_dataset: Rows with "prompt", "chosen" and "rejected", see `llm_rl.dpo.pairs.PairDataset`: a list, a
            `datasets.Dataset`, or anything else with a length and indices.
        processing_class: The tokenizer.
        eval_dataset: Rows for `evaluate`.
        ref_model: The reference. None: the policy as it is now, see `llm_rl.rollout.scoring.ReferenceModel`.
        callbacks: Callbacks, as in `transformers.Trainer`.
        optimizers: Optimizer and scheduler, as in `transformers.Trainer`.

    Raises:
        ValueError: A row is no pair or too long, the tokenizer has no end token, or a way of distribution
            is asked for that is not supported.
        RuntimeError: The number of processes is not the launcher's or not `args.expected_processes`.
    """

    args: DPOArguments
    shards = True
    record_classes = (RolloutBatch, PairBatch)
    harmless_arguments = frozenset({"precompute_ref_log_probs"})

    def __init__(
        self,
        model: nn.Module,
        args: DPOArguments,
        train_dataset: Any,
        processing_class: Any,
        *,
        eval_dataset: Any = None,
        ref_model: nn.Module | None = None,
        callbacks: list[Any] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
    ) -> None:
        refuse_pictures(processing_class, type(self).__name__)
        template: Any = args.chat_template_kwargs or {}
        self._encoding = processing_class, template, positions_of(model)
        super().__init__(
            model,
            args,
            PairDataset("train_dataset", train_dataset, *self._encoding),
            eval_dataset=None if eval_dataset is None else PairDataset("eval_dataset", eval_dataset, *self._encoding),
            processing_class=processing_class,
            data_collator=list,
            callbacks=callbacks,
            optimizers=optimizers,
        )
        warn_of_text_prompts(train_dataset, processing_class, template)
        self.model_accepts_loss_kwargs = False
        self.pad_id: int = (
            processing_class.eos_token_id if processing_class.pad_token_id is None else processing_class.pad_token_id
        )
        self.scorer = PolicyScorer(self.model, temperature=1.0)
        self.reference = ReferenceModel(self.model, 1.0, ref_model)
        self._precomputed: dict[PairDataset, Tensor] = {}
        if args.precompute_ref_log_probs:
            for data in (self.train_dataset, self.eval_dataset):
                if data is not None:
                    self._precomputed[data] = self._reference_of_all(data)
            self.reference = None

    # Batches

    @property
    def _rows_per_batch(self) -> int:
        return self.args.per_device_train_batch_size

    @property
    def _batches_per_rollout(self) -> int:
        return self.args.gradient_accumulation_steps

    def _make_rollout(self, model: nn.Module, items: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [self._pairs(items, self.train_dataset)]

    def _prepare_inputs(self, inputs: Any) -> PairBatch:
        return self._buffered_inputs[self._step]

    def _pairs(self, items: Sequence[Mapping[str, Any]], data: PairDataset) -> PairBatch:
        """A batch with the reference's log-probabilities, asked for now or before training."""
        batch = PairBatch.collate(items, self.pad_id, device=self.args.device)
        if data in self._precomputed:
            batch.reference = self._precomputed[data][:, [item["index"] for item in items]]
        elif self.reference is not None:
            batch.reference = self._reference_sums(batch)
        else:
            raise ValueError(
                "precompute_ref_log_probs keeps no reference for other rows than the trainer was given; pass these as "
                "eval_dataset to the trainer, or leave it out"
            )
        return batch

    def _reference_sums(self, batch: PairBatch) -> Tensor:
        pairs = batch.completions
        return masked_sum(self._reference_logps(pairs), pairs.completion_mask, -1).view(2, -1)

    def _reference_of_all(self, data: PairDataset) -> Tensor:
        """`(2, pairs)`: the reference's log-probabilities of all pairs, each process's share added up."""
        found = torch.zeros(2, len(data), device=self.args.device)
        mine = range(self.args.process_index, len(data), self.args.world_size)
        size = self.args.per_device_eval_batch_size
        for start in range(0, len(mine), size):
            places = list(mine[start : start + size])
            batch = PairBatch.collate([data[place] for place in places], self.pad_id, device=self.args.device)
            found[:, places] = self._reference_sums(batch).to(found.dtype)
        return self.accelerator.reduce(found)

    # The update

    def compute_loss(
        self, model: nn.Module, inputs: PairBatch, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """The mean loss of a micro-batch's pairs; `ValueError` where outputs are asked for."""
        if return_outputs:
            raise ValueError("compute_loss has no outputs to return: the logits of a batch are never held together")
        return self._losses(model, inputs, self.metrics).mean()

    def _losses(self, model: nn.Module, batch: PairBatch, metrics: MetricAccumulator) -> Tensor:
        """The loss of each pair, `(B,)`; adds what is logged to `metrics`."""
        mask = batch.completions.completion_mask
        tokens = self._get_per_token_logps_and_entropies(model, batch.completions).logprobs  # (2 B, T)
        logps = masked_sum(tokens, mask, -1).view(2, -1)  # (2, B)
        assert batch.reference is not None  # `_pairs` has asked it
        self._record(metrics, logps.detach(), batch.reference)
        # IPO takes means over tokens, as its authors do.
        size = mask.sum(-1).view(2, -1) if self.args.loss_type == "ipo" else torch.ones_like(logps)
        both = *(logps / size), *(batch.reference / size)
        return dpo_loss(*both, beta=self.args.beta, loss_type=self.args.loss_type)

    def _record(self, metrics: MetricAccumulator, logps: Tensor, reference: Tensor) -> None:
        """Adds implicit rewards β log π/π_ref and log-probabilities, both of whole completions, `(2, B)`."""
        rewards, count = self.args.beta * (logps - reference), logps.shape[1]
        for name, values in (("rewards", rewards), ("logps", logps)):
            for which, row in zip(("chosen", "rejected"), values, strict=True):
                metrics.add_ratio(f"{name}/{which}", row.sum(), count)
        metrics.add_ratio("rewards/margins", (rewards[0] - rewards[1]).sum(), count)
        metrics.add_ratio("rewards/accuracies", (rewards[0] > rewards[1]).sum(), count)

    # Evaluation

    @torch.no_grad()
    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Mean loss, implicit rewards and log-probabilities of pairs.

        Args:
            eval_dataset: Rows. None: those given to the trainer.
            ignore_keys: Not used: there are no model outputs.
            metric_key_prefix: Prefix of the metrics' names.

        Returns:
            "<prefix>_loss" and what is logged in training, over all processes.

        Raises:
            ValueError: There are no rows, or they are new ones and the reference was precomputed.
        """
        data, metrics = self.eval_dataset if eval_dataset is None else eval_dataset, MetricAccumulator()
        if data and not isinstance(data, PairDataset):
            data = PairDataset("eval_dataset", data, *self._encoding)

        def record(items: list[Any]) -> None:
            losses = self._losses(self.model, self._pairs(items, data), metrics)
            metrics.add_ratio("loss", losses.sum(), len(losses))

        with evaluation_mode(self.model):
            self._evaluate_rows(data, record)
        return self._log_evaluation(metrics, metric_key_prefix)
