"""RARO's roll-outs on verl: the policy answers and is judged; the critic judges. Source: docs/raro.md.

verl makes an agent loop for each roll-out and takes from it one output with one reward; of a list all outputs
get that one. So policy and critic have rows of their own (`rows`), and the critiques that reward the policy are not
trained on, as with `critic_batch="separate"` of `RAROTrainer`. With `mixed.MixedBatchManager` they are: a policy's row
then brings them, each with a reward of its own.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

from llm_rl.integrations.verl.memory import replay_memory, shared_request
from llm_rl.integrations.verl.reward import is_truncated
from llm_rl.integrations.verl.scoring import Critique, critic_outcome, pair_of, policy_outcome
from llm_rl.raro import Pair, Prompts, RewardMatrix, RoleTemplate, extract_answer
from llm_rl.raro.critic import Request
from llm_rl.raro.prompts import CRITIC_SYSTEM, CRITIC_USER, REASONING_TAGS
from llm_rl.raro.special_tokens import CompletionDecoder, control_tokens


@dataclass(frozen=True)
class Written:
    """What was written to a prompt, end token included (`truncated` without one), and its text by `CompletionDecoder`.

    `logprobs` is None where the server gives none; `extra_fields` are those of its answer.
    """

    prompt_ids: list[int]
    ids: list[int]
    logprobs: list[float] | None
    text: str
    truncated: bool
    extra_fields: dict[str, Any]


class RAROAgentLoop(AgentLoopBase):
    """The roll-out of one row of `rows`, of either role.

    A policy's answer is judged `judgements` times, each in an order drawn for it, and again while there is no label, at
    most `rejudge_attempts` times. All roll-outs of a critic's prompt see the same pair in the same order. Completions
    that are left out (over-length, without a label) get a response mask of 0. In a mixed batch the answer and a pair of
    an earlier step are judged by `rollout.n` critiques each, all of which the critic is trained on.

    Args:
        *args: Arguments of `AgentLoopBase`.
        judgements: How many critiques each answer of the policy gets.
        rejudge_attempts: How often at most an answer without a label is judged again.
        seed: Seed of what is drawn.
        critic_system: The critic's system prompt.
        critic_user: The critic's user template.
        reasoning_tags: Start and end tag of hidden reasoning.
        **kwargs: Further arguments of `AgentLoopBase`.

    Raises:
        ValueError: A template lacks a field, or the job has no replay memory (`replay_memory`).
    """

    def __init__(
        self,
        *args: Any,
        judgements: int = 1,
        rejudge_attempts: int = 2,
        seed: int = 0,
        critic_system: str = CRITIC_SYSTEM,
        critic_user: str = CRITIC_USER,
        reasoning_tags: Sequence[str] = REASONING_TAGS,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.judgements, self.rejudge_attempts, self.seed = judgements, rejudge_attempts, seed
        self.prompts = Prompts(critic=RoleTemplate(critic_system, critic_user))
        self.tags = tuple(reasoning_tags)
        self.decoder = CompletionDecoder(self.tokenizer, self.tags)
        self.control_tokens = control_tokens(self.tokenizer)
        self.memory = replay_memory()

    async def run(
        self, sampling_params: dict[str, Any], *, mixed: bool = False, **kwargs: Any
    ) -> AgentLoopOutput | list[AgentLoopOutput]:
        """One completion, and what its reward needs; in a mixed batch the policy's, then its critiques.

        `mixed` says whether this is a row of the policy in a mixed batch; `kwargs` are the row's columns, with verl's
        "uid" and "global_steps".

        Returns:
            The completion; `extra_fields["raro"]` is for `RARORewardManager`. A critique's `extra_fields["group"]` is
            that of its prompt among those of the row's roll-out.

        Raises:
            ValueError: A prompt is longer than `rollout.prompt_length`, or `judgements` is above 1 in a mixed batch.
            RuntimeError: The policy wrote no answer for the critic to judge.
        """
        info = dict(kwargs["extra_info"])
        step = int(kwargs.get("global_steps", 0))
        if mixed:
            return await self._mixed(info, step, sampling_params, kwargs)
        role = self._policy if info["role"] == "policy" else self._critic
        return await role(info, step, sampling_params, kwargs)

    async def _policy(
        self, info: Mapping[str, Any], step: int, sampling_params: dict[str, Any], row: Mapping[str, Any]
    ) -> AgentLoopOutput:
        written = await self._write(row["raw_prompt"], sampling_params)
        pair, critiques = self._pair(info, written, step), []
        if pair is not None:
            if info["split"] == "train":
                await self.memory.store.remote(pair)
            critiques = await self._judged(pair, sampling_params)
        return self._answer(info, written, critiques)

    async def _mixed(
        self, info: Mapping[str, Any], step: int, sampling_params: dict[str, Any], row: Mapping[str, Any]
    ) -> list[AgentLoopOutput]:
        """The policy's answer, mixed with history, and what the critic says of both."""
        if self.judgements != 1:
            raise ValueError(
                f"judgements={self.judgements} does nothing in a mixed batch, where rollout.n critiques judge each "
                "answer; set it to 1 in agent_loops.yaml"
            )
        written = await self._write(row["raw_prompt"], sampling_params)
        pair = self._pair(info, written, step)
        if pair is None:
            return [self._answer(info, written, [])]
        await self.memory.store.remote(pair)
        earlier = await self.memory.draw.remote(step)
        requests = {"fresh": Request(pair, coin())}
        if earlier is not None:
            requests["history"] = Request(earlier, coin(), replayed=True)
        asked = [(name, one) for name, one in requests.items() for _ in range(self.rollout_config.n)]
        said = await asyncio.gather(*(self._write(self._asked(one), sampling_params) for _, one in asked))
        judged = [critique_of(one, text) for (name, one), text in zip(asked, said, strict=True) if name == "fresh"]
        outputs = [self._answer(info, written, await self._judged(pair, sampling_params, judged))]
        for (name, one), text in zip(asked, said, strict=True):
            outputs.append(self._critique(one, text))
            outputs[-1].extra_fields["group"] = name
        return outputs

    async def _critic(
        self, info: Mapping[str, Any], step: int, sampling_params: dict[str, Any], row: Mapping[str, Any]
    ) -> AgentLoopOutput:
        request = await shared_request(str(row["uid"]), partial(self._request, info, step, sampling_params, row))
        return self._critique(request, await self._write(self._asked(request), sampling_params))

    def _answer(self, info: Mapping[str, Any], written: Written, critiques: Sequence[Critique]) -> AgentLoopOutput:
        outcome = policy_outcome(written.text, written.truncated, info, critiques, RewardMatrix(), self.tags)
        attached = {"critiques": [asdict(critique) for critique in critiques]}
        return self._output(written, attached, counts=outcome.reward is not None, turns=2 + 2 * len(critiques))

    def _critique(self, request: Request, written: Written) -> AgentLoopOutput:
        pair = request.pair
        outcome = critic_outcome(critique_of(request, written), pair, RewardMatrix())
        attached = {
            "role": "critic",
            "question_id": pair.question_id,
            "question": pair.question,
            "expert_answer": pair.expert_answer,
            "policy_answer": pair.policy_answer,
            "expert_first": request.expert_first,
        }
        return self._output(written, attached, counts=outcome.reward is not None, turns=2)

    async def _request(
        self, info: Mapping[str, Any], step: int, sampling_params: dict[str, Any], row: Mapping[str, Any]
    ) -> Request:
        """The pair that a critic's row is about, and the order of its answers."""
        if info["source"] == "stored":
            return Request(pair_of(info, info["policy_answer"]), bool(info["expert_first"]))
        digest = hashlib.sha256(f"{self.seed} {row['uid']}".encode()).digest()
        expert_first = bool(digest[0] % 2)
        if info["source"] == "history" and (earlier := await self.memory.draw.remote(step)) is not None:
            return Request(earlier, expert_first, replayed=True)
        for _ in range(1 + self.rejudge_attempts):
            pair = self._pair(info, await self._write(row["raw_prompt"], sampling_params), step)
            if pair is not None:
                return Request(pair, expert_first)
        raise RuntimeError(
            f"the policy wrote no answer to question {info['question_id']} in {1 + self.rejudge_attempts} attempts; "
            "raise rollout.response_length, or start from a model that was fine-tuned on the answers"
        )

    async def _judged(
        self, pair: Pair, sampling_params: dict[str, Any], given: Sequence[Critique] = ()
    ) -> list[Critique]:
        """Critiques of an answer, those given if there are any, with further ones while none has a label."""
        critiques = list(given) or await asyncio.gather(
            *(self._judge(pair, sampling_params) for _ in range(self.judgements))
        )
        for _ in range(self.rejudge_attempts):
            if any(critique.label(pair) is not None for critique in critiques):
                break
            critiques.append(await self._judge(pair, sampling_params))
        return list(critiques)

    async def _judge(self, pair: Pair, sampling_params: dict[str, Any]) -> Critique:
        request = Request(pair, coin())
        return critique_of(request, await self._write(self._asked(request), sampling_params))

    def _asked(self, request: Request) -> Any:
        return self.prompts.for_critic(*request.pair.texts, request.expert_first, self.control_tokens)

    def _pair(self, info: Mapping[str, Any], written: Written, step: int) -> Pair | None:
        answer = None if written.truncated else extract_answer(written.text, self.tags)
        return None if answer is None else pair_of(info, answer, step)

    async def _write(self, messages: Sequence[Mapping[str, Any]], sampling_params: dict[str, Any]) -> Written:
        prompt_ids = await self.loop.run_in_executor(
            None, lambda: self.continuous_token_builder.build_initial_tokens([dict(turn) for turn in messages])
        )
        longest = self.rollout_config.prompt_length
        if len(prompt_ids) > longest:
            raise ValueError(
                f"a prompt has {len(prompt_ids)} tokens, rollout.prompt_length is {longest}; a critic's prompt holds "
                "the question and two answers: raise data.max_prompt_length"
            )
        found = await self.server_manager.generate(
            request_id=uuid4().hex, prompt_ids=prompt_ids, sampling_params=dict(sampling_params)
        )
        limit = self.rollout_config.response_length
        ids = found.token_ids[:limit]
        text = await self.loop.run_in_executor(None, self.decoder.decode, ids)
        truncated = found.stop_reason == "aborted" or is_truncated(ids, limit, self.tokenizer.eos_token_id)
        logprobs = found.log_probs[:limit] if found.log_probs else None
        return Written(prompt_ids, ids, logprobs, text, truncated, dict(found.extra_fields))

    def _output(self, written: Written, attached: dict[str, Any], *, counts: bool, turns: int) -> AgentLoopOutput:
        return AgentLoopOutput(
            prompt_ids=written.prompt_ids,
            response_ids=written.ids,
            response_mask=[int(counts)] * len(written.ids),
            response_logprobs=written.logprobs,
            num_turns=turns,
            metrics={},
            extra_fields={**written.extra_fields, "turn_scores": [], "tool_rewards": [], "raro": attached},
        )


def coin() -> bool:
    """Whether the expert's answer comes first, for a prompt of which nothing else decides it."""
    return bool(np.random.default_rng().integers(2))


def critique_of(request: Request, written: Written) -> Critique:
    """What was written to a request."""
    return Critique(written.text, request.expert_first, written.truncated)
