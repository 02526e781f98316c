"""Sudoku as a data set of reasoning-gym: exact clue counts, a curriculum, and answers scored however they are written.

pip install "sudoku-dllm[reasoning-gym]"
python examples/reasoning_gym_data.py
"""

import reasoning_gym
from reasoning_gym.factory import create_curriculum

import sudoku_env.integrations.reasoning_gym  # registers "sudoku_env"  # noqa: F401

data = reasoning_gym.create_dataset(
    "sudoku_env", board=6, min_blanks=0.5, max_blanks=0.6, rule="singles", seed=0, size=3
)
for item in data:
    fenced = f"The grid is\n```\n{item['answer']}\n```"
    print(item["metadata"]["puzzle"], item["metadata"]["clues"], "clues")
    print("  the solution in a fence:", data.score_answer(fenced, item))
    print("  the puzzle again:       ", data.score_answer(item["question"], item))

curriculum = create_curriculum("sudoku_env")
for level in range(4):
    curriculum.set_global_level(level)
    print(curriculum.generate_configuration({"seed": 0, "size": 100}))
