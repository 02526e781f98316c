"""The critic's pass: from pairs of answers to critiques with labels. Source: docs/raro.md, 'What a step does'."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from llm_rl.core import MetricAccumulator
from llm_rl.raro.arguments import RAROArguments
from llm_rl.raro.labels import Label, parse_label
from llm_rl.raro.replay import Pair
from llm_rl.raro.special_tokens import CompletionDecoder, control_tokens
from llm_rl.rollout.data import Sample

SampleCritic = Callable[[Sequence[dict[str, Any]], int], list[Sample]]
Labels = list[list[Label | None]]
"""The labels of the critiques of each pair."""
Item = TypeVar("Item")
JUDGE, CHOOSE, TRAIN, REPLAY = range(4)
"""What random numbers are for: each has a stream of its own."""
LEAST_LABELS = 64
"""Labels that an accuracy is taken over, at least: with fewer a critic that guesses comes to any share by chance."""


@dataclass(frozen=True)
class Request:
    """One prompt for the critic about a pair, which may come from the replay buffer; `expert_first`: as Answer 1."""

    pair: Pair
    expert_first: bool
    replayed: bool = False


@dataclass(frozen=True)
class Critique:
    """One completion of the critic, and the label that it means; None where it is unparsable or over-length."""

    request: Request
    sample: Sample
    label: Label | None


class CriticPass:
    """Asks for critiques. What is random depends on the seed, the step and a pair's number among all processes' pairs.

    `sample` gives completions of each row with a "prompt", a row's side by side, and `count_tokens` the number of
    tokens of a prompt. The tokenizer decodes what both roles wrote (`decoder`); its control tokens are kept out of what
    the critic is shown.
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
        # Drawn for the pairs of all processes, then dealt: who asks about a pair does not change its order.
        coins = draws(self.args.seed, step, purpose).random(len(pairs)).tolist()
        mine = dealt(list(zip(pairs, coins, strict=True)), self.args.world_size, self.args.process_index)
        both, replayed = self.args.judge_both_orders, purpose == REPLAY
        return [Request(pair, first, replayed) for pair, coin in mine for first in orders(coin, both)]

    def judge(
        self,
        pairs: Sequence[Pair | None],
        order_draws: int,
        completions: int,
        *,
        step: int,
        metrics: MetricAccumulator,
        attempt: int = 0,
    ) -> list[list[list[Critique]]]:
        """The critiques of each prompt of each of this process's pairs; nothing where there is no pair.

        There are as many `pairs` as in every other process. For each an order is drawn `order_draws` times, a prompt
        each (two with `judge_both_orders`), and a prompt gets so many `completions`. `attempt` is how often these pairs
        were judged before in this step.
        """
        # Coins for every place, also where there is no pair: so one that is missing moves no other.
        shape = (self.args.world_size, len(pairs), order_draws)
        coins = draws(self.args.seed, step, JUDGE, attempt).random(shape)[self.args.process_index].tolist()
        both = self.args.judge_both_orders
        requests = [
            [] if pair is None else [Request(pair, first) for coin in row for first in orders(coin, both)]
            for pair, row in zip(pairs, coins, strict=True)
        ]
        groups = iter(self.criticize([one for of_pair in requests for one in of_pair], completions, metrics))
        return [[next(groups) for _ in of_pair] for of_pair in requests]

    def judge_again(
        self, pairs: Sequence[Pair | None], labels: Labels, *, step: int, metrics: MetricAccumulator
    ) -> Labels:
        """The labels of each pair, with those of further critiques, a bounded number, where there was none.

        Adds "policy/rejudged_frac".
        """
        attempts = self.args.rejudge_attempts if self.args.on_unparsable == "rejudge" else 0
        for attempt in range(1, attempts + 1):
            unlabeled = [None if any(found) else pair for pair, found in zip(pairs, labels, strict=True)]
            if attempt == 1:
                metrics.add_ratio("policy/rejudged_frac", sum(map(bool, unlabeled)), len(pairs))
            if not any(unlabeled):
                break
            again = self.judge(unlabeled, 1, 1, step=step, metrics=metrics, attempt=attempt)
            labels = [found + labels_of(groups) for found, groups in zip(labels, again, strict=True)]
        return labels

    def criticize(
        self, requests: Sequence[Request], completions: int, metrics: MetricAccumulator
    ) -> list[list[Critique]]:
        """So many critiques of each prompt, with their labels; adds what `record_critiques` does."""
        if not requests:
            return []
        rows = [{"prompt": self._prompt(request)} for request in requests]
        samples = iter(self._sample(rows, completions))
        groups = [[self._critique(request, next(samples)) for _ in range(completions)] for request in requests]
        record_critiques(metrics, [critique for group in groups for critique in group])
        return groups

    def _prompt(self, request: Request) -> Any:
        return self.prompts.for_critic(*request.pair.texts, request.expert_first, self._control_tokens)

    def _critique(self, request: Request, sample: Sample) -> Critique:
        if sample.truncated:
            return Critique(request, sample, None)
        text = self.decoder.decode(sample.completion_ids)
        return Critique(request, sample, parse_label(text, request.expert_first, request.pair.texts))


