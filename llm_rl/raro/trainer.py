"""`RAROTrainer`: one model is the policy that answers and the critic that compares its answers with an expert's.

Source: "Escaping the Verifier", arXiv:2511.21667; docs/raro.md says what of it is done here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor, nn

from llm_rl.core import MetricAccumulator, PolicyTensors, Scale, loss_counts, masked_sum, record_monitors
from llm_rl.grpo.trainer import grpo_surrogate
from llm_rl.raro.arguments import RAROArguments
from llm_rl.raro.batches import RoleBatch, RoleSample, Room, TokenBudgetEngine, role_batches
from llm_rl.raro.critic import REPLAY, TRAIN, CriticPass, CriticWarmUp, Critique, Request, labels_of, told_apart
from llm_rl.raro.labels import Label
from llm_rl.raro.monitors import SYMPTOMS, record_groups
from llm_rl.raro.objective import joint_loss, role_advantages
from llm_rl.raro.prompts import extract_answer
from llm_rl.raro.replay import Pair, ReplayBuffer, question_key
from llm_rl.rollout.completions import record_lengths
from llm_rl.rollout.data import RolloutBatch, Sample, decode_completion, encode_prompt
from llm_rl.rollout.generation import GenerationEngine
from llm_rl.rollout.rewards import RewardFunction
from llm_rl.rollout.scoring import positions_of
from llm_rl.rollout.trainer import RolloutTrainer
from llm_rl.training.symptoms import Symptom


class RAROTrainer(RolloutTrainer):
    """Trains a causal language model to answer as experts do, from their answers alone: there is no verifier.

    Rows have "question" and "answer", the expert's; "question_id" and other columns may be there. An optimizer step
    takes all of a roll-out, in forward passes of at most `args.max_tokens_per_batch` tokens; `args.num_iterations`
    steps share one. The replay buffer is the same in all processes.

    Args:
        model: A causal language model of transformers, or PEFT's wrapper of one.
        args: The arguments.
        train_dataset: Rows to train on.
        processing_class: The tokenizer.
        verifiers: Reward functions (`llm_rl.rollout.rewards`) that score the policy's completions for the log and in
            `evaluate` as "verified/<name>". Training never sees them.
        eval_dataset: Rows for `evaluate`.
        engine: What samples. None: `TokenBudgetEngine`; another one bounds its own memory.
        **kwargs: `ref_model`, `callbacks` and `optimizers`, as in `RolloutTrainer`.

    Raises:
        ValueError: A row is none of RARO's, the tokenizer lacks a chat template that the prompts go through, or one of
            the reasons of `RolloutTrainer`.
        RuntimeError: For the reasons of `RolloutTrainer`.
    """

    args: RAROArguments
    shards = True
    record_classes = (RolloutBatch, RoleBatch)
    _buffered_inputs: list[RoleBatch]

    def __init__(
        self,
        model: nn.Module,
        args: RAROArguments,
        train_dataset: Any,
        processing_class: Any,
        *,
        verifiers: RewardFunction | Sequence[RewardFunction] = (),
        eval_dataset: Any = None,
        engine: GenerationEngine | None = None,
        **kwargs: Any,
    ) -> None:
        if args.prompt_format == "chat" and not processing_class.chat_template:
            raise ValueError("prompt_format='chat', but the tokenizer has no chat template; choose 'text', or set one")
        self.matrix = args.reward_matrix
        verifiers = list(verifiers) if isinstance(verifiers, Sequence) else [verifiers]
        super().__init__(
            model,
            [self.answered, *verifiers],
            args,
            args.rows(train_dataset),
            processing_class,
            eval_dataset=None if eval_dataset is None else args.rows(eval_dataset),
            engine=TokenBudgetEngine(args.max_tokens_per_batch, share_prompts=args.sharing_prompts)
            if engine is None
            else engine,
            **kwargs,
        )
        critic_sampling = replace(self.sampling, max_new_tokens=args.critic_length)
        self.room = Room(args.max_tokens_per_batch, positions_of(self.model))
        self.critic = CriticPass(
            args, processing_class, lambda rows, count: self._sample(rows, count, critic_sampling), self._count_tokens
        )
        self.replay = ReplayBuffer(args.replay_capacity, args.replay_mode, args.seed)
        self.warm_up = CriticWarmUp(args.critic_warmup)

    def answered(self, completions: Sequence[Any], **columns: Any) -> list[float]:
        """1 for each completion that has an answer beyond its hidden reasoning, else 0."""
        texts = [text if isinstance(text, str) else text[0]["content"] for text in completions]
        return [float(extract_answer(text, self.args.reasoning_tags) is not None) for text in texts]

    # A roll-out

    def _prepare_inputs(self, generation_batch: list[Mapping[str, Any]]) -> list[RoleBatch]:
        dropped = self._buffered_inputs[0].dropped_tokens or 0
        self.metrics.add_ratio("masked_frac", dropped, dropped)
        return self._buffered_inputs

    @torch.no_grad()
    def _roll_out(self, rows: Sequence[Mapping[str, Any]]) -> list[RoleBatch]:
        """Policy pass, critic passes, rewards: all of a step (docs/raro.md) but the joint update."""
        # The policy answers; what it wrote is scored for the log, and paired with the expert's answers.
        self._check_room(rows)
        samples = self._generate_completions(rows, self.args.num_generations)
        self._record_samples(self.metrics, samples, self._compute_rewards_per_func(samples))
        answers = [self._pair(sample) for sample in samples]
        pairs = self._with_room(answers, self.metrics)
        self.settle()
        fresh: list[Pair] = gather_object([pair for pair in pairs if pair is not None])  # of all processes

        # History is drawn before the pairs of this step are stored, so that none of them is history.
        step, separate = self.state.global_step, self.args.critic_batch == "separate"
        history = self.replay.sample(self.args.history_pairs(step) if separate else len(fresh))
        history = [pair for pair in history if self._has_room(pair)]  # a resumed run may have less
        self._record_replay(history)
        taught = [pair for pair in fresh if self.args.critic_equal_pairs or not pair.equal]
        self.replay.add(taught)

        # The critic judges the policy's answers, again where no critique has a label.
        order_draws, completions = (self.args.policy_judgements, 1) if separate else (1, self.args.critic_generations)
        judged = self.critic.judge(pairs, order_draws, completions, step=step, metrics=self.metrics)
        labels = self.critic.judge_again(pairs, [*map(labels_of, judged)], step=step, metrics=self.metrics)

        # The critic's own batch: fresh pairs and history, or in a mixed one the critiques above and history.
        requests = self.critic.requests(history, REPLAY, step)
        if separate:
            requests = self.critic.requests(self.critic.choose(taught, history, step), TRAIN, step) + requests
        critic_batch = self.critic.criticize(requests, self.args.critic_generations, self.metrics)
        groups = critic_batch if separate else [group for of_pair in judged for group in of_pair] + critic_batch

        # The rewards of both roles, and micro-batches of what counts; in the warm-up the policy's for the divergence.
        kept = self._policy_samples(samples, answers, labels)
        self._count_labels([one for of_pair in (*judged, critic_batch) for group in of_pair for one in group])
        if not self.warm_up.over and self.reference is None:
            kept = []
        kept = kept + self._critic_samples(groups)
        return self._role_batches(kept, [*samples, *(critique.sample for group in groups for critique in group)])

    def _count_labels(self, critiques: Sequence[Critique]) -> None:
        """Whether the critic's warm-up is over is decided anew by a roll-out's critiques; adds "critic/warmup"."""
        if not self.warm_up.over:
            self.settle()
            self.warm_up.add(gather_object([told_apart(critiques)]))
        if self.args.critic_warmup:
            self.metrics.add("critic/warmup", not self.warm_up.over)

    def _pair(self, sample: Sample) -> Pair | None:
        """What a critic is to compare; None where the completion is over-length or has no answer."""
        text = self.critic.decoder.decode(sample.completion_ids)
        answer = None if sample.truncated else extract_answer(text, self.args.reasoning_tags)
        return None if answer is None else self._pair_of(sample.row, answer)

    def _pair_of(self, row: Mapping[str, Any], answer: str) -> Pair:
        question = row["question"]
        expert = str(extract_answer(row["answer"], self.args.reasoning_tags))  # rows without one are refused
        given = row.get("question_id")
        key = question_key(question, expert) if given is None else str(given)
        return Pair(key, question, expert, answer, self.state.global_step)

    def _count_tokens(self, prompt: Any) -> int:
        return len(encode_prompt(prompt, self.processing_class, self._template_arguments))

    def _has_room(self, pair: Pair) -> bool:
        return self.room.holds(self.critic.prompt_tokens(pair), self.args.critic_length)

    def _check_room(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Whether each question, and with its expert answer, fits before the policy has written anything."""
        for row in rows:
            bare = self.critic.prompt_tokens(self._pair_of(row, ""))
            policy = self._count_tokens(row["prompt"])
            self.room.check("policy", policy, self.args.max_completion_length, row["question"])
            self.room.check("critic", bare, self.args.critic_length, row["question"])

    def _with_room(self, pairs: Sequence[Pair | None], metrics: MetricAccumulator) -> list[Pair | None]:
        """None for pairs so long that the critic cannot be asked; adds "policy/too_long_frac"."""
        found = [pair if pair is not None and self._has_room(pair) else None for pair in pairs]
        metrics.add_ratio("policy/too_long_frac", found.count(None) - list(pairs).count(None), len(pairs))
        return found

    def _policy_samples(
        self, samples: Sequence[Sample], answers: Sequence[Pair | None], labels: Sequence[Sequence[Label | None]]
    ) -> list[RoleSample]:
        """The completions that count, with advantages from the mean reward of their labels.

        Adds "policy/reward_equal" and "policy/reward_distinct", the mean rewards of answers that were judged and are
        the expert's, word for word, and of others.
        """
        rewards: list[float | None] = []
        for sample, answer, found in zip(samples, answers, labels, strict=True):
            judged = self.matrix.policy_mean(found)
            if answer is not None and judged is not None:
                self.metrics.add_ratio(f"policy/reward_{'equal' if answer.equal else 'distinct'}", judged, 1)
            # Over-length, or an answer too long for the critic to be asked about.
            if sample.truncated or (answer is not None and not found):
                rewards.append(self.args.overlength_reward)
            else:
                # Who ends without an answer has lost; a pair that no critique labels says nothing and is left out.
                rewards.append(0.0 if answer is None else judged)
        return self._with_advantages(samples, rewards, self.args.num_generations, is_critic=False)

    def _critic_samples(self, groups: Sequence[Sequence[Critique]]) -> list[RoleSample]:
        """The critic's completions that have a label, or a reward without one, with advantages."""
        critiques = [critique for group in groups for critique in group]
        rewards: list[float | None] = []
        for one in critiques:
            # What no label is worth may be None: then it is left out, and not discouraged.
            unlabeled = self.args.overlength_reward if one.sample.truncated else self.args.unparsable_reward
            rewards.append(unlabeled if one.label is None else self.matrix.critic(one.label))
        samples = [critique.sample for critique in critiques]
        return self._with_advantages(samples, rewards, self.args.critic_generations, is_critic=True)

    def _with_advantages(
        self, samples: Sequence[Sample], rewards: Sequence[float | None], size: int, *, is_critic: bool
    ) -> list[RoleSample]:
        """The completions that have a reward, with their advantages within groups of `size`."""
        given = torch.tensor([0.0 if reward is None else reward for reward in rewards]).view(-1, size)  # (Q, G)
        valid = torch.tensor([reward is not None for reward in rewards], dtype=torch.bool).view(-1, size)  # (Q, G)
        record_groups(self.metrics, "critic" if is_critic else "policy", given, valid)
        if not samples:
            return []
        scale: Scale = "std" if self.args.scale_rewards == "group" else "none"
        advantages = role_advantages(given, valid, baseline=self.args.advantage_baseline, scale=scale)  # (Q, G)
        found = zip(samples, advantages.flatten().tolist(), rewards, strict=True)
        return [
            RoleSample(**vars(sample), is_critic=is_critic, advantage=value)
            for sample, value, reward in found
            if reward is not None
        ]

    def _role_batches(self, kept: list[RoleSample], generated: Sequence[Sample]) -> list[RoleBatch]:
        """Micro-batches of the completions that count, with log-probabilities and the counts of the optimizer step."""
        dropped = sum(len(s.completion_ids) for s in generated) - sum(len(s.completion_ids) for s in kept)
        nothing = not kept
        if nothing:  # a backward pass needs a sequence, be it without a token that counts
            shortest = min(generated, key=lambda sample: len(sample.completion_ids))
            kept = [RoleSample(**vars(shortest))]
        batches = role_batches(
            kept, self.args.max_tokens_per_batch, self.sampling.pad_token_id, device=self.args.device
        )
        batches[0].dropped_tokens = dropped
        if nothing:
            batches[0].loss_mask.zero_()
        self._score_at_sampling(batches)
        self.settle()
        counts = [self._role_counts(batches, is_critic) for is_critic in (False, True)]
        for batch in batches:
            batch.policy_counts, batch.critic_counts = counts
        return batches

    def _role_counts(self, batches: Sequence[RoleBatch], is_critic: bool) -> Tensor:
        """Sequences and tokens of a role that count in the optimizer step of all processes, `(2,)`."""
        none = torch.zeros(1, 1, dtype=torch.bool, device=self.args.device)
        masks = [batch.loss_mask for batch in batches if batch.of_critic is is_critic]
        return torch.stack(loss_counts(none, *masks, reduce=self.args.world_size > 1))

    # The update

    def forward_backward(self, model: nn.Module, inputs: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """One optimizer step: all forward and backward passes, then the mean of several processes' gradients."""
        self._earlier_loss = torch.zeros((), device=self.args.device)
        return super().forward_backward(model, inputs, num_items_in_batch) + self._earlier_loss

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """The last micro-batch's share of the loss, after the backward passes of those before it."""
        # One backward pass a micro-batch: its graph is gone before the next one needs the memory.
        *earlier, last = inputs
        for batch in earlier:
            share = super().compute_loss(model, batch, return_outputs)
            self.accelerator.backward(share)
            self._earlier_loss += share.detach()
        return super().compute_loss(model, last, return_outputs)

    def _compute_loss_and_metrics(self, model: nn.Module, inputs: Any) -> Tensor:
        mask = inputs.loss_mask
        logps, entropies = self._get_per_token_logps_and_entropies(model, inputs)  # (B, T) each
        old_logps = logps.detach() if inputs.old_per_token_logps is None else inputs.old_per_token_logps
        surrogate = grpo_surrogate(self.args, logps, old_logps, mask, inputs.advantages)
        kl = None if self.reference is None else self._reference_kl(model, inputs, logps, mask)
        # While the critic warms up its word is no reward yet: the policy is but held to the reference.
        weights = self.args.objective if self.warm_up.over else replace(self.args.objective, lambda_pol=0.0)
        loss = joint_loss(surrogate.objective, kl, mask, inputs.is_critic, weights, inputs.role_counts)
        self._record_mismatch(inputs, old_logps, inputs.completion_mask)
        record_monitors(self.metrics, policy=PolicyTensors(logps, old_logps, surrogate, mask, mask, entropies))
        role = "critic" if inputs.of_critic else "policy"
        self.metrics.add_ratio(f"{role}/entropy", masked_sum(entropies.detach(), mask), mask.sum())
        # Shares add up to one loss an optimizer step.
        weight = 1 / (len(self._buffered_inputs) * self.args.world_size)
        for name, share in (("policy/loss", loss.policy), ("critic/loss", loss.critic)):
            self.metrics.add_ratio(name, share, weight)
        return loss.loss

    # Records

    def _rewarded_completion(self, sample: Sample) -> Any:
        return decode_completion(sample, self.critic.decoder)

    def _record_samples(self, metrics: MetricAccumulator, samples: Sequence[Sample], per_function: Tensor) -> None:
        """Adds "verified/<name>" of each verifier, "policy/answered", lengths and "policy/overlength_rate"."""
        names = ["policy/answered", *(f"verified/{name}" for name in self.rewards.names[1:])]
        for name, column in zip(names, per_function.unbind(1), strict=True):
            metrics.add_ratio(name, column.nansum(), column.isfinite().sum())
        metrics.add_ratio("policy/overlength_rate", sum(sample.truncated for sample in samples), len(samples))
        record_lengths(metrics, samples)

    def _record_replay(self, history: Sequence[Pair]) -> None:
        """Adds "replay/size", before this step's pairs, and "replay/age" in steps of the pairs drawn."""
        self.metrics.add("replay/size", len(self.replay))
        age = sum(self.state.global_step - pair.step for pair in history)
        self.metrics.add_ratio("replay/age", age, len(history))

    def _symptoms(self) -> tuple[Symptom, ...]:
        return SYMPTOMS

    # Evaluation

    def _rows_of(self, data: Any) -> Any:
        return self.args.rows(data)

    def _record_evaluation(self, metrics: MetricAccumulator, samples: Sequence[Sample], per_function: Tensor) -> None:
        """Adds what verifiers say of one answer to each question, and the critic, in both orders.

        There is no "reward_mean" but "policy/reward_mean", 0 for completions without an answer. The critic is sampled,
        be the policy greedy or not.
        """
        self._record_samples(metrics, samples, per_function)
        answers = [self._pair(sample) for sample in samples]
        pairs = [pair for pair in self._with_room(answers, metrics) if pair is not None]
        # Both orders of each pair, so that a liking for one of the places cancels out.
        requests = [Request(pair, first) for pair in pairs for first in (True, False)]
        labels = labels_of(self.critic.criticize(requests, 1, metrics))
        by_pair = zip(labels[::2], labels[1::2], strict=True)
        rewards = [reward for both in by_pair if (reward := self.matrix.policy_mean(both)) is not None]
        completions = zip(samples, answers, strict=True)
        unanswered = sum(answer is None and not sample.truncated for sample, answer in completions)
        metrics.add_ratio("policy/reward_mean", sum(rewards), len(rewards) + unanswered)

    # Checkpoints

    def progress(self) -> dict[str, Any]:
        """Adds the replay buffer, and the critic's warm-up."""
        return {**super().progress(), "replay": self.replay.state_dict(), "warm_up": self.warm_up.state_dict()}

    def load_progress(self, progress: dict[str, Any]) -> None:
        """Continue from what `progress` returned; errors as in `BufferedTrainer` and `ReplayBuffer.load_state_dict`."""
        super().load_progress(progress)
        self.replay.load_state_dict(progress["replay"])
        self.warm_up.load_state_dict(progress["warm_up"])
