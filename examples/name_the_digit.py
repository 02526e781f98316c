"""A model that sees: it names the digit in the marked cell of a small board, first taught, then for a reward alone.

A 4×4 board is drawn by the environments' renderer with one cell marked, and the answer is one digit. The model is a
LLaVA of about 135,000 weights, built here with its processor. Supervised learning stops early; GRPO goes on with the
reward alone. Both are judged on boards that neither has seen, drawn greedily.

    python examples/name_the_digit.py [--seeds 0 1 2 3 4] [--sft_steps 25] [--rl_steps 120]
"""

import argparse
import statistics
import tempfile
from typing import Any

import numpy as np
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    PrinterCallback,
    TrainingArguments,
    set_seed,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.utils import logging

from llm_rl import GRPOArguments, GRPOTrainer
from llm_rl.rollout.sampling import sample_and_score
from llm_rl.rollout.sft import supervised_trainer
from sudoku_env import generate
from sudoku_env.envs.progress import BoardView
from sudoku_env.envs.rendering import render_rgb

PIXELS, PATCH = 64, 16  # a patch for each cell
WORDS = ["<end>", "<image>", "which", "is", *"1234"]
CHAT = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }} {% endfor %}{% endfor %}is"
)


def make_processor() -> LlavaProcessor:
    """Pictures of 64 × 64 pixels, and a vocabulary of eight words."""
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<end>")
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    size = {"height": PIXELS, "width": PIXELS}
    pictures: Any = CLIPImageProcessorPil(size=size, crop_size=size)
    return LlavaProcessor(
        pictures, tokenizer, patch_size=PATCH, vision_feature_select_strategy="full", chat_template=CHAT
    )


def make_model() -> LlavaForConditionalGeneration:
    """A layer that looks and one that reads; weights of usual size would be too small to begin to learn."""
    shape: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    shape |= {"num_hidden_layers": 1, "initializer_range": 0.1}
    text = LlamaConfig(**shape, vocab_size=len(WORDS), max_position_embeddings=64, eos_token_id=0, pad_token_id=0)
    eyes: Any = CLIPVisionConfig(**shape, image_size=PIXELS, patch_size=PATCH, initializer_factor=5.0)
    config = LlavaConfig(
        vision_config=eyes,
        text_config=text,
        image_token_id=1,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        initializer_range=0.1,
    )
    return LlavaForConditionalGeneration(config)


def make_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Boards with a marked digit: the question, the answer and the picture."""
    rng, rows = np.random.default_rng(seed), []
    for board in generate(count, size=4, clues=8, seed=seed).boards:
        cell = int(rng.choice(np.flatnonzero(board)))
        none = np.zeros(board.size, dtype=bool)
        view = BoardView(board, none, none, none, none, np.zeros(board.size, dtype=int), last=cell)
        drawn = render_rgb(view, pixels=PIXELS)
        margin = (len(drawn) - PIXELS) // 2
        picture = Image.fromarray(drawn[margin:-margin, margin:-margin])
        question = [{"type": "image", "image": picture}, {"type": "text", "text": "which"}]
        rows.append({"prompt": [{"role": "user", "content": question}], "chosen": str(board[cell])})
    return rows


def named(completions: list[Any], chosen: list[str], **kwargs: Any) -> list[float]:
    """1 for the right digit."""
    said = (completion[0]["content"].strip() for completion in completions)
    return [float(answer == right) for answer, right in zip(said, chosen, strict=True)]


def play(seed: int, given: argparse.Namespace) -> tuple[float, float]:
    """The share of unseen boards whose digit is named, after teaching and after the reward."""
    set_seed(seed)
    eyes, model = make_processor(), make_model()
    rows, unseen = make_rows(given.boards, 2 * seed), make_rows(300, 2 * seed + 1)

    def judge() -> float:
        found = sample_and_score(model, unseen, named, eyes, max_completion_length=2, greedy=True)
        return float(found.rewards.mean())

    common: dict[str, Any] = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    with tempfile.TemporaryDirectory() as folder:
        taught = TrainingArguments(
            f"{folder}/sft", max_steps=given.sft_steps, learning_rate=1e-3, per_device_train_batch_size=32, seed=seed,
            logging_steps=50, **common,
        )  # fmt: skip
        teacher = supervised_trainer(model, taught, rows, eyes)
        if not given.log:
            teacher.remove_callback(PrinterCallback)
        teacher.train()
        before = judge()
        rewarded = GRPOArguments(
            f"{folder}/grpo", max_steps=given.rl_steps, learning_rate=3e-4, per_device_train_batch_size=128,
            num_generations=8, max_completion_length=2, seed=seed, logging_steps=20, **common,
        )  # fmt: skip
        student = GRPOTrainer(model, named, rewarded, rows, eyes)
        if not given.log:
            student.remove_callback(PrinterCallback)
        student.train()
    return before, judge()


def main() -> None:
    """Train each seed and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--boards", type=int, default=1500)
    parser.add_argument("--sft_steps", type=int, default=25)
    parser.add_argument("--rl_steps", type=int, default=120)
    parser.add_argument("--log", action="store_true")
    given = parser.parse_args()
    logging.set_verbosity_error()
    ends = []
    for seed in given.seeds:
        ends.append(play(seed, given))
        print(f"seed {seed}: named {ends[-1][0]:.1%} after teaching, {ends[-1][1]:.1%} after the reward", flush=True)
    before, after = (statistics.mean(column) for column in zip(*ends, strict=True))
    print(f"mean: {before:.1%}, then {after:.1%}")


if __name__ == "__main__":
    main()
