"""What trainers of causal language models ask of the policy and of its reference, in the trainer's precision."""

from typing import Any

from torch import Tensor, nn

from llm_rl.core import MAX_LOG_RATIO, TokenStatistics, masked_sum
from llm_rl.core.mismatch import record_mismatch
from llm_rl.rollout.data import RolloutBatch
from llm_rl.rollout.scoring import PolicyScorer, ReferenceModel, deal_out, reference_kl
from llm_rl.training.buffered import BufferedTrainer
from llm_rl.training.passes import Shards


class ScoredTrainer(BufferedTrainer):
    """A `BufferedTrainer` with a `scorer` of its policy and, if any, a `reference`, both made by subclasses."""

    args: Any
    scorer: PolicyScorer
    reference: ReferenceModel | None

    def _shard(self, shards: Shards) -> None:
        deal_out(shards, self.model, self.reference)

    def _get_per_token_logps_and_entropies(self, model: nn.Module, inputs: RolloutBatch) -> TokenStatistics:
        """Log-probabilities and entropies of the completion tokens, `(B, T)` each."""
        with self.accelerator.autocast():
            return self.scorer(model, inputs)

    def _reference_logps(self, batch: RolloutBatch) -> Tensor:
        """Log-probabilities of the completion tokens under the reference, `(B, T)`."""
        with self.accelerator.autocast():
            return self.reference.logprobs(batch)  # type: ignore[union-attr]

    def _reference_kl(self, model: nn.Module, inputs: RolloutBatch, logps: Tensor | None, mask: Tensor) -> Tensor:
        """KL(π ‖ π_ref) a token, `(B, T)`, by `args.kl_estimator`; logged as "kl"."""
        if self.args.kl_estimator == "full":
            with self.accelerator.autocast():
                kl = self.reference.full_divergence(self.scorer, model, inputs)  # type: ignore[union-attr]
        else:
            kl = reference_kl(logps, inputs.ref_per_token_logps, mask, self.args.kl_estimator)
            far = (logps.detach() - inputs.ref_per_token_logps).abs() >= MAX_LOG_RATIO  # type: ignore[union-attr,operator]
            self.metrics.add_ratio("kl_clamped_frac", (far & mask).sum(), mask.sum())
        self.metrics.add_ratio("kl", masked_sum(kl.detach(), mask), mask.sum())
        return kl

    def _record_mismatch(self, inputs: RolloutBatch, old_logps: Tensor, mask: Tensor) -> None:
        if inputs.sampling_per_token_logps is not None:
            record_mismatch(self.metrics, old_logps, inputs.sampling_per_token_logps, mask)
