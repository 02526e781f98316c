"""One batch for both roles on verl: Generate → Mix → Judge. Source: docs/raro.md, 'On verl'.

The policy answers; each answer is mixed with a pair of an earlier step; the critic judges both, `rollout.n` times each;
and both roles are trained on all of that, as with `critic_batch="mixed"` of `RAROTrainer`. verl makes the manager where
`actor_rollout_ref.rollout.agent.agent_loop_manager_class` names it.
"""

import asyncio
from typing import Any

import ray
from tensordict import TensorDict
from verl.experimental.agent_loop import AgentLoopOutput
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ


class MixedBatchWorker(AgentLoopWorkerTQ.__ray_metadata__.modified_class):
    """verl's worker, but that each completion of a training row's roll-out has a reward of its own.

    verl tells groups by `uid`, and what belongs to a prompt of the data set by what of it comes before the first `_`.
    """

    async def _run_agent_loop(self, sampling_params: Any, trajectory: Any, **kwargs: Any) -> Any:
        return await super()._run_agent_loop(sampling_params, trajectory, mixed=not trajectory["validate"], **kwargs)

    async def _agent_loop_postprocess(
        self, output: AgentLoopOutput | list[AgentLoopOutput], validate: bool, *, mixed: bool, **kwargs: Any
    ) -> None:
        places: dict[str, int] = {}
        posts = []
        for one in output if isinstance(output, list) else [output]:
            row = kwargs
            if (name := one.extra_fields.pop("group", None)) is not None:
                uid, place = f"{kwargs['uid']}_{name}{kwargs['session_id']}", places.get(name, 0)
                row = {**kwargs, "uid": uid, "session_id": place, "data_source": "raro/critic"}
                places[name] = place + 1
            posts.append(super()._agent_loop_postprocess(one, validate, **row))
        await asyncio.gather(*posts)


class MixedBatchManager(AgentLoopManagerTQ):
    """Makes mixed batches out of the policy's rows alone; a step's batch is one mini-batch.

    Raises:
        ValueError: A mini-batch is not a step's batch.
    """

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        rows, rollouts = config.data.train_batch_size, config.actor_rollout_ref.rollout.n
        whole, given = rows * (1 + 2 * rollouts), config.actor_rollout_ref.actor.ppo_mini_batch_size
        if given != whole:
            raise ValueError(
                f"ppo_mini_batch_size={given} is not a step's mixed batch: each of the policy's {rollouts} answers to "
                f"{rows} questions is judged {2 * rollouts} times; set actor_rollout_ref.actor.ppo_mini_batch_size="
                f"{whole}, data.train_batch_size * (1 + 2 * rollout.n)"
            )
        super().__init__(config, *args, **kwargs)
        self.agent_loop_workers_class = ray.remote(MixedBatchWorker)

    def generate_sequences(self, prompts: TensorDict) -> None:
        """As verl's manager, of rows of the policy; of both roles in validation, which is as without a mixed batch.

        A training row of the critic is a `ValueError`.
        """
        if "validate" not in prompts and any(info["role"] != "policy" for info in prompts["extra_info"]):
            raise ValueError(
                "a training row is the critic's, but mixed batches take the policy's alone; write the rows by "
                "`python -m scripts.raro.make_verl_data --critic_batch mixed`"
            )
        super().generate_sequences(prompts)
