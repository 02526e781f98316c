"""`UnmaskTrainer`: the objective of docs/objective.md on `transformers.Trainer`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import set_seed

from dllm_rl.batch_check import check_batch
from dllm_rl.decoding import Decoding
from dllm_rl.decoding.noise import StateNoise, puzzle_noise
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.task import UnmaskBatch, UnmaskTask
from dllm_rl.training.arguments import UnmaskArguments
from dllm_rl.training.two_rates import TwoRateOptimizer
from dllm_rl.training.update import MiniBatch, UpdateResult, objective_pass
from llm_rl.core.advantages import groups_without_spread, return_after_action
from llm_rl.core.kl import approx_kl
from llm_rl.core.monitors import record_monitors
from llm_rl.training.buffered import BufferedTrainer
from llm_rl.training.finite import gradient_norm
from llm_rl.training.identity import LENGTH
from llm_rl.training.passes import Shards
from llm_rl.training.processes import mean_over_processes
from llm_rl.training.symptoms import Symptom, everywhere

NO_SPREAD = Symptom(
    "groups_without_spread",
    everywhere,
    "all trajectories of each problem returned the same at each step, so that the policy gradient was 0",
    "raise num_generations or position_temperature, take harder or easier problems, or leave the term out by "
    "policy_weight=0",
)


class UnmaskTrainer(BufferedTrainer):
    """Trains the decoding order of a masked-diffusion language model.

    An optimizer step evaluates the objective on a roll-out of `per_device_train_batch_size` problems with
    `num_generations` trajectories each; a roll-out serves `num_iterations` steps. Optimizer, schedule,
    logging and seeds are those of `transformers.Trainer`, checkpoints those of `ExactTrainer`.

    The global batch is `per_device_train_batch_size` × `gradient_accumulation_steps` × processes problems. Its
    roll-outs depend on the seed, the step and a problem's number in it alone, and its gradient is the mean over its
    problems, however they are dealt. Processes meet once a step, after their last pass: the passes of each are its own,
    but where weights are dealt out to them (`args.shard`), and they take all together.

    Args:
        model: A masked language model with the interface of `LladaForMaskedLM`; with `args.lora_r` it gets adapters,
            in place, unless it has them, and the trainer's own `model` is then PEFT's wrapper of it.
        args: The arguments of the run and its hyperparameters.
        problems: Problems to train on.
        task: What kind of problems they are, such as `dllm_rl.sudoku.SudokuTask`.
        **kwargs: Passed on, e.g. `callbacks`.

    Raises:
        ValueError: There are no problems; FSDP or DeepSpeed are asked for of accelerate, or one process comes with
            several devices or with `args.shard`; the task's batches are not what `UnmaskBatch` says (`check_batch`);
            the model has other adapters than `args.lora_r` says; or the device has no float64, or none of the sums
            that `full_determinism` needs.
        RuntimeError: The number of processes is not the launcher's or not `args.expected_processes`.
    """

    args: UnmaskArguments
    optimizer: Any
    remedy = "lower the learning rate or raise position_temperature"
    shards = True
    harmless_arguments = frozenset({"max_tokens_per_pass", "max_masked_per_pass"})

    def __init__(
        self, model: nn.Module, args: UnmaskArguments, problems: Sequence[Any], task: UnmaskTask, **kwargs: Any
    ) -> None:
        if not len(problems):
            raise ValueError("problems is empty; give at least one to train on")
        if args.full_determinism and args.device.type == "cuda" and args.on_error != "guard":
            raise ValueError(
                "full_determinism=True would stop the first roll-out: it draws by sums of floats, of which CUDA has no "
                "deterministic kind; leave it out"
            )
        start = task.batch(problems[: args.train_batch_size])
        check_batch(start, task=task, model=model)
        set_seed(args.seed)  # before adapters are drawn, as `transformers.Trainer` does before all else
        model = args.adapted(model)
        super().__init__(model, args, problems, data_collator=lambda rows: {"problems": task.batch(rows)}, **kwargs)
        self._of_terms: dict[str, float | Tensor] = {}
        self.task, self.record_classes = task, (Rollout, PolicyConfig, *task.record_classes)
        self.policy = args.policy_config()
        self.objective = args.objective_config()

    def _shard(self, shards: Shards) -> None:
        tokens = torch.zeros(1, 2, dtype=torch.long, device=self.args.device)
        second = torch.tensor([[False, True]], device=self.args.device)  # of a shifted model there is no first

        def empty() -> None:
            self.model(input_ids=tokens, attention_mask=torch.ones_like(second), logits_mask=second)

        shards.add(self.model, empty, head_apart=True)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as `transformers.Trainer` does, starting with a fresh roll-out."""
        if optimizer := self._two_rates():
            optimizer.zero_grad()
        return super().train(*args, **kwargs)

    @property
    def _rows_per_batch(self) -> int:
        return self.args.train_batch_size

    @property
    def _batches_per_rollout(self) -> int:
        return self.args.gradient_accumulation_steps

    def _symptoms(self) -> tuple[Symptom, ...]:
        return (NO_SPREAD,) if self.args.policy_weight else ()

    @property
    def _slot(self) -> int:
        """The micro-batch's number in its optimizer step: which roll-out of the buffer it trains on."""
        return self._step % self.args.gradient_accumulation_steps

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """One optimizer where the two learning rates are equal, else a `TwoRateOptimizer`.

        Raises:
            ValueError: The rates differ and another optimizer was passed, or a `TwoRateOptimizer` with fp16.
        """
        rl_rate, sft_rate = self.args.rates
        if self.args.fp16 and self._two_rates():
            raise ValueError("TwoRateOptimizer is not supported with fp16, whose scaler would divide twice; use bf16")
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

            # Adam's moments are of one gradient each, so that a rate each takes an optimizer each.
            self.optimizer = TwoRateOptimizer(
                self.model.parameters(), factory, (rl_rate, sft_rate), self.args.max_grad_norm
            )
        elif self._two_rates() is None:
            raise ValueError(
                f"learning rates {rl_rate} and {sft_rate} differ, which {type(self.optimizer).__name__} cannot follow; "
                "pass a TwoRateOptimizer, or none"
            )
        return self.optimizer

    def _train_on_buffer(self, model: nn.Module, inputs: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """One pass of the objective over a fresh or a kept roll-out; gradients are accumulated, the loss is -J."""
        slot = self._slot
        current = self._buffered_inputs[slot]
        model.train()
        result = objective_pass(
            model,
            current,
            self._backward,
            config=self.objective,
            max_tokens=self.args.max_tokens_per_pass,
            max_masked=self.args.max_masked_per_pass,
            noise=self._noise(self.state.global_step, slot),
            mini_batch=self._mini_batch(slot),
        )
        self._record_update(current, result, self._is_fresh)
        loss = torch.full((), -result.objective, device=self.args.device)
        return loss / self.current_gradient_accumulation_steps

    def failed_rollout(self) -> Rollout | None:
        """The roll-out of the micro-batch that failed; None where making it did."""
        return self._buffered_inputs[self._slot] if self._slot < len(self._buffered_inputs) else None

    def _noise(self, step: int, slot: int) -> StateNoise:
        return StateNoise((self.args.seed, step), self._first_number(slot))

    def _mini_batch(self, slot: int) -> MiniBatch | None:
        """The part of the states that this step takes; they are dealt out anew in each pass over the roll-out."""
        count = self.args.num_mini_batches
        if count == 1:
            return None
        number = self.state.global_step % count
        return MiniBatch(number, count, self._noise(self.state.global_step - number, slot))

    def _first_number(self, slot: int) -> int:
        """The number in the global batch of the first problem of a micro-batch, whoever has it."""
        return (slot * self.args.world_size + self.args.process_index) * self.args.train_batch_size

    def _two_rates(self) -> TwoRateOptimizer | None:
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        return optimizer if isinstance(optimizer, TwoRateOptimizer) else None

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        before = self._norm_of_both(model)  # the first term's is clipped here, the second's by its optimizer
        clipped = super()._clip_grad_norm(model)
        return clipped if before is None else before

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        return super()._get_grad_norm(model, self._norm_of_both(model) if grad_norm is None else grad_norm)

    def _norm_of_both(self, model: nn.Module) -> Tensor | None:
        """The norm of both terms' gradients added up, and for the log each one's and its rate; None of one rate."""
        if (optimizer := self._two_rates()) is None:
            return None
        first, second = [parameter.grad for parameter in optimizer.parameters], optimizer.second_gradients
        groups = self.optimizer.param_groups
        self._of_terms = {
            "rl_grad_norm": gradient_norm(first),
            "sft_grad_norm": gradient_norm(second),
            "rl_learning_rate": groups[0]["lr"],
            "sft_learning_rate": groups[-1]["lr"],
        }
        sums = (
            one if other is None else other if one is None else one + other
            for one, other in zip(first, second, strict=True)
        )
        return gradient_norm(sums)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log, where the terms' rates differ with each one's rate and last norm before clipping."""
        told = self._of_terms if "grad_norm" in logs else {}
        super().log({**logs, **{name: float(value) for name, value in told.items()}}, *args, **kwargs)

    def _average_gradients(self, model: nn.Module) -> None:
        super()._average_gradients(model)
        if optimizer := self._two_rates():
            optimizer.second_gradients = mean_over_processes(optimizer.second_gradients, optimizer.parameters)

    def load_progress(self, progress: dict[str, Any]) -> None:
        """Continue from what `progress` returned.

        Raises:
            CheckpointError: The checkpoint was written by another number of processes, or between the updates on a
                roll-out of another shape.
        """
        super().load_progress(progress)
        # Mini-batches and cosines count optimizer steps from the run's start: the new shape must fit there too.
        self.check_buffer(self.state.global_step % self.args.steps_per_rollout != 0)

    def gradients(self, model: nn.Module) -> list[Tensor | None]:
        """The gradients of both terms."""
        optimizer = self._two_rates()
        return [*super().gradients(model), *(optimizer.second_gradients if optimizer else [])]

    def _backward(self, policy: Tensor, others: Tensor) -> None:
        scale = -1.0 / self.current_gradient_accumulation_steps
        if optimizer := self._two_rates():
            # Both go through one graph: the second's gradient is set aside while that is still there.
            if others.requires_grad:
                optimizer.add_second(scale * others, retain_graph=True)
            if policy.requires_grad:
                self.accelerator.backward(scale * policy)
        else:
            self.accelerator.backward(scale * (policy + others))

    def _how(self) -> Decoding:
        count, on_error = self.args.tokens_per_step, self.args.on_error
        if on_error == "guard":
            return Decoding("margin", tokens_per_step=count, policy=self.policy, on_error="end", guard="completable")
        draws = self.args.judged_draws if on_error == "redraw" else Decoding.draws
        return Decoding("policy", tokens_per_step=count, policy=self.policy, on_error=on_error, draws=draws)

    def _make_rollout(self, model: nn.Module, inputs: dict[str, UnmaskBatch]) -> list[Rollout]:
        problems = inputs["problems"].to(self.args.device)
        first = self._first_number(self._slot)
        noise = puzzle_noise(
            self.args.seed,
            self.state.global_step,
            range(first, first + len(problems)),
            self.args.num_generations,
            int((problems.responses == problems.mask_id).sum(1).max()) * self._how().tries,
        )
        self.policy = self.args.policy_config(self.state.global_step / self.state.max_steps)
        how = self._how()
        record = rollout(
            model,
            problems,
            how,
            num_generations=self.args.num_generations,
            lam=self.args.lam,
            noise=noise,
            max_tokens=self.args.max_tokens_per_pass,
            max_masked=self.args.max_masked_per_pass,
        )
        # For the log: means over decisions, so that a state counts as often as it was visited.
        self.metrics.add("position_temperature", self.policy.position_temperature)
        at = record.live.nonzero(as_tuple=True)
        visited, count = record.state_of[at], len(at[0])
        self.metrics.add_ratio("position_entropy", record.entropy[visited].sum(), count)
        self.metrics.add_ratio("position_top_prob", record.top_prob[visited].sum(), count)
        self.metrics.add_ratio("greedy_definite", record.greedy_definite.sum(), record.greedy_judged.sum())
        self.metrics.add_ratio("solved", record.solved.sum(), len(record.solved))
        self.metrics.add_ratio("steps_before_error", record.steps_before_error.sum(), len(record.solved))
        self.metrics.add_ratio("distinct_states", len(record.responses), count)
        # One sampled decision estimates the entropy of position and token together without bias.
        self.metrics.add_ratio("entropy", -record.old_logprobs[at].sum(), count)
        totals = record.rewards.sum(1).reshape(-1, record.num_generations)
        record_monitors(self.metrics, rewards=totals, flat_groups=self._flat_groups(record))
        return [record]

    def _flat_groups(self, record: Rollout) -> Tensor:
        """bool: whether all of a group got the same return, at each step with a decision in the first term."""
        returns = return_after_action(record.visited_rewards, self.objective.gamma)
        groups = (-1, record.num_generations, returns.shape[1])
        steps = torch.arange(returns.shape[1], device=returns.device)
        counted = (record.live & (steps < record.decisions[:, None] - 1)).reshape(groups).any(1)
        return groups_without_spread(returns.reshape(groups))[counted]

    def _record_update(self, record: Rollout, result: UpdateResult, fresh: bool) -> None:
        at = result.evaluated.nonzero(as_tuple=True)
        logprobs, old = result.logprobs[at], record.old_logprobs[at]
        for name, value in result.terms.items():
            self.metrics.add(f"objective_{name}", value)
        for name, (part, whole) in result.shares.items():
            self.metrics.add_ratio(name, part, whole)
        self.metrics.add_ratio("approx_kl", approx_kl(old, logprobs, estimator="k2").sum(), len(old))
        if fresh and len(old):
            self.metrics.add_max("max_log_ratio_at_update_0", (logprobs - old).abs().max())

    def identity(self) -> dict[str, Any]:
        """Adds the task: its class, and its fields where it is a data class."""
        told: dict[str, Any] = asdict(self.task) if is_dataclass(self.task) and not isinstance(self.task, type) else {}
        return {**super().identity(), "task": json.loads(json.dumps([type(self.task).__name__, told], default=str))}

    def _harmless(self) -> frozenset[str]:
        # A temperature that is annealed over the run depends on its length.
        found = super()._harmless()
        return found if self.args.position_temperature_end is None else found - LENGTH
