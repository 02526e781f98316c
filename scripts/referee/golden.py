"""What the authors' code makes of a few tokens: the loss and its gradient, for tests to hold ours to.

    python -m scripts.referee.golden CLONES tests/scripts/referee/golden.json

CLONES has a clone of each repository of `SOURCES` under its name. Functions are taken out of their files by name, at a
fixed commit, and run on the tiny model; nothing else of the files is run, so that no trainer has to be installed.
"""

import __future__

import ast
import json
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from accelerate.utils import set_seed
from torch import Tensor

from llm_rl.core import selective_log_softmax
from scripts.referee.objectives.copies import Completions, trajectory_copies
from scripts.referee.tiny import TinyModel

PROMPT, MASK, SEED = 3, 5, 11
TOKENS = torch.tensor([[0, 1, 2, 3, 0, 2, 1], [0, 1, 2, 1, 2, 4, 4], [3, 2, 0, 2, 2, 0, 3], [3, 2, 0, 1, 4, 4, 4]])
COUNTED = torch.tensor([4, 3, 4, 2])
"""So many tokens of each completion count: up to its first 4, which ends a text."""
PASSES = torch.tensor([[2, 0, 3, 1], [0, 1, 1, 2], [0, 1, 2, 3], [2, 2, 1, 0]])
ORDERS = torch.tensor([[2, 0, 3, 1], [0, 1, 3, 2], [0, 1, 2, 3], [3, 2, 1, 0]])
REWARDS = torch.tensor([[1.0, 0.0, 0.5, 0.25]], dtype=torch.float64)
CLOSE = (0.02, 0.03)
"""A range so close that the ratios of whole completions are clipped."""
PHASES = {"new": 0.0, "old": 0.15, "reference": 0.4}


def completions(all_count: bool = False, passes: Tensor = PASSES) -> Completions:
    """Four completions of four tokens, behind prompts of three.

    Args:
        all_count: Whether tokens behind the end count too.
        passes: int64 `(4, 4)`, the pass that wrote each token.
    """
    position = torch.arange(TOKENS.shape[1]) - PROMPT
    completed = (position >= 0).expand(TOKENS.shape)
    counted = completed if all_count else completed & (position < COUNTED.unsqueeze(1))
    steps = torch.full_like(TOKENS, -1)
    steps[:, PROMPT:] = passes
    return Completions(TOKENS, completed, counted, steps)


def model(which: str) -> TinyModel:
    """The model "new", which is trained, "old", which sampled, or "reference"."""
    return TinyModel(TOKENS.shape[1], MASK + 1, MASK + 1, PHASES[which])


@dataclass(frozen=True)
class Source:
    """Where functions stand.

    Attributes:
        repository: On GitHub, owner and name.
        commit: The commit.
        file: The file.
        functions: Their names, the one that makes the loss first.
    """

    repository: str
    commit: str
    file: str
    functions: tuple[str, ...]

    def tree(self, clones: Path) -> ast.Module:
        """The file, parsed."""
        clone = clones / self.repository.partition("/")[2]
        shown = ["git", "-C", str(clone), "show", f"{self.commit}:{self.file}"]
        return ast.parse(subprocess.run(shown, check=True, capture_output=True, text=True).stdout)

    def load(self, clones: Path, names: dict[str, Any]) -> dict[str, Callable[..., Any]]:
        """The functions, without their decorators, in a namespace of `names`.

        Raises:
            ValueError: A function is not in the file.
        """
        space = {"torch": torch, "F": torch.nn.functional, "set_seed": set_seed, "random": random, **names}
        found = {node.name: node for node in ast.walk(self.tree(clones)) if isinstance(node, ast.FunctionDef)}
        for name in self.functions:
            if name not in found:
                raise ValueError(f"{self.file} of {self.repository} has no function {name}; check the commit")
            found[name].decorator_list = []
            run(found[name], space)
        return {name: space[name] for name in self.functions}

    def run_loop(self, clones: Path, assigns: str, names: dict[str, Any]) -> None:
        """Run the outermost loop of the file that assigns a name, in a namespace of `names`.

        Raises:
            ValueError: There is none.
        """
        loops = (node for node in ast.walk(self.tree(clones)) if isinstance(node, ast.For))
        for loop in loops:
            if any(isinstance(node, ast.Name) and node.id == assigns for node in ast.walk(loop)):
                return run(loop, names)
        raise ValueError(f"{self.file} of {self.repository} has no loop with {assigns}; check the commit")


