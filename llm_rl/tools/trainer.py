"""`EpisodeTrainer`: roll-outs that are conversations of several turns, with tools or without; see docs/tools.md."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from llm_rl.core import MetricAccumulator
from llm_rl.rollout.data import RolloutBatch, Sample, is_conversation
from llm_rl.rollout.generation import SamplingParams
from llm_rl.rollout.pictures import refuse_pictures
from llm_rl.rollout.scoring import positions_of
from llm_rl.rollout.trainer import RolloutTrainer
from llm_rl.rollout.turns import NextTurn, Partner, TextPartner, joined, play_turns, texts_of, turns_of
from llm_rl.tools.arguments import EpisodeArguments
from llm_rl.tools.calls import CallFormat
from llm_rl.tools.episodes import EpisodePartner, begin, new_episode, offered, record_episodes, spoken
from llm_rl.tools.template import ResultFrame, check_shows_tools

MARKS = ("⟦", "⟧")
"""What stands around tokens that are trained on."""


class EpisodeTrainer(RolloutTrainer):
    """A `RolloutTrainer` whose completions may be conversations of several turns.

    Args:
        model: As in `RolloutTrainer`.
        reward_funcs: As there. They get the column "turns" too, and with environments "environments"; where these have
            `get_reward`, it is one more function, and this may be None.
        *args: As there, with `EpisodeArguments`.
        tools: Functions that the model may call, with type hints and docstrings.
        environment_factory: Makes an environment for each completion. Its public methods are the tools; `reset(**row)`
            is called first, if there is one, and what it returns is added to the last message of the prompt, special
            tokens in it broken (`<|im_end|>` is `< |im_end|>`).
        next_turn: Answers the model's turns by texts, without tools (`llm_rl.rollout.turns.NextTurn`).
        call_format: How the model writes calls. None: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
        **kwargs: As in `RolloutTrainer`.

    Raises:
        ValueError: Several of the three are given, or one without `max_turns` above 1 or the other way round; a tool or
            the chat template is not fit; or one of the reasons of `RolloutTrainer`.
    """

    args: EpisodeArguments

    def __init__(
        self,
        model: Any,
        reward_funcs: Any,
        *args: Any,
        tools: Sequence[Callable[..., Any]] | None = None,
        environment_factory: Callable[[], Any] | None = None,
        next_turn: NextTurn | None = None,
        call_format: CallFormat | None = None,
        **kwargs: Any,
    ) -> None:
        given = {"tools": tools, "environment_factory": environment_factory, "next_turn": next_turn}
        answering = [name for name, value in given.items() if value is not None]
        if len(answering) > 1:
            raise ValueError(
                f"{' and '.join(answering)} are given, of which one answers the model; leave the others out"
            )
        self.next_turn, self.environment_factory = next_turn, environment_factory
        self.toolbox, reward_funcs = offered(tools, environment_factory, reward_funcs)
        self.call_format = call_format or CallFormat()
        super().__init__(model, reward_funcs, *args, **kwargs)
        refuse_pictures(self.processing_class, *(answering if self.toolbox is None else []))
        if bool(answering) != (self.args.max_turns > 1):
            raise ValueError(
                f"max_turns is {self.args.max_turns} {'with' if answering else 'without'} "
                f"{answering[0] if answering else 'next_turn, tools or environment_factory'}; several turns need both"
            )
        if call_format is not None and self.toolbox is None:
            raise ValueError("call_format is given without tools or environment_factory; leave it out")
        if self.toolbox is not None:
            template = super()._template_arguments
            check_shows_tools(self.processing_class, self.toolbox.schemas, template)
            self._frame = ResultFrame(self.processing_class, template)
        self._marks_shown = False

    @property
    def _template_arguments(self) -> Mapping[str, Any]:
        """Adds the tools, which the template tells the model."""
        known = super()._template_arguments
        return known if self.toolbox is None else {**known, "tools": self.toolbox.schemas}

    def _check_row(self, row: Any) -> None:
        super()._check_row(row)
        if self.toolbox is not None and not is_conversation(row["prompt"]):
            raise ValueError(
                f"prompt is {row['prompt']!r}, a text; with tools it must be a list of messages, as the chat template "
                "tells the model of them"
            )

    @property
    def _talks(self) -> bool:
        return self.next_turn is not None or self.toolbox is not None

    @property
    def _by_turns(self) -> bool:
        """Whether each turn is a training sample of its own."""
        default = "sample" if self.next_turn is None else "turns"
        return self._talks and (self.args.episode_as or default) == "turns"

    @property
    def _longest_sample(self) -> int:
        """The most tokens that the policy samples for one training sample."""
        turns = self.args.max_turns if self._talks and not self._by_turns else 1
        return self.args.max_completion_length * turns

    # A roll-out

    def _generate_completions(self, rows: Sequence[Mapping[str, Any]], num_generations: int) -> list[Sample]:
        """Samples of each row, a row's side by side; with several turns the last ones of conversations."""
        if not self._talks:
            return super()._generate_completions(rows, num_generations)
        repeated = [row for row in rows for _ in range(num_generations)]
        if self.toolbox is None:
            assert self.next_turn is not None
            return self._play(repeated, TextPartner(self.next_turn, self.processing_class), self.sampling)

        # Each conversation has its environment, and its row with what that says at the start.
        episodes = [new_episode(self.environment_factory) for _ in repeated]
        begun = [begin(*pair, self.processing_class) for pair in zip(episodes, repeated, strict=True)]
        limits = self.args.max_result_tokens, self.args.tool_timeout
        partner = EpisodePartner(episodes, self.toolbox, self._frame, self.call_format, self.processing_class, *limits)
        samples = self._play(begun, partner, self.call_format.ending(self.sampling, self.processing_class))
        return [replace(sample, episode=episode) for sample, episode in zip(samples, episodes, strict=True)]

    def _play(self, rows: Sequence[Mapping[str, Any]], partner: Partner, params: SamplingParams) -> list[Sample]:
        """The last turn of a conversation about each row."""
        encoded = self._encode(rows, 1, params)
        with self._sampling_engine() as engine:
            ended = dict(play_turns(encoded, partner, self.args.max_turns, engine, params, positions_of(self.model)))
        return [ended[index] for index in range(len(rows))]

    def _further_columns(self, samples: Sequence[Sample]) -> dict[str, list[Any]]:
        """With several turns the column "turns", the texts of each conversation's turns; and "environments"."""
        columns = super()._further_columns(samples)
        if self._talks:
            columns["turns"] = [texts_of(sample, self.processing_class) for sample in samples]
        if self.environment_factory is not None:
            columns["environments"] = [sample.episode.environment for sample in samples]
        return columns

    def _rewarded_completion(self, sample: Sample) -> Any:
        """What reward functions see of a completion; with tools all messages of the conversation after its prompt."""
        if self.toolbox is None:
            return super()._rewarded_completion(sample)
        return spoken(sample, self.processing_class)

    def _record_samples(self, metrics: MetricAccumulator, samples: Sequence[Sample], per_function: Tensor) -> None:
        super()._record_samples(metrics, samples, per_function)
        if self._talks:
            metrics.add_ratio("turns", sum(len(turns_of(sample)) for sample in samples), len(samples))
        if self.toolbox is not None:
            record_episodes(metrics, samples, [sample.episode for sample in samples])

    def _collate(self, samples: Sequence[Sample]) -> RolloutBatch:
        """The padded tensors of one micro-batch: a row a conversation, or a row a turn with its owner."""
        if self._by_turns:
            turns = [(owner, turn) for owner, sample in enumerate(samples) for turn in turns_of(sample)]
            batch = super()._collate([turn for _, turn in turns])
            batch.owners = torch.tensor([owner for owner, _ in turns], device=self.args.device)
            return batch
        return super()._collate([joined(sample) for sample in samples] if self._talks else samples)

    def _prepare_batch_inputs(self, samples: Sequence[Sample]) -> list[RolloutBatch]:
        """As in `RolloutTrainer`; the first sample of a run is shown, with marks around what is trained on."""
        micro_batches = super()._prepare_batch_inputs(samples)
        if self._talks and self.args.show_supervised and not self._marks_shown and self.is_world_process_zero():
            shown = marked_row(micro_batches[0], 0, self.processing_class)
            tqdm.write(f"The first sample; what is trained on stands between {' and '.join(MARKS)}:\n{shown}")
        self._marks_shown = True
        return micro_batches

    def identity(self) -> dict[str, Any]:
        """Adds the name of `next_turn`, or the schemas of the tools."""
        known = super().identity()
        if self.next_turn is not None:
            known["next_turn"] = getattr(self.next_turn, "__name__", type(self.next_turn).__name__)
        if self.toolbox is not None:
            known["tools"] = self.toolbox.schemas
        return known


def marked_row(batch: RolloutBatch, row: int, tokenizer: Any) -> str:
    """The text of a row, special tokens included, with each run of tokens that its loss is taken of between `MARKS`."""
    there, prompt = batch.completion_mask[row], batch.prompt_ids[row][batch.prompt_mask[row]].tolist()
    ids = prompt + batch.completion_ids[row][there].tolist()
    supervised = [False] * len(prompt) + batch.loss_mask[row][there].tolist()
    text = ""
    for trained, pairs in groupby(zip(ids, supervised, strict=True), key=lambda pair: pair[1]):
        run = tokenizer.decode([token for token, _ in pairs], skip_special_tokens=False)
        text += run.join(MARKS) if trained else run
    return text
