"""Arguments of conversations of several turns, with tools or without."""

from dataclasses import dataclass
from typing import Literal

from llm_rl.core._checks import check_choice, check_count, check_positive
from llm_rl.core._options import option
from llm_rl.rollout.arguments import RolloutArguments
from llm_rl.training.arguments import refuse_idle

EpisodeAs = Literal["sample", "turns"]


@dataclass
class EpisodeArguments(RolloutArguments):
    """Arguments of `EpisodeTrainer`; see docs/tools.md."""

    max_turns: int = option(1, "Turns of the model in a conversation, at most; for tools and next_turn.")
    episode_as: EpisodeAs | None = option(
        None, "A conversation is one training sample, or one a turn (turns, the default of next_turn)."
    )
    max_result_tokens: int = option(256, "Longest result of a tool in tokens; cut behind.")
    tool_timeout: float | None = option(None, "Seconds until a tool counts as not answering; None: no limit.")
    show_supervised: bool = option(True, "Print the first conversation of a run, with marks around what is trained on.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_turns", "max_result_tokens"):
            check_count(name, getattr(self, name))
        if self.episode_as is not None:
            check_choice("episode_as", self.episode_as, EpisodeAs)
            if self.max_turns == 1:
                raise ValueError(f"episode_as={self.episode_as!r} does nothing while max_turns is 1; set max_turns")
        if self.tool_timeout is not None:
            check_positive("tool_timeout", self.tool_timeout)
        refuse_idle(
            self, [("max_result_tokens tool_timeout", self.max_turns > 1, "while max_turns is 1; set max_turns")]
        )
