"""The critic of a model as the judge of a tournament (`llm_rl.raro.tournament`)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from llm_rl.core import MetricAccumulator
from llm_rl.raro.arguments import RAROArguments
from llm_rl.raro.batches import TokenBudgetEngine
from llm_rl.raro.critic import CriticPass, Critique, Request
from llm_rl.raro.labels import Label
from llm_rl.raro.prompts import extract_answer
from llm_rl.raro.replay import Pair
from llm_rl.raro.tournament import Match
from llm_rl.rollout.completions import prompt_ids, sample_completions, sampling_params
from llm_rl.rollout.data import Sample
from llm_rl.rollout.generation import GenerationEngine
from llm_rl.rollout.scoring import causal_model


class CriticJudge:
    """Points of answers by critiques of both orders in which two can be shown, so that their places do not tell.

    Of a match the left answer has the share of the critiques with a label that take it for the expert's, ties being
    half; without any label the match is a tie, as it is between equal answers, of which none is asked. An answer that
    is nothing beyond its hidden reasoning loses against any other. A match that was judged is not judged again.

    Args:
        model: A causal language model, or PEFT's wrapper of one.
        tokenizer: Its tokenizer.
        args: Prompts, tags, lengths and the temperature of critiques.
        questions: The questions.
        answers: Completions of each, hidden reasoning included.
        critiques: Critiques of each order.
        greedy: Take the most likely token each time; of an order there is then one critique to be had.
        engine: What samples. None: `TokenBudgetEngine`, of `args.max_tokens_per_batch`.

    Attributes:
        metrics: What critiques came to, as `llm_rl.raro.critic.record_critiques` tells it, the left answer for the
            expert's.
        tokens: Tokens that the critic has written.

    Raises:
        ValueError: There are not as many lists of answers as questions, or `critiques` does nothing or is below 1.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        args: RAROArguments,
        questions: Sequence[str],
        answers: Sequence[Sequence[str]],
        *,
        critiques: int = 1,
        greedy: bool = False,
        engine: GenerationEngine | None = None,
    ) -> None:
        if len(questions) != len(answers):
            raise ValueError(f"there are {len(questions)} questions and {len(answers)} lists of answers; give one each")
        if critiques < 1 or (greedy and critiques > 1):
            raise ValueError(f"critiques={critiques} must be 1 or greater, and 1 where greedy={greedy}")
        self.questions, self.critiques = questions, critiques
        self.answers = [[extract_answer(text, args.reasoning_tags) for text in each] for each in answers]
        self.metrics, self.tokens = MetricAccumulator(), 0
        self._points: dict[Match, float] = {}
        causal = causal_model(model)
        params = sampling_params(causal, tokenizer, args.critic_length, args.temperature, greedy=greedy)
        engine = engine or TokenBudgetEngine(args.max_tokens_per_batch, share_prompts=args.sharing_prompts)

        def sample(rows: Sequence[dict[str, Any]], count: int) -> list[Sample]:
            with torch.no_grad():
                return sample_completions(causal, engine, tokenizer, rows, count, params, {})

        def count_tokens(prompt: Any) -> int:
            return len(prompt_ids({"prompt": prompt}, causal, tokenizer, params, {}))

        self.critic = CriticPass(args, tokenizer, sample, count_tokens)

    def __call__(self, matches: Sequence[Match]) -> list[float]:
        """Points of the left answer in each match, in [0, 1].

        Raises:
            ValueError: The critic's prompt leaves no room for a critique.
        """
        asked = [match for match in dict.fromkeys(matches) if match not in self._points]
        pairs = {match: pair for match in asked if (pair := self._pair(match)) is not None}
        requests = [Request(pair, left_first) for pair in pairs.values() for left_first in (True, False)]
        groups = iter(self.critic.criticize(requests, self.critiques, self.metrics))
        for match in pairs:
            self._points[match] = self._of_critiques([*next(groups), *next(groups)])
        return [self._points[match] for match in matches]

    def _pair(self, match: Match) -> Pair | None:
        """What the critic is asked about a match; None where its points are known without asking, and then they are."""
        left, right = (self.answers[match.question][place] for place in match[1:])
        if left == right or left is None or right is None:
            self._points[match] = 0.5 if left == right else float(right is None)
            return None
        return Pair(str(match.question), self.questions[match.question], left, right, step=0)

    def _of_critiques(self, critiques: Sequence[Critique]) -> float:
        self.tokens += sum(len(critique.sample.completion_ids) for critique in critiques)
        points = {Label.EXPERT: 1.0, Label.POLICY: 0.0, Label.TIE: 0.5}
        found = [points[critique.label] for critique in critiques if critique.label is not None]
        return sum(found) / len(found) if found else 0.5
