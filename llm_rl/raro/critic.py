"""The critic's pass: from pairs of answers to completions with labels. Source: docs/raro.md, 'What a step does'."""

from collections.abc import Callable, Sequence
from typing import Any

from llm_rl.core import MetricAccumulator
from llm_rl.raro.arguments import RAROArguments
from llm_rl.raro.control_tokens import control_tokens
from llm_rl.raro.decoding import CompletionDecoder
from llm_rl.raro.judging import CHOOSE, JUDGE, REPLAY, Critique, Request, dealt, draws, orders
from llm_rl.raro.monitors import record_critiques
from llm_rl.raro.replay import Pair
from llm_rl.raro.verdict import Verdict, parse_verdict
from llm_rl.rollout.data import Sample

SampleCritic = Callable[[Sequence[dict[str, Any]], int], list[Sample]]
Verdicts = list[list[Verdict | None]]


class CriticPass:
    """Asks the critic. What is random depends on the seed, the step and a pair's number among those of all processes.

    Args:
        args: Arguments of the trainer.
        tokenizer: Decodes what the critic wrote; its control tokens are kept out of what the critic is shown.
        sample: Completions of each row with a "prompt", a row's side by side.
        count_tokens: The number of tokens of a prompt.

    Attributes:
        decoder: The decoder of the completions of both roles.
    """

    def __init__(
        self, args: RAROArguments, tokenizer: Any, sample: SampleCritic, count_tokens: Callable[[Any], int]
    ) -> None:
        self.args, self.prompts, self._sample = args, args.prompts, sample
        self.decoder = CompletionDecoder(tokenizer, args.reasoning_tags)
        self._control_tokens = control_tokens(tokenizer)
        self._count_tokens = count_tokens

    def prompt_tokens(self, pair: Pair) -> int:
        """Tokens of the longer of a pair's two prompts."""
        return max(self._count_tokens(self._prompt(Request(pair, first))) for first in (True, False))

    def choose(self, fresh: Sequence[Pair], history: Sequence[Pair], step: int) -> list[Pair]:
        """The fresh pairs of a separate critic batch of all processes: they fill up what history leaves."""
        room = self.args.pairs_per_step * self.args.world_size - len(history)
        drawn = draws(self.args.seed, step, CHOOSE).permutation(len(fresh))[:room]
        return [fresh[index] for index in drawn]

    def requests(self, pairs: Sequence[Pair], purpose: int, step: int) -> list[Request]:
        """This process's prompts for pairs of all processes."""
        coins = draws(self.args.seed, step, purpose).random(len(pairs)).tolist()
        mine = dealt(list(zip(pairs, coins, strict=True)), self.args.world_size, self.args.process_index)
        both, replayed = self.args.judge_both_orders, purpose == REPLAY
        return [Request(pair, first, replayed) for pair, coin in mine for first in orders(coin, both)]

    def judge(
        self,
        pairs: Sequence[Pair | None],
        judgements: int,
        completions: int,
        *,
        step: int,
        metrics: MetricAccumulator,
        attempt: int = 0,
    ) -> list[list[list[Critique]]]:
        """For each of this process's pairs the completions of each of its prompts; nothing where there is no pair.

        Args:
            pairs: This process's pairs, as many as in every other one.
            judgements: Orders drawn for each pair, a prompt each (two with `judge_both_orders`).
            completions: How many completions each prompt gets.
            step: The step of the roll-out.
            metrics: The accumulator to add to.
            attempt: 0 for the first time.
        """
        shape = (self.args.world_size, len(pairs), judgements)
        coins = draws(self.args.seed, step, JUDGE, attempt).random(shape)[self.args.process_index].tolist()
        both = self.args.judge_both_orders
        requests = [
            [] if pair is None else [Request(pair, first) for coin in row for first in orders(coin, both)]
            for pair, row in zip(pairs, coins, strict=True)
        ]
        groups = iter(self.criticize([one for of_pair in requests for one in of_pair], completions, metrics))
        return [[next(groups) for _ in of_pair] for of_pair in requests]

    def judge_again(
        self, pairs: Sequence[Pair | None], verdicts: Verdicts, *, step: int, metrics: MetricAccumulator
    ) -> Verdicts:
        """The labels of each pair, with those of further judgments, a bounded number, where there was none.

        Adds "policy/rejudged_frac".
        """
        attempts = self.args.rejudge_attempts if self.args.on_unparsable == "rejudge" else 0
        for attempt in range(1, attempts + 1):
            unlabeled = [None if any(found) else pair for pair, found in zip(pairs, verdicts, strict=True)]
            if attempt == 1:
                metrics.add_ratio("policy/rejudged_frac", sum(map(bool, unlabeled)), len(pairs))
            if not any(unlabeled):
                break
            again = self.judge(unlabeled, 1, 1, step=step, metrics=metrics, attempt=attempt)
            verdicts = [found + labels_of(groups) for found, groups in zip(verdicts, again, strict=True)]
        return verdicts

    def criticize(
        self, requests: Sequence[Request], completions: int, metrics: MetricAccumulator
    ) -> list[list[Critique]]:
        """The critic's completions of each prompt, with their labels.

        Args:
            requests: The prompts to complete.
            completions: How many completions each prompt gets.
            metrics: The accumulator to add to, see `record_critiques`.
        """
        if not requests:
            return []
        rows = [{"prompt": self._prompt(request)} for request in requests]
        samples = iter(self._sample(rows, completions))
        groups = [[self._critique(request, next(samples)) for _ in range(completions)] for request in requests]
        record_critiques(metrics, [critique for group in groups for critique in group])
        return groups

    def _prompt(self, request: Request) -> Any:
        pair = request.pair
        return self.prompts.for_critic(
            pair.question, pair.expert_answer, pair.policy_answer, request.expert_first, self._control_tokens
        )

    def _critique(self, request: Request, sample: Sample) -> Critique:
        if sample.truncated:
            return Critique(request, sample, None)
        text, pair = self.decoder.decode(sample.completion_ids), request.pair
        quotable = pair.question, pair.expert_answer, pair.policy_answer
        return Critique(request, sample, parse_verdict(text, request.expert_first, quotable))


def labels_of(groups: Sequence[Sequence[Critique]]) -> list[Verdict | None]:
    """The labels of several prompts' completions."""
    return [critique.verdict for group in groups for critique in group]
