"""RARO's parts inside verl: its configuration, data set, batches, advantages and policy loss; a scripted server."""

import asyncio

import numpy as np
import pytest
import torch

from llm_rl.core import clipped_surrogate
from llm_rl.integrations.verl.rows import both_roles, stored_row, write_parquet
from llm_rl.integrations.verl.scoring import encode_score
from llm_rl.raro import Pair, PolicyRows, Prompts, RaroConfig, joint_loss, role_advantages
from tests.helpers.drawn import first_seed

pytest.importorskip("verl", reason="verl is not installed, see docs/raro.md")

from verl import DataProto
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.trainer.ppo.reward import load_reward_manager
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.dataset.rl_dataset import RLHFDataset

from llm_rl.integrations.verl import advantages as advantages  # registers the estimator
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.verl_roll_outs import LIMIT, ROWS, advantages_of, configuration, question_row


def test_verl_accepts_the_configuration(config):
    assert need_reference_policy(config) and not need_critic(config)
    validate_config(config, use_reference_policy=True, use_critic=False)


def batch_of(tokenizer, rows, texts, attached=(), cut=()):
    """The batch that verl passes on for completions of rows; those numbered in `cut` fill the limit."""
    prompts = [tokenizer.apply_chat_template(row["prompt"], return_dict=False) for row in rows]
    responses = []
    for number, text in enumerate(texts):
        ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        responses.append((ids[:-1] * LIMIT)[:LIMIT] if number in cut else ids)
    width, pad = max(map(len, prompts)), tokenizer.pad_token_id
    tensors = {
        "prompts": torch.tensor([[pad] * (width - len(ids)) + ids for ids in prompts]),
        "responses": torch.tensor([ids + [pad] * (LIMIT - len(ids)) for ids in responses]),
        "attention_mask": torch.tensor(
            [
                [0] * (width - len(prompt)) + [1] * (len(prompt) + len(ids)) + [0] * (LIMIT - len(ids))
                for prompt, ids in zip(prompts, responses, strict=True)
            ]
        ),
    }
    columns = {name: np.array([row[name] for row in rows], dtype=object) for name in ("data_source", "extra_info")}
    if attached:
        columns["tool_extra_fields"] = np.array([{"raro": fields} for fields in attached], dtype=object)
    return DataProto.from_dict(tensors=tensors, non_tensors=columns)


def score(config, tokenizer, batch):
    """The scores of rows as verl's reward worker gets them: a manager loaded by the configuration, a row at a time."""

    async def run():
        manager = load_reward_manager(config, tokenizer)
        return await asyncio.gather(*(manager.run_single(batch[n : n + 1]) for n in range(len(batch))))

    return asyncio.run(run())


def critique(text, expert_first=True, truncated=False):
    return {"text": text, "expert_first": expert_first, "truncated": truncated}


def test_critic_rows_of_a_batch_in_both_orders(config, tokenizer):
    pair = Pair("q", "0 and one?", "1", "one", 0)
    texts = ["[Answer 1]", "[Answer 2]", "[Tie]", "answer 1"]
    rows = [stored_row(pair, first, 0, "train", Prompts()) for first in (True, False) for _ in texts]
    found = score(config, tokenizer, batch_of(tokenizer, rows, texts * 2))
    assert [one["reward_score"] for one in found] == pytest.approx([3, 2, 2.55, 2, 2, 3, 2.55, 2])
    extra = [one["reward_extra_info"] for one in found]
    assert [one["counted"] for one in extra] == [1, 1, 1, 0] * 2
    assert [one["right"] for one in extra] == [1, 0, 0, 0, 0, 1, 0, 0]
    assert [one["tie"] for one in extra] == [0, 0, 1, 0] * 2
    other = configuration("reward.reward_kwargs.tau_crit=0.25")
    assert score(other, tokenizer, batch_of(tokenizer, rows[:4], texts))[2]["reward_score"] == 2.25


def test_policy_rows_of_a_batch(config, tokenizer):
    judged = [
        [critique("[Answer 2]")],
        [critique("[Answer 2]", expert_first=False)],
        [critique("[Answer 1]", expert_first=False), critique("[Tie]"), critique("none")],
        [critique("none")],
        [critique("[Answer 2]", truncated=True)],
        [],
        [critique("[Answer 2]")],
    ]
    texts = ["one", "<REASONING>hm</REASONING>one", "one", "one", "one", "<REASONING>hm", "one"]
    batch = batch_of(
        tokenizer, [question_row("policy")] * 7, texts, [{"critiques": critiques} for critiques in judged], cut=[6]
    )
    found = score(config, tokenizer, batch)
    assert [one["reward_score"] for one in found] == pytest.approx([1, 0, 0.8, 0, 0, 0, 0])
    assert [one["reward_extra_info"]["counted"] for one in found] == [1, 1, 1, 0, 0, 1, 0]
    assert len({frozenset(one["reward_extra_info"]) for one in found}) == 1


