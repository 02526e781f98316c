"""Roll-outs of RARO's agent loop in verl's own workers, with a server that says what a test says.

Tests that need it are skipped where verl is not installed.
"""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from llm_rl.integrations.verl.rows import critic_row, policy_row
from llm_rl.raro import PolicyRows, Prompts
from tests.llm_rl.helpers.tiny_raro import special_tokenizer

pytest.importorskip("verl", reason="verl is not installed, see docs/raro.md")

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker, DictConfigWrap, _agent_loop_registry
from verl.trainer.ppo.reward import load_reward_manager
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from tests.llm_rl.helpers.tiny_grpo import with_template

CONFIGS = Path(__file__).parents[3] / "configs" / "verl"
ROWS = [{"question": f"{n} and one?", "answer": f"<REASONING>add</REASONING>{n + 1}"} for n in range(4)]
LIMIT = 48


def configuration(*changes):
    with initialize_config_dir(str(CONFIGS), version_base=None):
        return compose("raro", [f"data.max_response_length={LIMIT}", *changes])


def chat_tokenizer(*special):
    """`tag_tokenizer` with a chat template, and texts that are special tokens."""
    template = "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}"
    return with_template(special_tokenizer(special), template)


def question_row(role, number=0, split="train", **changes):
    rows = PolicyRows(ROWS, Prompts())
    make = policy_row if role == "policy" else critic_row
    return make(rows[number], 0, split, **changes)


class ScriptedServer:
    """Says what a function of role, text and count says; "…" at the end is no end token."""

    def __init__(self, tokenizer, says):
        self.tokenizer, self.says, self.seen = tokenizer, says, Counter()
        self.asked = []

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        text = self.tokenizer.decode(prompt_ids)
        role = "critic" if "<answer_1>" in text else "policy"
        said = self.says(role, text, self.seen[role])
        self.seen[role] += 1
        self.asked.append((role, text))
        ids = self.tokenizer(said.removesuffix("…"))["input_ids"]
        full = (ids * LIMIT)[:LIMIT] if said.endswith("…") else [*ids, self.tokenizer.eos_token_id]
        return TokenOutput(token_ids=full, log_probs=[-0.5] * len(full), stop_reason="completed")


def roll_out(config, tokenizer, says, rows, uids=None, step=1, **options):
    """Outputs and scores of rows, all at once, by verl's own scoring of an agent loop that its configuration names."""
    server = ScriptedServer(tokenizer, says)
    (named,) = OmegaConf.load(CONFIGS / "agent_loops.yaml")
    assert named.name == rows[0]["agent_name"] == config.actor_rollout_ref.rollout.agent.default_agent_loop

    async def one(worker, row, uid):
        loop = instantiate(
            named, trainer_config=DictConfigWrap(config), server_manager=server, tokenizer=tokenizer, processor=None,
            dataset_cls=RLHFDataset, data_config=DictConfigWrap(config.data), **options,
        )  # fmt: skip
        given = {**row, "raw_prompt": row["prompt"], "uid": uid, "global_steps": step}
        output = await loop.run({"temperature": 1.0}, **given)
        await worker._compute_score([output], given)
        return output

    async def run():
        score_one = load_reward_manager(config, tokenizer).run_single
        worker = object.__new__(AgentLoopWorker)
        worker.processor, worker.mm_processor_kwargs = None, {}
        worker.reward_loop_worker_handles = [SimpleNamespace(compute_score=SimpleNamespace(remote=score_one))]
        names = uids or [str(number) for number in range(len(rows))]
        return await asyncio.gather(*(one(worker, row, uid) for row, uid in zip(rows, names, strict=True)))

    outputs = asyncio.run(run())
    scores = [
        {"reward_score": output.reward_score, "reward_extra_info": output.extra_fields["reward_extra_info"]}
        for output in outputs
    ]
    return outputs, scores, server


def mixed_batch(config, tokenizer, says, row, monkeypatch, step):
    """What verl's trainer finds of a row of the policy in a mixed batch: the fields of each completion, by its key."""
    from llm_rl.integrations.verl.mixed import MixedBatchWorker

    found = {}

    async def put(keys, fields, tags, partition_id):
        found.update({key: fields[place] for place, key in enumerate(keys)})

    monkeypatch.setattr("verl.trainer.ppo.v1.agent_loop_tq.tq.async_kv_batch_put", put)
    monkeypatch.setitem(_agent_loop_registry, "raro", OmegaConf.load(CONFIGS / "agent_loops.yaml")[0])
    worker = object.__new__(MixedBatchWorker)
    worker.config, worker.tokenizer, worker.dataset_cls = config, tokenizer, RLHFDataset
    worker.processor, worker.hf_model_type, worker.tools, worker.distillation_enabled = None, None, [], False
    worker.mm_processor_kwargs, worker.llm_client = {}, ScriptedServer(tokenizer, says)
    trajectory = {"step": step, "sample_index": 0, "rollout_n": 0, "validate": False}

    async def run():
        score_one = load_reward_manager(config, tokenizer).run_single
        worker.reward_loop_worker_handles = [SimpleNamespace(compute_score=SimpleNamespace(remote=score_one))]
        given = {**row, "raw_prompt": row["prompt"], "uid": f"u{step}", "global_steps": step}
        sessions = range(config.actor_rollout_ref.rollout.n)
        await asyncio.gather(
            *(worker._run_agent_loop({}, trajectory, trace=False, session_id=one, **given) for one in sessions)
        )

    asyncio.run(run())
    return found


def advantages_of(config, scores, mask, uids):
    """What verl's trainer computes by our estimator."""
    data = DataProto.from_dict(
        tensors={"token_level_rewards": scores, "response_mask": mask},
        non_tensors={"uid": np.array(uids, dtype=object)},
    )
    keys = [f"{uid}_{place}_0" for place, uid in enumerate(uids)]
    return compute_advantage_for_multi_trajectories(
        data, batch_keys=keys, adv_estimator="raro", config=config.algorithm
    ).batch["advantages"]
