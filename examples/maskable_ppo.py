"""MaskablePPO of sb3-contrib learns 4×4 Sudoku in one to four minutes on one core.

    pip install "sudoku-dllm[agents]"
    python examples/maskable_ppo.py

The agent sees which digits are legal in which cell (n³ bits, the action mask) and is paid as `Sudoku-v0` pays: 1 for
the right digit in a definite cell, 0 for one that is only right, and the end for a wrong one. It is tested on puzzles
whose solution grids never occur in training. There are 288 grids of size 4; since all of them are images of only two
under the symmetries of Sudoku, the held-out grids are new to the agent but not new in kind.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv
from transformers import HfArgumentParser

from sudoku_env import PuzzlePool, Puzzles, generate, sample_legal


@dataclass
class Arguments:
    """Arguments of `maskable_ppo.py`."""

    seed: int = field(default=0, metadata={"help": "Random seed of the agent; puzzles and split stay the same."})
    split_seed: int = field(
        default=1, metadata={"help": "Random seed of the held-out grids; 0 was used to choose the settings."}
    )
    total_steps: int = field(default=400_000, metadata={"help": "Environment steps of training."})
    puzzles: int = field(default=50_000, metadata={"help": "Puzzles before the held-out ones are taken away."})
    clues_low: int = field(default=5, metadata={"help": "Fewest clues of a puzzle."})
    clues_high: int = field(default=7, metadata={"help": "Most clues of a puzzle."})
    held_out_grids: int = field(default=58, metadata={"help": "Solution grids, of 288, that only the test sees."})
    test_puzzles: int = field(default=500, metadata={"help": "Held-out puzzles to solve, all different."})
    num_envs: int = field(default=32, metadata={"help": "Environments stepped together."})
    width: int = field(default=256, metadata={"help": "Width of the two hidden layers."})
    learning_rate: float = field(default=1e-3, metadata={"help": "Rate at the start; it falls to zero linearly."})
    gamma: float = field(default=0.2, metadata={"help": "Discount; definite cells pay at once, so a low one will do."})
    entropy: float = field(default=0.003, metadata={"help": "Weight of the entropy bonus."})


class LegalMoves(gymnasium.Wrapper[NDArray[np.int8], int, NDArray[np.uint8], int]):
    """Observe the action mask, int8 `(n³,)`: what is still possible where."""

    def __init__(self, env: gymnasium.Env[NDArray[np.uint8], int]) -> None:
        super().__init__(env)
        self.observation_space = spaces.MultiBinary(env.unwrapped.size**3)

    def reset(self, **arguments: Any) -> tuple[NDArray[np.int8], dict[str, Any]]:
        """Start an episode."""
        _, info = self.env.reset(**arguments)
        return info["action_mask"], info

    def step(self, action: int) -> tuple[NDArray[np.int8], float, bool, bool, dict[str, Any]]:
        """Write a digit."""
        _, reward, terminated, truncated, info = self.env.step(action)
        return info["action_mask"], float(reward), terminated, truncated, info


def make_env(boards: NDArray[np.uint8]) -> LegalMoves:
    """4×4 Sudoku that draws from these boards."""
    return LegalMoves(gymnasium.make("sudoku_env:Sudoku-v0", source=PuzzlePool(Puzzles.of(boards))))


def solved_share(choose: Callable[[NDArray[np.int8]], int], boards: NDArray[np.uint8]) -> float:
    """Share of the boards that a choice of actions fills without a wrong digit, one attempt each."""
    env, solved = make_env(boards), 0
    for index in range(len(boards)):
        mask, _ = env.reset(options={"index": index})
        over = False
        while not over:
            mask, _, over, _, info = env.step(choose(mask))
        solved += not (info["error"] or info["illegal"])
    return solved / len(boards)


args = HfArgumentParser(Arguments).parse_args_into_dataclasses()[0]
torch.set_num_threads(1)

drawn = generate(args.puzzles, size=4, clues=(args.clues_low, args.clues_high), rule="singles", seed=0)
grids, grid_of = np.unique(drawn.solutions, axis=0, return_inverse=True)
split = np.random.default_rng(args.split_seed)
held_out = np.isin(grid_of, split.permutation(len(grids))[: args.held_out_grids])
train = drawn.boards[~held_out]
test = split.permutation(np.unique(drawn.boards[held_out], axis=0))[: args.test_puzzles]
print(
    f"{len(train)} training puzzles of {len(np.unique(grid_of[~held_out]))} grids, {len(test)} test puzzles of others"
)

envs = DummyVecEnv([lambda share=train[start :: args.num_envs]: make_env(share) for start in range(args.num_envs)])
agent = MaskablePPO(
    "MlpPolicy",
    envs,
    seed=args.seed,
    n_steps=64,
    batch_size=512,
    n_epochs=4,
    learning_rate=lambda remaining: args.learning_rate * remaining,
    gamma=args.gamma,
    ent_coef=args.entropy,
    policy_kwargs={"net_arch": [args.width] * 2, "activation_fn": torch.nn.ReLU},
)


def greedy(mask: NDArray[np.int8]) -> int:
    """The agent's most probable legal action."""
    return int(agent.predict(mask, action_masks=mask, deterministic=True)[0])


rng = np.random.default_rng(args.seed)
print(f"solved by random legal actions: {solved_share(lambda mask: int(sample_legal(mask, rng)), test):.1%}")
print(f"solved by the untrained agent:  {solved_share(greedy, test):.1%}")
agent.learn(args.total_steps)
print(f"solved by the trained agent:    {solved_share(greedy, test):.1%}")
print(f"and of its training puzzles:    {solved_share(greedy, train[: args.test_puzzles]):.1%}")