def test_rows_that_another_agent_ran(config, tokenizer):
    with pytest.raises(ValueError, match="without critiques; keep its agent_name 'raro'"):
        score(config, tokenizer, batch_of(tokenizer, [question_row("policy")], ["one"]))
    with pytest.raises(ValueError, match="no answer of the policy"):
        score(config, tokenizer, batch_of(tokenizer, [question_row("critic")], ["[Tie]"]))


def test_verl_reads_the_parquet_file(config, tokenizer, tmp_path):
    rows = both_roles(PolicyRows(ROWS, Prompts()), "train", seed=0)
    write_parquet(tmp_path / "train.parquet", rows)
    data = RLHFDataset(str(tmp_path / "train.parquet"), tokenizer, config.data)
    assert len(data) == len(rows)
    for read, row in zip(data, rows, strict=False):
        assert read["raw_prompt"] == row["prompt"]
        assert all(read[name] == row[name] for name in ("agent_name", "extra_info", "reward_model", "data_source"))


# Advantages and loss


@pytest.mark.parametrize("mode", ["seq-mean-token-mean", "token-mean"])
def test_verl_computes_the_joint_loss(mode):
    """verl's advantages, then its clipped loss of a whole mini-batch, against `joint_loss`; two rows are left out."""
    config = configuration(f"actor_rollout_ref.actor.loss_agg_mode={mode}")
    is_critic = torch.tensor([False] * 4 + [True] * 12)
    groups = ["p"] * 4 + ["c1"] * 4 + ["c2"] * 4 + ["c3"] * 4
    rewards = torch.tensor([0, 1, 0.6, 0, 1, 0, 0.55, 1, 0.55, 0.55, 0.55, 0.55, 1, 1, 0, 1])
    valid = torch.ones(16, dtype=torch.bool)
    valid[[1, 9]] = False
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    loss_type = "grpo" if mode == "seq-mean-token-mean" else "dapo"

    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        order, lengths = torch.randperm(16, generator=generator), torch.randint(1, 8, (16, 1), generator=generator)
        old = -torch.rand(16, 7, generator=generator)
        return order, lengths, old, old + 0.2 * torch.randn(16, 7, generator=generator)

    def expected(seed):
        _, lengths, old, new = drawn(seed)
        advantages = role_advantages(rewards.reshape(4, 4), valid.reshape(4, 4)).reshape(16, 1)
        surrogate = clipped_surrogate(new, old, advantages, 0.2, 0.2).objective
        assert (new - old).exp().max() < actor.clip_ratio_c  # so that verl's second clip does not act
        mask = (torch.arange(7) < lengths) & valid.unsqueeze(1)
        return joint_loss(surrogate, None, mask, is_critic, RaroConfig(1 / 9, 8 / 9, 0.0, loss_type))

    seed = first_seed(lambda seed: min(abs(expected(seed).policy), abs(expected(seed).critic)) > 0.01)
    order, lengths, old, new = drawn(seed)
    mask = (torch.arange(7) < lengths) & valid.unsqueeze(1)
    scores = torch.zeros(16, 7)
    roles = ["critic" if critic else "policy" for critic in is_critic]
    scores[torch.arange(16), lengths.squeeze(1) - 1] = torch.tensor(
        [encode_score(role, reward) for role, reward in zip(roles, rewards.tolist(), strict=True)]
    )
    data = DataProto.from_dict(
        tensors={"token_level_rewards": scores[order], "response_mask": mask[order].long()},
        non_tensors={"uid": np.array([groups[place] for place in order], dtype=object)},
    )
    data = compute_advantage_for_multi_trajectories(
        data,
        batch_keys=[f"{groups[place]}_{place}_0" for place in order],
        adv_estimator=config.algorithm.adv_estimator,
        config=config.algorithm,
    )
    actor.global_batch_info.update(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=16)
    loss, _ = get_policy_loss_fn("vanilla")(
        old_log_prob=old[order],
        log_prob=new[order],
        advantages=data.batch["advantages"],
        response_mask=mask[order],
        loss_agg_mode=mode,
        config=actor,
    )
    torch.testing.assert_close(loss, expected(seed).loss)


def test_what_is_left_out_changes_no_other_advantage(config):
    """Rewards 0, 1 of a group of three: ±1/√2 (+1e-4), times λ_pol · 4 of all / 2 of the role."""
    mask = torch.tensor([[1, 1], [1, 0], [0, 0], [1, 1]])
    scores = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.6, 0.0], [0.0, 2.55]])
    found = advantages_of(config, scores, mask, ["a", "a", "a", "b"])
    size = 0.5 / (0.5**0.5 + 1e-4) * (1 / 9) * 4 / 2
    torch.testing.assert_close(found, torch.tensor([[-size, -size], [size, 0], [0, 0], [0, 0]]))


def test_configurations_that_have_no_weights(config):
    one = torch.ones(1, 1)
    refused("use_kl_in_reward=False", lambda: advantages_of(config, one * 1.5, one, ["a"]))
    with pytest.raises(ValueError, match="loss_agg_mode is 'token-sum'"):
        advantages_of(configuration("actor_rollout_ref.actor.loss_agg_mode=token-sum"), one, one, ["a"])
    refused(r"algorithm\.raro is missing", lambda: advantages_of(configuration("~algorithm.raro"), one, one, ["a"]))
