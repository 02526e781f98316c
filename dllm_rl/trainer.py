"""`UnmaskTrainer`: the objective of seed 001 on `transformers.Trainer`."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler
from transformers import Trainer

from dllm_rl.arguments import UnmaskArguments
from dllm_rl.batch import PuzzleBatch
from dllm_rl.evaluate import greedy_in_forced
from dllm_rl.rollout import Rollout, rollout
from dllm_rl.two_rates import TwoRateOptimizer
from dllm_rl.update import UpdateResult, objective_pass
from llm_rl.core.advantages import group_statistics
from llm_rl.core.kl import approx_kl
from llm_rl.core.metrics import MetricAccumulator
from sudoku_env.tokens import PreFilled


class PromptDataset(Dataset[PreFilled]):
    """Pre-filled puzzles as a torch data set."""

    def __init__(self, puzzles: Sequence[PreFilled]) -> None:
        self.puzzles = puzzles

    def __len__(self) -> int:
        return len(self.puzzles)

    def __getitem__(self, index: int) -> PreFilled:
        return self.puzzles[index]


class RepeatedBatchSampler(Sampler[int]):
    """Shuffled indices in which every block of `block` is repeated, for several updates on one roll-out.

    The order depends on the seed and the epoch alone; what does not fill a block at the end of an epoch is left out.

    Raises:
        ValueError: There are fewer examples than one block.
    """

    def __init__(self, length: int, block: int, repeats: int, seed: int) -> None:
        if length < block:
            raise ValueError(f"{length} puzzles do not fill one batch of {block}; add puzzles or take smaller batches")
        self.length, self.block, self.repeats, self.seed, self.epoch = length, block, repeats, seed, 0

    def __len__(self) -> int:
        return self.length // self.block * self.block * self.repeats

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.length, generator=torch.Generator().manual_seed(self.seed + self.epoch))
        for block in order.split(self.block):
            if len(block) == self.block:
                for _ in range(self.repeats):
                    yield from block.tolist()


class UnmaskTrainer(Trainer):
    """Trains the decoding order of a masked-diffusion language model.

    An optimizer step evaluates the objective on a roll-out of `per_device_train_batch_size` puzzles with
    `group_size` trajectories each; a roll-out serves `updates_per_rollout` steps. Optimizer, schedule, checkpoints,
    logging and seeds are those of `transformers.Trainer`.

    Args:
        model: A masked language model with the interface of `LladaForMaskedLM`.
        args: The arguments.
        puzzles: Pre-filled training puzzles of one answer layout.
        pad_id: Padding token for prompts of different length.
        **kwargs: Passed on, e.g. `callbacks`.

    Raises:
        ValueError: Training runs in several processes, which is not supported yet.
    """

    args: UnmaskArguments
    optimizer: Any

    def __init__(
        self, model: nn.Module, args: UnmaskArguments, puzzles: Sequence[PreFilled], *, pad_id: int, **kwargs: Any
    ) -> None:
        super().__init__(
            model=model,
            args=args,
            train_dataset=PromptDataset(puzzles),
            data_collator=lambda batch: {"puzzles": PuzzleBatch.collate(batch, pad_id=pad_id)},
            **kwargs,
        )
        if args.world_size > 1:
            raise ValueError(
                f"UnmaskTrainer runs in one process, not in {args.world_size}; start it without a launcher"
            )
        self.policy = args.policy_config()
        self.objective = args.objective_config()
        self.metrics = MetricAccumulator()
        self._rollouts: list[Rollout] = []
        self._micro_step = 0

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as `transformers.Trainer` does, starting with a fresh roll-out."""
        self._rollouts, self._micro_step = [], 0
        if optimizer := self._two_rates():
            optimizer.zero_grad()
        return super().train(*args, **kwargs)

    def _get_train_sampler(self, train_dataset: Dataset[PreFilled] | None = None) -> Sampler[int]:
        block = self.args.train_batch_size * self.args.gradient_accumulation_steps
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return RepeatedBatchSampler(len(self.train_dataset), block, self.args.updates_per_rollout, seed)

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """One optimizer where the two learning rates are equal, else a `TwoRateOptimizer`.

        Raises:
            ValueError: The rates differ and another optimizer was passed.
        """
        rl_rate, sft_rate = self.args.rates
        if rl_rate == sft_rate:
            self.args.learning_rate = rl_rate
            return super().create_optimizer(*args, **kwargs)
        if self.optimizer is None:
            kind, given = self.optimizer_cls_and_kwargs or self.get_optimizer_cls_and_kwargs(self.args, self.model)
            options = {name: value for name, value in given.items() if name != "lr"}
            names = set(self.get_decay_parameter_names(self.model))
            decayed = {id(param) for name, param in self.model.named_parameters() if name in names}

            def factory(params: list[nn.Parameter], rate: float) -> torch.optim.Optimizer:
                kept = [param for param in params if id(param) not in decayed]
                shrunk = [param for param in params if id(param) in decayed]
                groups = [{"params": shrunk, "weight_decay": self.args.weight_decay}]
                return kind([*groups, {"params": kept, "weight_decay": 0.0}], lr=rate, **options)

            self.optimizer = TwoRateOptimizer(
                self.model.parameters(), factory, (rl_rate, sft_rate), self.args.max_grad_norm
            )
        elif self._two_rates() is None:
            raise ValueError(
                f"learning rates {rl_rate} and {sft_rate} differ, which {type(self.optimizer).__name__} cannot follow; "
                "pass a TwoRateOptimizer, or none"
            )
        return self.optimizer

    def training_step(
        self, model: nn.Module, inputs: dict[str, PuzzleBatch], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """One pass of the objective over a fresh or a kept roll-out; gradients are accumulated, the loss is -J.

        Raises:
            FloatingPointError: J or its gradient is not finite.
            RuntimeError: Training was resumed between two updates on one roll-out.
        """
        slot = self._micro_step % self.args.gradient_accumulation_steps
        fresh = self.state.global_step % self.args.updates_per_rollout == 0
        if fresh and slot == 0:
            self._rollouts = []
        if fresh:
            self._rollouts.append(self._roll_out(model, inputs["puzzles"].to(self.args.device)))
        if slot >= len(self._rollouts):
            raise RuntimeError(
                f"step {self.state.global_step} needs a roll-out that no checkpoint holds; resume from a checkpoint "
                f"whose step is a multiple of updates_per_rollout={self.args.updates_per_rollout}"
            )
        current = self._rollouts[slot]
        model.train()
        result = objective_pass(
            model,
            current,
            self._backward,
            policy=self.policy,
            config=self.objective,
            max_tokens=self.args.max_tokens_per_pass,
        )
        self._micro_step += 1
        self._record_update(current, result, fresh)
        loss = torch.tensor(-(result.rl + result.sft), device=self.args.device)
        norm = self._gradient_norm(model)
        if not (torch.isfinite(loss) and torch.isfinite(norm)):
            raise FloatingPointError(
                f"the objective is {-float(loss)} with gradient norm {float(norm)} at step {self.state.global_step}; "
                "lower the learning rate or raise position_temperature"
            )
        return loss / self.current_gradient_accumulation_steps

    def _two_rates(self) -> TwoRateOptimizer | None:
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        return optimizer if isinstance(optimizer, TwoRateOptimizer) else None

    def _gradient_norm(self, model: nn.Module) -> Tensor:
        """Norm of all gradients so far; 0 with a scaler, which looks for overflow itself."""
        if self.accelerator.scaler is not None:
            return torch.zeros(())
        gradients = [param.grad for param in model.parameters()]
        if optimizer := self._two_rates():
            gradients += optimizer.second_gradients
        return torch.nn.utils.get_total_norm([gradient for gradient in gradients if gradient is not None])

    def _backward(self, rl: Tensor, sft: Tensor) -> None:
        scale = -1.0 / self.current_gradient_accumulation_steps
        if optimizer := self._two_rates():
            optimizer.add_second(scale * sft, retain_graph=True)
            self.accelerator.backward(scale * rl)
        else:
            self.accelerator.backward(scale * (rl + sft))

    def _roll_out(self, model: nn.Module, puzzles: PuzzleBatch) -> Rollout:
        record = rollout(
            model,
            puzzles,
            group_size=self.args.group_size,
            policy=self.policy,
            lam=self.args.lam,
            max_tokens=self.args.max_tokens_per_pass,
        )
        live, visited = record.live, record.state_of.clamp_min(0)
        count = int(live.sum())
        forced, in_map = greedy_in_forced(record)
        self.metrics.add_ratio("position_entropy", float(record.entropy[visited][live].sum()), count)
        self.metrics.add_ratio("position_top_prob", float(record.top_prob[visited][live].sum()), count)
        self.metrics.add_ratio("greedy_forced", int(forced.sum()), int(in_map.sum()))
        self.metrics.add_ratio("solved", int(record.solved.sum()), len(record.solved))
        self.metrics.add_ratio("steps_before_error", int(record.steps_before_error.sum()), len(record.solved))
        self.metrics.add_ratio("distinct_states", len(record.responses), count)
        totals = record.rewards.sum(1).reshape(-1, record.group_size)
        self.metrics.add("reward_mean", float(totals.mean()), totals.numel())
        self.metrics.add("reward_group_std", float(group_statistics(totals).std.mean()), len(totals))
        return record

    def _record_update(self, record: Rollout, result: UpdateResult, fresh: bool) -> None:
        live = record.live
        logprobs, old = result.logprobs[live], record.old_logprobs[live]
        self.metrics.add("objective_rl", result.rl)
        self.metrics.add("objective_sft", result.sft)
        self.metrics.add_ratio("clip_frac", int(result.clipped.sum()), int(result.in_rl_sum.sum()))
        self.metrics.add_ratio("approx_kl", float(approx_kl(old, logprobs).sum()), len(old))
        if fresh:
            self.metrics.add_max("max_log_ratio_at_update_0", float((logprobs - old).abs().max()))

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log, with the metrics collected since the last time."""
        super().log({**logs, **self.metrics.compute()}, *args, **kwargs)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """0: the number of tokens is known only after the roll-out."""
        return 0
