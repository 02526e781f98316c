"""Training on the states of the model's own decodes that take tokens back, so that it learns to tell its mistakes.

`dllm_rl.corruption` draws mistakes one by one. Those of a decode are others: a wrong token is followed by tokens that
agree with it. So beside each batch of masked-diffusion SFT a pool of P decodes goes on, one pass an update
(`dllm_rl.taking_back`): the pass that trains on their states also says what they fill and what they take back, so
that states of the present model cost no pass of their own. The loss of a state is the cross-entropy of the answer at
all open positions, masked and filled, and with `objective_weight` minus the expected reward of
`dllm_rl.revision.expected_reward`. Decodes that are over make room for problems of the batch.
"""

from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn

from dllm_rl.batch_check import check_batch
from dllm_rl.noise import inverse_cdf
from dllm_rl.policy import PolicyConfig, logits_at, scores_of
from dllm_rl.revision import expected_reward, revision_logprobs
from dllm_rl.sft import SftArguments, SftDataset, SftTrainer, weighted_masked_loss
from dllm_rl.strategies import best_positions
from dllm_rl.taking_back import doubted
from dllm_rl.task import UnmaskBatch, UnmaskTask, check_lam
from llm_rl.training.arguments import part_of


@dataclass
class SelfCorrectionArguments(PolicyConfig, SftArguments):
    """Arguments of `SelfCorrectionTrainer`, over those of the policy and of masked-diffusion SFT."""

    decodes: int = field(default=32, metadata={"help": "P: decodes that go on beside the batch, one pass an update."})
    decode_weight: float = field(
        default=1.0, metadata={"help": "Factor of the cross-entropy at the decodes' states, beside that of the batch."}
    )
    max_passes: int = field(default=40, metadata={"help": "Most forward passes of a decode, as in TakeBack."})
    most_tokens_per_step: int = field(
        default=8, metadata={"help": "A decode fills k positions a pass; k is drawn from 1 to this for each."}
    )
    highest_threshold: float = field(
        default=0.95,
        metadata={"help": "A decode masks again what has a probability below a threshold drawn from 0 to this."},
    )
    sampled_passes: float = field(
        default=0.2, metadata={"help": "Share of the passes that draw tokens at temperature 1 rather than the surest."}
    )
    objective_weight: float = field(
        default=0.0, metadata={"help": "Factor of the expected reward with taking back at the decodes' states."}
    )
    lam: float = field(default=0.5, metadata={"help": "lambda: reward of a position that is not judged."})
    error_cost: float = field(default=1.0, metadata={"help": "c: cost of a wrong token, paid back when masked again."})

    def __post_init__(self) -> None:
        SftArguments.__post_init__(self)
        PolicyConfig.__post_init__(self)
        check_lam(self.lam)
        for name in ("decodes", "max_passes", "most_tokens_per_step"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("highest_threshold", "sampled_passes"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must lie in [0, 1]")
        for name in ("decode_weight", "objective_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)} must be 0 or larger")
        if self.decode_weight == self.objective_weight == 0:
            raise ValueError("nothing would be learned from decodes; set decode_weight, or train with SftTrainer")
        if not self.error_cost > 0:
            raise ValueError(f"error_cost={self.error_cost} must be above 0")


@dataclass
class Decodes:
    """P decodes on their way.

    Attributes:
        problems: The P problems.
        states: int64 `(P, R)`, the responses as they are.
        last_complete: int64 `(P, R)`, the response when it was complete the last time; at first the problem's.
        passes: int64 `(P,)`, forward passes so far.
        tokens_per_step: int64 `(P,)`, positions filled a pass.
        thresholds: fp32 `(P,)`, probabilities below which a token is masked again.
    """

    problems: UnmaskBatch
    states: Tensor
    last_complete: Tensor
    passes: Tensor
    tokens_per_step: Tensor
    thresholds: Tensor

    @classmethod
    def of(cls, problems: UnmaskBatch, args: SelfCorrectionArguments) -> "Decodes":
        """Decodes at their beginning, numbers of tokens and thresholds drawn."""
        count, device = len(problems), problems.responses.device
        return cls(
            problems,
            problems.responses.clone(),
            problems.responses.clone(),
            torch.zeros(count, dtype=torch.long, device=device),
            torch.randint(1, args.most_tokens_per_step + 1, (count,), device=device),
            args.highest_threshold * torch.rand(count, device=device),
        )

    @property
    def open(self) -> Tensor:
        """bool `(P, R)`, the positions that are not given."""
        return self.problems.responses == self.problems.mask_id

    @property
    def wrong(self) -> Tensor:
        """bool `(P, R)`, the judged positions that hold another token than the answer's."""
        problems = self.problems
        return problems.judged & (self.states != problems.answers) & (self.states != problems.mask_id)

    def replaced(self, rows: Tensor, others: "Decodes") -> "Decodes":
        """These decodes with others in the places int64 `(O,)`.

        Raises:
            ValueError: The others' prompts or responses have another length.
        """
        kept = torch.arange(len(self.states), device=rows.device)
        kept[rows] = len(kept) + torch.arange(len(rows), device=rows.device)
        values = {
            item.name: torch.cat([getattr(self, item.name), getattr(others, item.name)])[kept]
            for item in fields(self)
            if item.name != "problems"
        }
        return Decodes(problems=self.problems.joined(others.problems).select(kept), **values)

    @torch.no_grad()
    def advance(self, logits: Tensor, args: SelfCorrectionArguments, policy: PolicyConfig) -> Tensor:
        """One pass of each decode, as `taking_back_passes` takes it by largest margin and a threshold for remasking.

        Args:
            logits: fp32 `(M, V)`, at the open positions of the present states.
            args: Length of the decodes and share of drawn tokens.
            policy: ε of the margin.

        Returns:
            bool `(P,)`, whether the decode is over.
        """
        mask_id, open_ = self.problems.mask_id, self.open
        masked = self.states == mask_id
        committed, at_masked = open_ & ~masked, masked[open_]
        states = self.states.clone()

        # What is filled: the k positions of the largest margins, with their surest tokens or with drawn ones.
        scores = scores_of(logits[at_masked], masked, policy)
        rows, ranks, positions = best_positions(scores.margins, int(self.tokens_per_step.max()), None)
        some = ranks < self.tokens_per_step[rows]
        rows, positions = rows[some], positions[some]
        at = scores.logits[scores.row_of[rows, positions]]  # (B, V)
        draws = torch.rand(len(states), device=states.device) < args.sampled_passes
        uniforms = torch.rand(len(rows), dtype=torch.float64, device=states.device)
        tokens = torch.where(draws[rows], inverse_cdf(at, uniforms), at.argmax(1)) if len(rows) else rows
        states[rows, positions] = tokens

        # What is masked again, as long as all masks could still be filled in time.
        left = masked.sum(1) - rows.bincount(minlength=len(states))
        room = (args.max_passes - self.passes - 1 - left).clamp_min(0)
        again = doubted(logits[~at_masked], self.states, committed, room, threshold=self.thresholds[:, None])
        states[again] = mask_id

        self.states, self.passes = states, self.passes + 1
        complete = (states != mask_id).all(1)
        over = complete & ((states == self.last_complete).all(1) | (self.passes >= args.max_passes))
        self.last_complete = torch.where(complete[:, None], states, self.last_complete)
        return over


class SelfCorrectionTrainer(SftTrainer):
    """An `SftTrainer` that also trains on the states of decodes that take tokens back.

    Logs `decodes/wrong`, the share of their states that hold a wrong token, and `decodes/solved`, the share of those
    that ended with the right answer, since the last log line. A checkpoint holds the decodes, so that a run that was
    stopped goes on bit for bit.

    Args:
        args: `SelfCorrectionArguments`.
        task: What kind of problem the rows are made of.
        kwargs: The other arguments of `SftTrainer`.
    """

    args: SelfCorrectionArguments

    def __init__(self, *, args: SelfCorrectionArguments, task: UnmaskTask, **kwargs: Any) -> None:
        super().__init__(args=args, **kwargs)
        if isinstance(self.train_dataset, SftDataset):
            check_batch(self.train_dataset.problems, task=task, definite=args.objective_weight > 0)
        self.record_classes = (Decodes, *task.record_classes)
        self.policy = part_of(args, PolicyConfig)
        self.decodes: Decodes | None = None
        self._counts = {"states": 0, "wrong": 0, "ended": 0, "solved": 0}

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """The loss of the batch, and in training that of the decodes, which then go on by a pass."""
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if not model.training:
            return loss
        if self.decodes is None:
            self.decodes = self._first_decodes(inputs["problems"])
        logits, added = self._decode_loss(model, self.decodes)
        self._advance(logits, inputs["problems"])
        return loss + added

    def _first_decodes(self, problems: UnmaskBatch) -> Decodes:
        """P decodes at their beginning, of the problems of a batch, from its start again where they are fewer."""
        chosen = torch.arange(self.args.decodes, device=self.args.device) % len(problems)
        return Decodes.of(problems.to(self.args.device).select(chosen), self.args)

    def _decode_loss(self, model: nn.Module, decodes: Decodes) -> tuple[Tensor, Tensor]:
        """Logits `(M, V)` at the open positions of the decodes' states, without gradient, and the loss there."""
        problems, states, open_ = decodes.problems, decodes.states, decodes.open
        everyone = torch.arange(len(states), device=states.device)
        logits, _ = logits_at(model, *problems.prompts_of(everyone), states, open_, problems.mask_id)
        of = open_.nonzero()[:, 0]
        lengths = open_.sum(1)[of] * len(states)
        nll = weighted_masked_loss(logits, problems.answers[open_], torch.ones_like(lengths), lengths)
        loss = self.args.decode_weight * nll
        if self.args.objective_weight > 0:
            loss = loss - self.args.objective_weight * self._expected_reward(logits, decodes).mean()
        return logits.detach(), loss

    def _expected_reward(self, logits: Tensor, decodes: Decodes) -> Tensor:
        """The expected reward of the next action at each state, `(P,)`."""
        problems, states, open_ = decodes.problems, decodes.states, decodes.open
        masked, wrong = states == problems.mask_id, decodes.wrong
        filled = open_ & ~masked & problems.judged
        definite = problems.definite(states, torch.arange(len(states), device=states.device))
        at = masked | filled
        packed = logits[at[open_]]
        answers = (packed / self.policy.token_temperature).log_softmax(-1)
        answers = answers.gather(1, problems.answers[at][:, None]).squeeze(1)
        return expected_reward(
            revision_logprobs(packed, states, at, problems.mask_id, self.policy),
            torch.zeros_like(open_, dtype=answers.dtype).masked_scatter(at, answers),
            masked=masked,
            judged=problems.judged,
            definite=definite & ~wrong.any(1, keepdim=True),
            scored=problems.scored,
            filled=filled,
            wrong=wrong,
            lam=self.args.lam,
            error_cost=self.args.error_cost,
        )

    def _advance(self, logits: Tensor, fresh: UnmaskBatch) -> None:
        """A pass of the decodes; those that are over make room for problems of the batch, as many as it has."""
        decodes = self.decodes
        assert decodes is not None
        over = decodes.advance(logits, self.args, self.policy)
        wrong = decodes.wrong.any(1)
        self._count(states=len(over), wrong=wrong, ended=over, solved=over & ~wrong)  # what is over is complete
        ended = over.nonzero().squeeze(1)[: len(fresh)]
        if len(ended):
            new = fresh.to(over.device).select(torch.arange(len(ended), device=over.device))
            self.decodes = decodes.replaced(ended, Decodes.of(new, self.args))

    def _count(self, **seen: int | Tensor) -> None:
        for name, value in seen.items():
            self._counts[name] += int(value if isinstance(value, int) else value.sum())

    def progress(self) -> dict[str, Any]:
        """As `ExactTrainer.progress`, with the decodes."""
        return {**super().progress(), "decodes": self.decodes, "counts": self._counts}

    def load_progress(self, progress: dict[str, Any]) -> None:
        """As `ExactTrainer.load_progress`."""
        super().load_progress(progress)
        self.decodes, self._counts = progress["decodes"], progress["counts"]

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log, with what the decodes did since the last line."""
        seen = self._counts
        if "loss" in logs and seen["states"]:
            logs = {**logs, "decodes/wrong": seen["wrong"] / seen["states"]}
            if seen["ended"]:
                logs["decodes/solved"] = seen["solved"] / seen["ended"]
            self._counts = dict.fromkeys(seen, 0)
        super().log(logs, *args, **kwargs)
