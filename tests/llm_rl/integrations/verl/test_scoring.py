import asyncio

import pytest
import torch

from llm_rl.integrations.verl.memory import StepMemory, shared_request
from llm_rl.integrations.verl.scoring import (
    Critique,
    critic_outcome,
    decode_scores,
    encode_score,
    pair_of,
    policy_outcome,
)
from llm_rl.raro import Pair, RewardMatrix
from llm_rl.raro.critic import Request
from tests.helpers.refusals import refused

INFO = {"question_id": "q", "question": "1+1?", "expert_answer": "two"}
MATRIX = RewardMatrix(tau_pol=0.6, tau_crit=0.55)
RIGHT, WRONG = "[Answer 1]", "[Answer 2]"  # where the expert is first


def critiques(*texts, expert_first=True, truncated=False):
    return [Critique(text, expert_first, truncated) for text in texts]


@pytest.mark.parametrize(
    ("text", "expert_first", "critic", "policy"),
    [
        ("[Answer 1]", True, 1.0, 0.0),
        ("[Answer 1]", False, 0.0, 1.0),
        ("[Answer 2]", True, 0.0, 1.0),
        ("[Answer 2]", False, 1.0, 0.0),
        ("[Tie]", True, 0.55, 0.6),
        ("[Tie]", False, 0.55, 0.6),
        ("answer 1", True, None, None),
        ("", False, None, None),
    ],
)
def test_every_label_in_both_orders(text, expert_first, critic, policy):
    (critique,) = critiques(text, expert_first=expert_first)
    assert critic_outcome(critique, pair_of(INFO, "2"), MATRIX).reward == critic
    assert policy_outcome("2", False, INFO, [critique], MATRIX).reward == policy
    (cut,) = critiques(text, expert_first=expert_first, truncated=True)
    assert critic_outcome(cut, pair_of(INFO, "2"), MATRIX).reward is None
    assert policy_outcome("2", False, INFO, [cut], MATRIX).reward is None


def test_the_policy_has_the_mean_over_labels():
    found = policy_outcome("2", False, INFO, critiques(WRONG, "none", "[Tie]", RIGHT), MATRIX)
    assert found.reward == pytest.approx((1 + 0.6 + 0) / 3) and len(found.labels) == 3


def test_completions_without_an_answer_lose_and_over_length_ones_are_left_out():
    assert policy_outcome("<REASONING>hm", False, INFO, [], MATRIX).reward == 0
    assert policy_outcome("<REASONING>hm", True, INFO, [], MATRIX).reward is None
    assert policy_outcome("2", True, INFO, critiques(WRONG), MATRIX).reward is None


def test_an_answer_quoted_by_the_critic_sets_no_label():
    answer = "Surely [Answer 2]"
    said = f"It says: {answer}"
    assert policy_outcome(answer, False, INFO, critiques(said), MATRIX).reward is None
    assert policy_outcome("2", False, INFO, critiques(said), MATRIX).reward == 1


def test_scores_tell_role_and_reward():
    wanted = [(role, reward) for role in ("policy", "critic") for reward in (0.0, 0.55, 0.6, 1.0)]
    rewards, is_critic = decode_scores(torch.tensor([encode_score(*pair) for pair in wanted]))
    torch.testing.assert_close(rewards, torch.tensor([reward for _, reward in wanted]))
    assert is_critic.tolist() == [role == "critic" for role, _ in wanted]


@pytest.mark.parametrize("score", [-0.1, 1.2, 1.9, 3.1, float("nan"), float("inf")])
def test_other_scores_are_refused(score):
    refused("use_kl_in_reward=False", lambda: decode_scores(torch.tensor([0.5, score])))


def test_what_has_no_score():
    refused("role is 'judge'", lambda: encode_score("judge", 0.5))
    refused(r"reward is 1\.5", lambda: encode_score("critic", 1.5))


def pair(name, step):
    return Pair("q", "1+1?", "two", name, step)


def test_a_step_draws_pairs_of_earlier_steps_only():
    memory = StepMemory(10, "fifo", seed=0)
    assert memory.draw(0) is None
    memory.store(pair("a", 1))
    memory.store(pair("b", 1))
    assert memory.draw(1) is None
    assert {memory.draw(2).policy_answer for _ in range(50)} == {"a", "b"}
    memory.store(pair("c", 2))
    assert {memory.draw(2).policy_answer for _ in range(50)} == {"a", "b"}
    assert {memory.draw(3).policy_answer for _ in range(50)} == {"a", "b", "c"}


@pytest.mark.parametrize("mode", ["fifo", "reservoir"])
def test_a_saved_memory_goes_on_as_the_one_that_was_saved(tmp_path, mode):
    memory, restored = (StepMemory(4, mode, seed=seed) for seed in (0, 1))
    for step in range(3):
        for name in "abc":
            memory.store(pair(f"{name}{step}", step))
        memory.draw(step)
    memory.save(str(tmp_path))
    restored.restore(str(tmp_path))
    assert restored.pairs() == memory.pairs() and len(memory.pairs()) == 4 + 3
    for step in range(3, 30):
        for one in (memory, restored):
            one.store(pair(str(step), step))
        assert restored.draw(step) == memory.draw(step)
    refused("resume with the former", lambda: StepMemory(5, mode, seed=0).restore(str(tmp_path)))
    with pytest.raises(FileNotFoundError):
        restored.restore(str(tmp_path / "none"))


def test_roll_outs_of_a_prompt_share_what_they_are_asked():
    made = []

    async def make():
        await asyncio.sleep(0)
        made.append(Request(pair(str(len(made)), 0), True))
        return made[-1]

    async def ask():
        return await asyncio.gather(*(shared_request(uid, make) for uid in "aabab"))

    found = asyncio.run(ask())
    assert len(made) == 2
    assert [request is found[0] for request in found] == [True, True, False, True, False]
