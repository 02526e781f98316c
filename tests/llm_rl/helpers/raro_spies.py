"""What a RARO run does inside, kept as it goes by."""

from typing import Any, NamedTuple

from llm_rl.raro import RAROTrainer


class Call(NamedTuple):
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    result: Any


def spy(owner: Any, name: str) -> list[Call]:
    """The calls of a method, from now on."""
    calls: list[Call] = []
    original = getattr(owner, name)

    def calling(*arguments: Any, **named: Any) -> Any:
        calls.append(Call(arguments, named, original(*arguments, **named)))
        return calls[-1].result

    setattr(owner, name, calling)
    return calls


def keep_rewards(run: RAROTrainer) -> dict[bool, list[float | None]]:
    """The rewards of the policy's (False) and of the critic's completions (True), as advantages are made from them."""
    kept: dict[bool, list[float | None]] = {False: [], True: []}
    original = run._with_advantages

    def keeping(samples: Any, rewards: Any, size: int, *, is_critic: bool) -> Any:
        kept[is_critic] += rewards
        return original(samples, rewards, size, is_critic=is_critic)

    run._with_advantages = keeping  # type: ignore[method-assign]
    return kept