def run(node: ast.stmt, space: dict[str, Any]) -> None:
    """Run a statement in a namespace."""
    code = compile(ast.Module([node], []), "<clone>", "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    exec(code, space)  # nosec B102 # the caller's clones are what this script is to run


ESTIMATE = ("compute_loss", "_get_per_token_logps", "forward_process", "get_logits")
SOURCES = {
    "diffu_grpo": Source(
        "dllm-reasoning/d1", "837888f22c21a5da91a0af2b0d7b19e81d9b47ec", "diffu-grpo/diffu_grpo_trainer.py", ESTIMATE
    ),
    "coupled_grpo": Source(
        "apple/ml-diffucoder",
        "f735e01376b752b70356efe45192f31499bf30dc",
        "src/open_r1/coupled_grpo.py",
        (*ESTIMATE, "selective_log_softmax"),
    ),
    "wd1": Source(
        "xiaohangt/wd1", "08989851e5dd84ac31af04d28f20a93488d66ffb", "wd1/trainers/rev_grpo_trainer.py", ESTIMATE
    ),
    "spg": Source(
        "facebookresearch/SPG",
        "a1c712091aee3fde759bbf73b7850546265cd52d",
        "spg/spg_trainer.py",
        ("compute_loss", "_get_per_seq_logps", "forward_process", "get_logits"),
    ),
    "espo": Source(
        "ML-GSAI/ESPO",
        "b5f2dac4c54073a2f36c00bb28bc754a99730159",
        "espo/espo_trainer.py",
        ("compute_loss", "_get_elbo_mc", "_get_elbo", "get_logits", "forward_process", "compute_approx_kl"),
    ),
    "trace_rl": Source(
        "Gen-Verse/dLLM-RL",
        "10b4fd1cba83e4496c20585dc2fd01dc02f20255",
        "train/rl_llada.py",
        ("forward_process", "prepare_inputs_and_labels_for_text", "collapse_k_unique"),
    ),
    "cj_grpo": Source(
        "yjyddq/EOSER-ASS-RL",
        "5affb4ec0db9d3819175c2011c94e38c74325624",
        "cj-grpo/cj_grpo_trainer_semiar.py",
        ("compute_loss", "_get_per_token_logps", "get_logits"),
    ),
    "just_grpo": Source(
        "LeapLabTHU/JustGRPO",
        "eebe50e71f5b84ec6b3824cb502664577989db1b",
        "grpo.py",
        ("logprob_loss", "compute_group_advantages"),
    ),
    "upo": Source(
        "chunsanHong/UPO",
        "8084c40b0dd7ff464ed4670db509fbf5881afd30",
        "upo_trainer.py",
        ("compute_loss", "_parse_inputs", "_get_extra_logps"),
    ),
    "lightning": Source(
        "SJTU-DENG-Lab/LightningRL", "e4d7d293f3d5b1482cc3597a677af1c1c055ff53", "reward/rl_reward.py", ()
    ),
}


def trainer(functions: dict[str, Callable[..., Any]], **options: Any) -> Any:
    """An object with the functions as methods, and what trainers of TRL have besides."""
    one = type("Trainer", (), functions)()
    one._step, one.num_iterations, one.beta = 0, 2, 0.04
    one.epsilon = one.epsilon_low = one.epsilon_high = 0.2
    one.control = SimpleNamespace(should_evaluate=False)
    one._metrics = defaultdict(lambda: defaultdict(list))
    one.accelerator = SimpleNamespace(gather_for_metrics=lambda value: value)
    one.processing_class = SimpleNamespace(mask_token_id=MASK)
    one.model = SimpleNamespace(training=True, config=SimpleNamespace(name_or_path="LLaDA"))
    one.args = SimpleNamespace(
        num_iterations=2, gradient_accumulation_steps=1, mask_id=MASK, cfg_scale=0.0, p_mask_prompt=0.3, **options
    )
    return one


def inputs_of(advantages: Tensor, **others: Any) -> dict[str, Any]:
    """What trainers of TRL give their loss."""
    counted = completions().counted[:, PROMPT:]
    return {
        "prompt_ids": TOKENS[:, :PROMPT],
        "prompt_mask": torch.ones(len(TOKENS), PROMPT, dtype=torch.long),
        "completion_ids": TOKENS[:, PROMPT:],
        "completion_mask": counted.long(),
        "mask_seeds": [SEED, SEED + 1],
        "advantages": advantages,
        **others,
    }


def shifted(tiny: TinyModel) -> Callable[[Tensor], SimpleNamespace]:
    """The model with the logits of a token one place before it, as a causal model has them."""
    return lambda ids: SimpleNamespace(logits=tiny(ids).logits.roll(-1, dims=1))


def single(tiny: TinyModel) -> Callable[[Tensor], SimpleNamespace]:
    """The model with float32 logits."""
    return lambda ids: SimpleNamespace(logits=tiny(ids).logits.float())


def centred(groups: int = 1) -> Tensor:
    """The rewards less the mean of their group, `(B,)`."""
    rewards = REWARDS.reshape(groups, -1)
    return (rewards - rewards.mean(1, keepdim=True)).flatten()


def leave_one_out() -> Tensor:
    """The rewards less the mean of the others, `(B,)`."""
    return centred() * REWARDS.shape[1] / (REWARDS.shape[1] - 1)


def token_cases(clones: Path) -> Iterator[tuple[str, str, Tensor, TinyModel]]:
    """Name, source, loss and model of the methods whose estimate is one of tokens."""
    twice = TOKENS.expand(2, -1, -1)
    for name in ("diffu_grpo", "coupled_grpo"):
        functions = SOURCES[name].load(clones, {"nanmin": torch.min, "nanmax": torch.max})
        if name == "coupled_grpo":
            functions.pop("selective_log_softmax")
        one, new, wrapped = trainer(functions), model("new"), shifted if name == "coupled_grpo" else lambda tiny: tiny
        with torch.no_grad():
            old, reference = (
                one._get_per_token_logps(wrapped(model(which)), twice, 4, [SEED, SEED + 1])
                for which in ("old", "reference")
            )
        advantages = leave_one_out() if name == "coupled_grpo" else centred()
        inputs = inputs_of(advantages, old_per_token_logps=old, ref_per_token_logps=reference)
        yield name, name, one.compute_loss(wrapped(new), inputs), new
        new, padded = model("new"), inputs["prompt_mask"].clone()
        padded[:, 0] = 0
        yield f"{name}_padded", name, one.compute_loss(wrapped(new), inputs | {"prompt_mask": padded}), new
    functions = SOURCES["wd1"].load(clones, {})
    for groups, name in ((1, "wd1"), (2, "wd1_two_groups")):
        new = model("new")
        yield name, "wd1", trainer(functions).compute_loss(new, inputs_of(centred(groups))), new


def sequence_cases(clones: Path) -> Iterator[tuple[str, str, Tensor, TinyModel]]:
    """The same of the methods whose estimate is one of whole completions."""
    functions = SOURCES["spg"].load(clones, {})
    for name, bound, power in (("spg", "mix", 1.0), ("spg_upper", "eubo", 1.5)):
        options = {"forward_type": "block_random", "num_t": 2, "min_t": 0, "max_t": 1, "block_length": 2}
        options |= {"use_mask_prompt": True, "logp_estimation": bound, "eubo_beta": power, "mix_weight": 0.5}
        one, new = trainer(functions, **options), model("new")
        one.beta = 0.0
        yield name, "spg", one.compute_loss(new, inputs_of(centred(), reward_mask=centred() > 0)), new

    functions = SOURCES["espo"].load(clones, {"nanmin": torch.min, "nanmax": torch.max})
    functions = {key: value for key, value in functions.items() if key not in ("forward_process", "compute_approx_kl")}
    for seed, (low, high) in ((SEED, (0.2, 0.2)), (SEED + 1, CLOSE)):
        one, new, seeds = trainer(functions), model("new"), torch.tensor([[seed], [seed + 2]])
        one.epsilon_low, one.epsilon_high = low, high
        one._step, one.num_mc, one.beta = 1, 1, 0.01
        with torch.no_grad():
            old, reference = (
                one._get_elbo_mc(single(model(which)), TOKENS.expand(2, -1, -1), 4, seeds)
                for which in ("old", "reference")
            )
        inputs = inputs_of(leave_one_out(), old_per_token_logps=old, ref_per_token_logps=reference)
        inputs["mask_seeds"] = seeds.unsqueeze(0)
        yield f"espo_{seed}", "espo", one.compute_loss(single(new), inputs), new


def trajectory_cases(clones: Path) -> Iterator[tuple[str, str, Tensor, TinyModel]]:
    """The same of the methods that follow the sampler."""
    advantages = centred() / REWARDS.std(correction=0)
    for shrink, name in ((1, "trace_rl"), (2, "trace_rl_shrink")):
        training = {"method": "TraceRL", "eps": 0.2, "beta": 0.01, "use_kl_estimator_k3": True, "post_num": None}
        training |= {"max_gen_length": 4, "lower_p": 0.1, "upper_p": 0.9, "shrink": shrink}
        new = model("new")
        names = {
            "config": SimpleNamespace(training=SimpleNamespace(**training)),
            "uni_prompting": lambda pair: (*pair, PROMPT, 0),
            "mask_id": MASK,
            "pad_id": -1,
            "model": new,
        }
        functions = SOURCES["trace_rl"].load(clones, names)
        steps = PASSES.tolist()
        states, labels, scored, paid, _, _ = functions["prepare_inputs_and_labels_for_text"](
            TOKENS, TOKENS, steps, advantages.tolist()
        )
        with torch.no_grad():
            old = selective_log_softmax(model("old")(states).logits, labels)
        paid = torch.tensor(paid, dtype=torch.float64)
        yield name, "trace_rl", functions["forward_process"](states, labels, scored, paid, old), new

    functions = SOURCES["cj_grpo"].load(clones, {"selective_log_softmax": selective_log_softmax})
    one, new = trainer(functions), model("new")
    states = [TOKENS.clone()]
    states[0][:, PROMPT:] = MASK
    taken = [step == PASSES for step in range(4)]
    for step in range(4):
        states.append(states[-1].clone())
        states[-1][:, PROMPT:][taken[step]] = TOKENS[:, PROMPT:][taken[step]]
    with torch.no_grad():
        old, reference = (
            one._get_per_token_logps(model(which), TOKENS, states, taken, 4) for which in ("old", "reference")
        )
    inputs = inputs_of(centred(), reversed_traj=states, reversed_traj_unmask_positions=taken)
    inputs |= {"reversed_traj_old_per_token_logps": old, "reversed_traj_ref_per_token_logps": reference}
    yield "cj_grpo", "cj_grpo", one.compute_loss(new, inputs), new

    functions = SOURCES["just_grpo"].load(clones, {})
    new = model("new")
    losses: list[Tensor] = []
    advantages = functions["compute_group_advantages"](REWARDS.flatten(), 4)
    functions["logprob_loss"](
        new,
        {"advantages": advantages, "generated_ids": TOKENS, "prompt_len": PROMPT, "rewards": REWARDS.flatten()},
        (advantages != 0).sum(),
        accelerator=SimpleNamespace(gather=lambda value: value, backward=losses.append),
        gen_length=4,
        mask_id=MASK,
    )
    yield "just_grpo", "just_grpo", torch.stack(losses).sum(), new


def order_cases(clones: Path) -> Iterator[tuple[str, str, Tensor, TinyModel]]:
    """The same of the method that chooses positions: a score for each, by the first logit of the model."""
    functions, new = SOURCES["upo"].load(clones, {}), model("new")
    copies = trajectory_copies(completions(True, ORDERS), completions(True, ORDERS).steps)
    states = copies.inputs(completions(), MASK).unsqueeze(0)  # (1, B, M, L)
    chosen = copies.scored.long().argmax(-1)[None, :, :, None]
    everything = {
        "inputs_extra_head": states, "topk_and_mask": states, "trajectory": chosen, "trajectory_topk": chosen,
        "trajectory_mask": copies.masked.unsqueeze(0), "sel_indices": torch.arange(4),
    }  # fmt: skip

    def scores(tiny: TinyModel) -> Callable[..., Tensor]:
        return lambda given, mode: tiny(given["x"]).logits[..., 0]

    one = trainer(functions, remasking="extra_head", divergence="KL")
    with torch.no_grad():
        old, reference = (
            one._get_extra_logps(scores(model(which)), **one._parse_inputs(**everything)).reshape(4, -1)
            for which in ("old", "reference")
        )
    advantages = centred() / (REWARDS.std() + 1e-4)
    inputs = inputs_of(advantages, **everything, old_per_token_logps=[old], sel_places=[torch.arange(4)])
    inputs |= {"old_ps": old.sum(1).exp(), "log_ref_probs": reference.sum(1)}
    yield "upo", "upo", one.compute_loss(scores(new), inputs), new


RIGHT = torch.tensor([[True, False, True, True], [True, False, False, False], [False, True, True, False]])
LENGTHS = torch.tensor([[12, 16, 9, 8], [10, 12, 14, 16], [8, 8, 8, 8]])
FORWARDS = torch.tensor([[6, 4, 9, 2], [5, 6, 2, 16], [4, 4, 4, 4]])


def lightning_rewards(clones: Path, right_scale: bool, speed_scale: str) -> list[list[float]]:
    """Rewards of three groups of four, for the two options of LightningRL's configuration."""
    groups = zip(RIGHT.tolist(), LENGTHS.tolist(), FORWARDS.tolist(), strict=True)
    data = [
        {"correctness": right, "response_length": lengths, "num_forwards": forwards}
        for right, lengths, forwards in groups
    ]
    names = {
        "data": data,
        "config": SimpleNamespace(experiment=SimpleNamespace(function="")),
        "OmegaConf": SimpleNamespace(select=lambda config, key, default: default),
        "MISSING": None,
        "acc_norm": right_scale,
        "tpf_norm_mode": speed_scale,
        "tpf_coefficient": 0.1,
        "response_length_list": [],
        "tpf_list": [],
    }
    SOURCES["lightning"].run_loop(clones, "speed_reward_list", names)
    return [group["ground_truth_answer"] for group in data]


def main(clones: Path, output: Path) -> None:
    """Write the numbers of all cases."""
    golden: dict[str, dict[str, Any]] = {}
    for cases in (token_cases, sequence_cases, trajectory_cases, order_cases):
        for name, source, loss, tiny in cases(clones):
            gradient = torch.autograd.grad(loss, list(tiny.parameters()))
            flat = [float(f"{value:.9g}") for value in torch.cat([part.flatten() for part in gradient]).tolist()]
            golden[name] = {**asdict(SOURCES[source]), "value": float(f"{float(loss.detach()):.9g}"), "gradient": flat}
    for right_scale, speed_scale in ((True, "z_score"), (False, "minmax"), (False, "none")):
        rewards = lightning_rewards(clones, right_scale, speed_scale)
        golden[f"lightning_{speed_scale}"] = {**asdict(SOURCES["lightning"]), "rewards": rewards}
    output.write_text(json.dumps(golden, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