def labels_of(groups: Sequence[Sequence[Critique]]) -> list[Label | None]:
    """The labels of several prompts' critiques."""
    return [critique.label for group in groups for critique in group]


def orders(coin: float, both: bool) -> list[bool]:
    """`expert_first` of each prompt for a pair: both orders, or one by a number drawn from [0, 1)."""
    return [True, False] if both else [coin < 0.5]


def draws(*key: int) -> np.random.Generator:
    """Random numbers that depend on the key (seed, step, purpose, …) alone: so all processes and resumed runs agree."""
    return np.random.default_rng(key)


def dealt(items: Sequence[Item], processes: int, process: int) -> list[Item]:
    """A process's part of what all have: contiguous, the parts' sizes at most one apart."""
    return [items[index] for index in np.array_split(np.arange(len(items)), processes)[process]]


def told_apart(critiques: Sequence[Critique]) -> tuple[int, int]:
    """How many critiques of different answers name one of them, rightly, and in all."""
    distinct = [critique.label for critique in critiques if critique.label and not critique.request.pair.equal]
    return distinct.count(Label.EXPERT), len(distinct) - distinct.count(Label.TIE)


class CriticWarmUp:
    """Counts what the critic of all processes tells apart, until it is right often enough; then it is over for good.

    That is so at `accuracy`, the share of labels of different answers, ties left out, over the latest roll-outs that
    have `LEAST_LABELS` together; with 0 it never begins. `over` says whether the policy learns.
    """

    def __init__(self, accuracy: float) -> None:
        self.accuracy, self.over = accuracy, accuracy == 0
        self._counts = deque[tuple[int, int]]()

    def add(self, counts: Sequence[tuple[int, int]]) -> None:
        """What each process's critic told apart in a roll-out, as `told_apart` says."""
        right, told = (sum(each) for each in zip(*counts, strict=True))
        self._counts.append((right, told))
        # The latest roll-outs that have labels enough; before them the critic was another one.
        total = sum(told for _, told in self._counts)
        while total - self._counts[0][1] >= LEAST_LABELS:
            total -= self._counts.popleft()[1]
        if total >= LEAST_LABELS:
            self.over = sum(right for right, _ in self._counts) >= self.accuracy * total

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"over": self.over, "counts": [list(counts) for counts in self._counts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.over = state["over"] or self.accuracy == 0
        self._counts = deque((right, told) for right, told in state["counts"])


def record_critiques(metrics: MetricAccumulator, critiques: Sequence[Critique]) -> None:
    """Adds the shares of labels among critiques.

    "critic/overlength_rate" among all; "critic/unparsable_rate" among those that ended; "critic/tie_rate" among those
    with a label; "critic/accuracy" among those that name an answer, and the same with "_fresh", "_replayed",
    "_expert_first" and "_expert_second" for parts of them. Where both answers are the same there is nothing to tell:
    "critic/accuracy_distinct" and "critic/tie_rate_distinct" are of the other pairs.
    """
    ended = [critique for critique in critiques if not critique.sample.truncated]
    labeled = [critique for critique in ended if critique.label is not None]
    decided = [critique for critique in labeled if critique.label is not Label.TIE]
    metrics.add_ratio("critic/overlength_rate", len(critiques) - len(ended), len(critiques))
    metrics.add_ratio("critic/unparsable_rate", len(ended) - len(labeled), len(ended))
    metrics.add_ratio("critic/tie_rate", len(labeled) - len(decided), len(labeled))
    right_distinct, told = told_apart(critiques)
    distinct = sum(not critique.request.pair.equal for critique in labeled)
    metrics.add_ratio("critic/tie_rate_distinct", distinct - told, distinct)
    metrics.add_ratio("critic/accuracy_distinct", right_distinct, told)
    parts = {
        "": decided,
        "_fresh": [critique for critique in decided if not critique.request.replayed],
        "_replayed": [critique for critique in decided if critique.request.replayed],
        "_expert_first": [critique for critique in decided if critique.request.expert_first],
        "_expert_second": [critique for critique in decided if not critique.request.expert_first],
    }
    for name, part in parts.items():
        right = sum(critique.label is Label.EXPERT for critique in part)
        metrics.add_ratio(f"critic/accuracy{name}", right, len(part))
