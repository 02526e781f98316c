"""`RolloutTrainer`: prompts → completions → rewards → batches that serve several updates. See docs/grpo.md.

Methods are those of the table there. Subclasses say what an advantage is and what the loss is.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object, set_seed
from torch import Tensor, nn

from llm_rl.core import MetricAccumulator, loss_counts, record_monitors
from llm_rl.rollout.arguments import RolloutArguments
from llm_rl.rollout.completion_log import CompletionLog, completion_records
from llm_rl.rollout.completions import (
    check_all_rows,
    completed,
    encode_rows,
    prompt_ids,
    record_lengths,
    sampling_params,
)
from llm_rl.rollout.data import RolloutBatch, Sample, check_data_set, check_rows, decode_completion
from llm_rl.rollout.dynamic_sampling import replace_groups
from llm_rl.rollout.generation import GenerationEngine, SamplingParams, TransformersEngine
from llm_rl.rollout.loading import as_rows, load_policy
from llm_rl.rollout.offloading import moments_and_gradients, on_host, refuse_idle_offloading
from llm_rl.rollout.pictures import Pictures, blind_engine, reads_pictures, refuse_pictures
from llm_rl.rollout.rewards import RewardFunctions, RewardFunctionsGiven
from llm_rl.rollout.sampling import keep_scores, score_samples
from llm_rl.rollout.scored import ScoredTrainer
from llm_rl.rollout.scoring import PolicyScorer, ReferenceModel, causal_model
from llm_rl.rollout.symptoms import CUT_OFF, NO_SPREAD, warn_of_clamps, warn_of_text_prompts
from llm_rl.training.modes import evaluation_mode
from llm_rl.training.symptoms import Symptom


class RolloutTrainer(ScoredTrainer):
    """A `transformers.Trainer` whose batches are sampled from the policy and scored by reward functions.

    One roll-out is `args.completions_per_rollout` completions a process; it is kept while it serves
    `args.steps_per_rollout` optimizer steps, in checkpoints too. Processes meet once an optimizer step, after their
    last backward pass, and where a roll-out's statistics are those of all.

    Args:
        model: A causal language model of transformers, PEFT's wrapper of one, or a folder or name on the hub, which is
            loaded in float32.
        reward_funcs: Reward functions, as `llm_rl.rollout.rewards` documents them.
        args: The arguments.
        train_dataset: Rows with a "prompt" (text or messages) and any other columns: a list, a `datasets.Dataset`, a
            `pandas.DataFrame`, or anything else with a length and indices. All are looked at before training.
        processing_class: The tokenizer. None: that of `model`, where it is a folder or name. A processor, as of
            `AutoProcessor`, reads pictures in messages too, for trainers that take them.
        eval_dataset: Rows for `evaluate`.
        ref_model: The reference where `args.kl_weight` > 0. None: the policy as it is at the start, see
            `args.adapter_reference`.
        engine: What samples. None: `TransformersEngine`.
        callbacks: Callbacks, as in `transformers.Trainer`.
        optimizers: Optimizer and scheduler, as in `transformers.Trainer`.

    Attributes:
        leaves_out_unscored: Whether a completion that no reward function scores is left out; else it is an error.
        takes_pictures: Whether prompts may have pictures.

    Raises:
        ValueError: The data set is not indexed or a row has no prompt, the tokenizer has no end token, `ref_model`
            comes without `kl_weight`, or offloading, a distribution or pictures are asked for that are not supported.
        RuntimeError: The number of processes is not the launcher's or not `args.expected_processes`.
    """

    args: RolloutArguments
    record_classes: tuple[type, ...] = (RolloutBatch, Pictures)
    harmless_arguments = frozenset({"share_prompts", "padding_free", "offload_optimizer", "offload_model"})
    leaves_out_unscored = False
    takes_pictures = False

    def __init__(
        self,
        model: nn.Module | str,
        reward_funcs: RewardFunctionsGiven,
        args: RolloutArguments,
        train_dataset: Any,
        processing_class: Any = None,
        *,
        eval_dataset: Any = None,
        ref_model: nn.Module | None = None,
        engine: GenerationEngine | None = None,
        callbacks: list[Any] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
    ) -> None:
        data = {"train_dataset": as_rows(train_dataset)}
        if eval_dataset is not None:
            data["eval_dataset"] = as_rows(eval_dataset)
        for name, rows in data.items():
            check_data_set(name, rows)
        refuse_idle_offloading(args, engine)
        model, processing_class = load_policy(model, processing_class)
        options = [name for name in ("share_prompts", "padding_free", "shard") if getattr(args, name)]
        options += blind_engine(engine) if self.takes_pictures else [type(self).__name__]
        refuse_pictures(processing_class, *options)
        sharing = False if reads_pictures(processing_class) else args.sharing_prompts
        super().__init__(
            model,
            args,
            data["train_dataset"],
            eval_dataset=data.get("eval_dataset"),
            processing_class=processing_class,
            data_collator=check_rows,
            callbacks=callbacks,
            optimizers=optimizers,
        )
        self.model_accepts_loss_kwargs = False
        # transformers has seeded all processes alike, and their completions are to differ.
        set_seed(args.seed, device_specific=True)
        self.engine = TransformersEngine(share_prompts=sharing) if engine is None else engine
        self.sampling = sampling_params(
            causal_model(self.model), processing_class, args.max_completion_length, args.temperature
        )
        # Every row now: an unfit one would end the run when its turn comes, hours on.
        quiet = args.disable_tqdm or args.process_index > 0
        for name, rows in data.items():
            check_all_rows(name, rows, self._check_row, quiet=quiet)
        warn_of_text_prompts(data["train_dataset"], processing_class, self._template_arguments)
        self._reward_metrics = self.metrics  # where reward functions log: an evaluation has its own
        self.rewards = RewardFunctions(reward_funcs, args.reward_weights, leave_out=self.leaves_out_unscored)
        self.scorer = PolicyScorer(self.model, args.temperature, sharing, args.padding_free)
        if ref_model is not None and not args.uses_reference:
            raise ValueError(
                "ref_model is given but kl_weight is 0, so nothing would use it; set kl_weight or leave it out"
            )
        self.reference = (
            ReferenceModel(self.model, args.temperature, ref_model, sharing, args.adapter_reference, args.padding_free)
            if args.uses_reference
            else None
        )
        self.completion_log = CompletionLog(Path(args.output_dir) / "completions.jsonl")
        if args.log_completions:
            self.add_callback(self.completion_log)

    def _check_row(self, row: Any) -> None:
        """Raises `ValueError` for a row that training or evaluation could not use; a subclass may ask for more."""
        prompt_ids(row, causal_model(self.model), self.processing_class, self.sampling, self._template_arguments)

    @property
    def _template_arguments(self) -> Mapping[str, Any]:
        return self.args.chat_template_kwargs or {}  # type: ignore[return-value]

    # The buffer

    @property
    def _rows_per_batch(self) -> int:
        return self.args.completions_per_rollout // self.args.num_generations

    def _symptoms(self) -> tuple[Symptom, ...]:
        return (CUT_OFF, NO_SPREAD) if self.args.num_generations > 1 else (CUT_OFF,)

    def _make_rollout(self, model: nn.Module, rows: list[Mapping[str, Any]]) -> list[Any]:
        return [*self._roll_out(rows)]

    def _prepare_inputs(self, generation_batch: list[Mapping[str, Any]]) -> Any:
        """The next micro-batch of the buffer; its rewards are logged at each optimizer step."""
        place = self._step % self.args.gradient_accumulation_steps
        if place == 0:
            self._record_rollout(torch.cat([batch.rewards for batch in self._buffered_inputs]))
        return self._buffered_inputs[place]

    def _record_rollout(self, rewards: Tensor) -> None:
        record_monitors(self.metrics, rewards=rewards.view(-1, self.args.num_generations))

    # A roll-out

    def _roll_out(self, rows: list[Mapping[str, Any]]) -> Sequence[RolloutBatch]:
        """The micro-batches of a fresh roll-out: completions of each row, with rewards and advantages."""
        return self._prepare_rollout(self._generate_completions(rows, self.args.num_generations))

    def _prepare_rollout(self, samples: list[Sample]) -> list[RolloutBatch]:
        """The micro-batches of completions, in order, with rewards and advantages."""
        rewards = self._score_completions(samples)
        if self.args.dynamic_sampling_attempts:
            samples, rewards = self._dynamic_sampling(samples, rewards)
        micro_batches = self._prepare_batch_inputs(samples)
        advantages = self._set_advantages(rewards, micro_batches)  # (Q, G)
        if self.args.log_completions:
            self._log_completions(samples, micro_batches, advantages)
        return micro_batches

    def _set_advantages(self, rewards: Tensor, micro_batches: Sequence[RolloutBatch]) -> Tensor | None:
        """Gives each micro-batch its part of the rewards `(Q, G)`, NaN where there is none, and of the advantages.

        Returns these, `(Q, G)`; None where each token has its own.
        """
        advantages = self._compute_advantages(rewards)  # (Q, G)
        dealt = (values.flatten().split(self.args.per_device_train_batch_size) for values in (rewards, advantages))
        for batch, reward, advantage in zip(micro_batches, *dealt, strict=True):
            batch.rewards = reward
            batch.advantages = advantage if batch.owners is None else advantage[batch.owners]
        return advantages

    def _compute_advantages(self, rewards: Tensor) -> Tensor:
        """Advantages `(Q, G)` of this process's rewards `(Q, G)`; asked where a completion has one of its own."""
        raise NotImplementedError(f"{type(self).__name__} has no _compute_advantages; a subclass says what they are")

    def _log_completions(
        self, samples: Sequence[Sample], micro_batches: Sequence[RolloutBatch], advantages: Tensor | None
    ) -> None:
        """Writes the roll-out of all processes to the run folder; a collective call."""
        texts = [self._rewarded_completion(sample) for sample in samples]
        rewards = torch.cat([batch.rewards for batch in micro_batches if batch.rewards is not None]).tolist()
        values = rewards, None if advantages is None else advantages.flatten().tolist()
        records = completion_records(self.state.global_step, samples, texts, self.rewards.names, *values)
        self.settle()
        gathered = gather_object(records)
        if self.is_world_process_zero():
            self.completion_log.add(gathered)

    def _generate_completions(self, rows: Sequence[Mapping[str, Any]], num_generations: int) -> list[Sample]:
        """Samples of each row, a row's side by side."""
        return self._sample(rows, num_generations, self.sampling)

    def _sample(self, rows: Sequence[Mapping[str, Any]], count: int, params: SamplingParams) -> list[Sample]:
        encoded = self._encode(rows, count, params)
        with self._sampling_engine() as engine:
            return completed(encoded, engine, params)

    def _encode(self, rows: Sequence[Mapping[str, Any]], count: int, params: SamplingParams) -> list[Any]:
        """Each row with the tokens of its prompt, as often as it gets completions."""
        names, causal = self.processing_class, causal_model(self.model)
        return encode_rows(rows, causal, names, count, params, self._template_arguments)

    @contextmanager
    def _sampling_engine(self) -> Iterator[GenerationEngine]:
        """The engine with the policy's weights; within the section what is offloaded is on the host."""
        args, model, optimizer = self.args, self.model, self._plain_optimizer
        # Sampling needs neither moments nor gradients; with copies of its own an engine needs no weights either.
        training = moments_and_gradients(optimizer, self.gradients(model)) if args.offload_optimizer else []
        kept = self.reference.tensors() if self.reference else []
        weights = [*model.parameters(), *model.buffers(), *kept] if args.offload_model else []
        with on_host(training, args.device):
            with self.accelerator.autocast():
                self.engine.load_weights(causal_model(model))
            with on_host(weights, args.device), self.accelerator.autocast():  # anew: its copies of weights are gone
                yield self.engine

    def _compute_rewards_per_func(self, samples: Sequence[Sample]) -> Tensor:
        """float64 `(N, F)`; NaN where a function does not apply."""
        metrics = self._reward_metrics
        return score_samples(
            self.rewards,
            samples,
            [self._rewarded_completion(sample) for sample in samples],
            self._further_columns(samples),
            {"trainer_state": self.state, "log_metric": lambda name, value: metrics.add(name, value)},
        )

    def _further_columns(self, samples: Sequence[Sample]) -> dict[str, list[Any]]:
        """What reward functions get beside the columns of the rows, one value a sample."""
        return {}

    def _rewarded_completion(self, sample: Sample) -> Any:
        return decode_completion(sample, self.processing_class)

    def _score_completions(self, samples: Sequence[Sample]) -> Tensor:
        """Weighted rewards `(Q, G)`, NaN where no function scores; each sample keeps what the functions said."""
        per_function = self._compute_rewards_per_func(samples)
        keep_scores(samples, per_function)
        self._record_samples(self.metrics, samples, per_function)
        return self.rewards.total(per_function).float().to(self.args.device).view(-1, self.args.num_generations)

    def _record_samples(self, metrics: MetricAccumulator, samples: Sequence[Sample], per_function: Tensor) -> None:
        for name, column in zip(self.rewards.names, per_function.unbind(1), strict=True):
            metrics.add_ratio(f"reward/{name}", column.nansum(), column.isfinite().sum())
        record_lengths(metrics, samples)

    def _record_evaluation(self, metrics: MetricAccumulator, samples: Sequence[Sample], per_function: Tensor) -> None:
        self._record_samples(metrics, samples, per_function)
        totals = self.rewards.total(per_function)
        metrics.add_ratio("reward_mean", totals.nansum(), totals.isfinite().sum())

    def _dynamic_sampling(self, samples: list[Sample], rewards: Tensor) -> tuple[list[Sample], Tensor]:
        """Replaces groups without spread by groups of other prompts, drawn at random, a bounded number of times."""

        def draw(count: int) -> tuple[list[Sample], Tensor]:
            rows = torch.randint(len(self.train_dataset), (count,)).tolist()
            fresh = self._generate_completions([self.train_dataset[row] for row in rows], self.args.num_generations)
            return fresh, self._score_completions(fresh)

        return replace_groups(samples, rewards, self.args.dynamic_sampling_attempts, draw, self.metrics)

    def _collate(self, samples: Sequence[Sample]) -> RolloutBatch:
        return RolloutBatch.collate(samples, self.sampling.pad_token_id, device=self.args.device)

    @torch.no_grad()
    def _prepare_batch_inputs(self, samples: Sequence[Sample]) -> list[RolloutBatch]:
        """Token tensors, masks, old and reference log-probabilities, and the counts of the optimizer step."""
        size = self.args.per_device_train_batch_size
        micro_batches = [self._collate(samples[start : start + size]) for start in range(0, len(samples), size)]
        self._score_at_sampling(micro_batches)
        self.settle()
        # What a loss is divided by is known once all processes have sampled: shares then add up to one loss.
        counts = loss_counts(*(batch.loss_mask for batch in micro_batches), reduce=self.args.world_size > 1)
        for batch in micro_batches:
            batch.sequences, batch.tokens = counts
            if self.scorer.share_prompts:
                _ = batch.prompt_groups  # read now, once for all passes
        return micro_batches

    def _score_at_sampling(self, batches: Sequence[RolloutBatch]) -> None:
        """Adds log-probabilities under the policy, while it is still the one that sampled, and under the reference."""
        if self._needs_old_policy:
            self._score_old_policy(batches)
        if self.reference is not None and self.args.kl_estimator != "full":
            for batch in batches:
                batch.ref_per_token_logps = self._reference_logps(batch)

    @property
    def _needs_old_policy(self) -> bool:
        """Whether log-probabilities at sampling are computed: else the policy that is trained is still that one."""
        return self.args.steps_per_rollout > 1

    def _score_old_policy(self, micro_batches: Sequence[RolloutBatch]) -> None:
        """Adds the log-probabilities at sampling."""
        with evaluation_mode(self.model):
            for batch in micro_batches:
                batch.old_per_token_logps = self._get_per_token_logps_and_entropies(self.model, batch).logprobs

    def _compute_loss_and_metrics(self, model: nn.Module, inputs: RolloutBatch) -> Tensor:
        """This micro-batch's share of the optimizer step's loss; shares add up over micro-batches and processes."""
        raise NotImplementedError(f"{type(self).__name__} has no _compute_loss_and_metrics; a subclass says what it is")

    # The update

    def compute_loss(
        self, model: nn.Module, inputs: RolloutBatch, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """The share of the loss, scaled so that what the trainer divides by accumulation and processes is undone."""
        if return_outputs:
            raise ValueError("compute_loss has no outputs to return: a roll-out has no single forward pass")
        share = self._compute_loss_and_metrics(model, inputs)
        return share * self.current_gradient_accumulation_steps * self.args.world_size

    # Checkpoints and evaluation

    def identity(self) -> dict[str, Any]:
        """Adds the names of the reward functions."""
        return {**super().identity(), "reward_functions": list(self.rewards.names)}

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log, with the metrics collected since the last time; say where a loss is but a clamp's value."""
        super().log(logs, *args, **kwargs)
        if self.is_world_process_zero():
            warn_of_clamps(self.state.log_history[-1], self.state.global_step)

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        *,
        greedy: bool = False,
    ) -> dict[str, float]:
        """Mean rewards of one completion of each row, sampled with the same random numbers every time.

        Args:
            eval_dataset: Rows. None: those given to the trainer.
            ignore_keys: Not used: there are no model outputs.
            metric_key_prefix: Prefix of the metrics' names.
            greedy: Whether the most likely token is taken each time, instead of sampling.

        Returns:
            "<prefix>_reward_mean", a mean for each reward function, and lengths; over all processes.

        Raises:
            ValueError: There are no rows.
        """
        rows = self.eval_dataset if eval_dataset is None else self._rows_of(eval_dataset)
        metrics, kept = MetricAccumulator(), self.sampling

        def record(batch: list[Any]) -> None:
            samples = self._generate_completions(batch, 1)
            self._record_evaluation(metrics, samples, self._compute_rewards_per_func(samples))

        devices = [] if self.args.device.type == "cpu" else [self.args.device]
        # Seeded alike every time, and training's own random numbers go on as if nothing had been.
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self.args.seed + self.args.process_index)
            self.sampling, self._reward_metrics = replace(kept, greedy=greedy), metrics
            try:
                self._evaluate_rows(rows, record)
            finally:
                self.sampling, self._reward_metrics = kept, self.metrics
        return self._log_evaluation(metrics, metric_key_prefix)

    def _rows_of(self, data: Any) -> Any:
        """The rows of a data set as training has them."""
        return as_rows(data)
