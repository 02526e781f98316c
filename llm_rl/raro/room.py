"""Which prompts leave room for a completion: what the budget of a batch and the model's positions allow."""

from dataclasses import dataclass

REMEDIES = {
    "policy": "max_completion_length",
    "critic": "max_critic_completion_length (or max_completion_length, where that is not set)",
}


@dataclass(frozen=True)
class Room:
    """Bounds on one sequence, prompt and longest completion.

    Attributes:
        max_tokens: `max_tokens_per_batch`.
        positions: Positions of the model; None where it has no bound.
    """

    max_tokens: int
    positions: int | None

    def holds(self, prompt: int, completion: int) -> bool:
        """Whether so many tokens of a prompt and of a completion fit."""
        return prompt + completion <= min(self.max_tokens, self.positions or self.max_tokens)

    def check(self, role: str, prompt: int, completion: int, question: str) -> None:
        """Whether a question can be asked at all.

        Args:
            role: "policy" or "critic".
            prompt: Tokens of its prompt, the critic's without an answer of the policy.
            completion: Tokens of its longest completion.
            question: The question's text.

        Raises:
            ValueError: It does not fit.
        """
        if self.holds(prompt, completion):
            return
        held = "" if role == "policy" else ", which holds the expert's answer and none of the policy's yet,"
        raise ValueError(
            f"the {role}'s prompt{held} has {prompt} tokens and its completion up to {completion}, but "
            f"max_tokens_per_batch is {self.max_tokens} and the model's positions are {self.positions}; raise "
            f"max_tokens_per_batch, lower {REMEDIES[role]}, or leave out the question {question[:80]!r}"
        )
