"""GRPO as `llm_rl` and as TRL do it, set up alike: model, prompts, lengths, optimizer and loss; PPO and VAPOR likewise.

Completions have the same length on both sides, as the end token is one that the model cannot emit. TRL's defaults of
gradient checkpointing, bfloat16 and a divergence times the importance ratio are turned off. TRL has neither PPO nor
VAPOR, so these stand beside its GRPO.

Each side runs in a process of its own, `python grpo_contenders.py SIDE MEASURE SETTING STEPS`. MEASURE is "time": an
optimizer step runs for each line on standard input, and the answer is its seconds, by the clock and on a core; or
"memory": the peak over loading the model and the steps. Answers are lines of JSON; what libraries print goes to
standard error.
"""

import importlib.util
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    TrainerCallback,
)
from transformers.utils import logging

from llm_rl import (
    GRPOArguments,
    GRPOTrainer,
    PPOArguments,
    PPOTrainer,
    ServerEngine,
    ServerProcess,
    VAPORArguments,
    VAPORTrainer,
    add_lora,
)
from llm_rl.core._options import option
from llm_rl.rollout.data import encode_prompt
from scripts.benchmarks.work import SHIPPED, peak_tensor_bytes
from scripts.shared.smollm2 import SMOLLM2_FOLDER, default_cache_dir, load_smollm2
from scripts.shared.tiny_llama import tiny_llama
from sudoku_env import generate
from sudoku_env.chat import chat_prompt

SIDES = ("ours", "trl")
TRAINERS = ("grpo", "ppo", "vapor")
QWEN: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 1408, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "tie_word_embeddings": True, "initializer_range": 0.1,
}  # fmt: skip
"""Qwen2.5's blocks, with their biases and shared keys, in small, with weights so large that tokens differ."""
ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
VLLM_PROGRAM = ["-m", "vllm.entrypoints.launchers.api_server.entry", "--model"]
VLLM_OPTIONS = ["--max-model-len", "1024", "--block-size", "32"]
"""Completions share whole blocks of a prompt; vLLM's 128 tokens on a processor are longer than the prompts here."""
NO_TRL = "this compares with TRL, which is not installed; run `pip install 'sudoku-dllm[trl]'` (trl 1.16 or newer)"


@dataclass(frozen=True)
class Setting:
    """What both sides train; a roll-out serves one optimizer step."""

    model: str = option(
        "smollm2", "smollm2, tiny (a Llama), qwen (small, random), or a folder with model and tokenizer."
    )
    trainer: str = option(
        "grpo", f"Ours, of {TRAINERS}; TRL's is GRPO. VAPOR takes no kl_weight, and only GRPO a loss_type."
    )
    template: str = option("short", "Wording of the prompts: compact, short or rules.")
    batch_size: int = option(4, "Completions in a forward pass.")
    accumulation: int = option(1, "Forward passes of an optimizer step.")
    num_generations: int = option(4, "G.")
    max_completion_length: int = option(32, "Tokens of every completion.")
    kl_weight: float = option(0.0, "Weight of the divergence; above 0 there is a reference.")
    loss_type: str = option("grpo", "grpo, bnpo, dr_grpo or dapo.")
    gradient_checkpointing: bool = option(False, "Checkpoint both sides; TRL's own default is True.")
    share_prompts: bool | None = option(None, "Ours reads a prompt once for its completions.")
    lora_r: int = option(0, "Rank of LoRA adapters, on both sides; 0: all weights train.")
    vllm: str = option(
        "", "Interpreter of vLLM's environment; ours samples on its server, whose CPU s are not counted."
    )
    seed: int = option(0, "Random seed of puzzles and sampling.")

    def __post_init__(self) -> None:
        if self.vllm and not self.lora_r:
            raise ValueError("vllm takes adapters, as all weights would need a new server at each step; set lora_r")
        if self.trainer not in TRAINERS:
            raise ValueError(f"trainer is {self.trainer!r}; choose from {TRAINERS}")


def trl_installed() -> bool:
    """Whether TRL can be imported."""
    return importlib.util.find_spec("trl") is not None


def model_folder(name: str, scratch: Path) -> Path:
    """The folder of "smollm2", which is made where it is not there yet, of "tiny" or "qwen" in `scratch`, or `name`."""
    if name == "smollm2":
        folder = default_cache_dir() / SMOLLM2_FOLDER
        if not folder.is_dir():
            load_smollm2()
        return folder
    if name not in ("tiny", "qwen"):
        return Path(name)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    model: PreTrainedModel
    if name == "tiny":
        model = tiny_llama(len(tokenizer), num_key_value_heads=2, tie_word_embeddings=False)
    else:
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), **QWEN))
    model.save_pretrained(scratch / name)
    tokenizer.save_pretrained(scratch / name)
    return scratch / name


def prompts(setting: Setting, count: int = 64) -> list[dict[str, Any]]:
    """Rows of 4×4 puzzles as chat messages; with a right and a wrong answer for VAPOR."""
    puzzles = generate(count, size=4, clues=(10, 10), rule="singles", seed=setting.seed)
    rows: list[dict[str, Any]] = [{"prompt": chat_prompt(board, setting.template)} for board in puzzles.boards]
    if setting.trainer == "vapor":
        for row, solution in zip(rows, puzzles.solutions, strict=True):
            for name, grid in (("chosen", solution), ("rejected", solution[::-1])):
                text = f"<RESPONSE>{' '.join(map(str, grid.flatten()))}</RESPONSE>"
                row[name] = [{"role": "assistant", "content": text}]
    return rows


def prompt_lengths(setting: Setting) -> tuple[int, int]:
    """Tokens of the shortest and of the longest prompt; `setting.model` is a folder."""
    tokenizer = AutoTokenizer.from_pretrained(setting.model)
    lengths = [len(encode_prompt(row["prompt"], tokenizer, {})) for row in prompts(setting)]
    return min(lengths), max(lengths)


def spread_reward(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    """A number that differs within a group and costs nothing: the mean of id mod 7."""
    return [sum(token % 7 for token in ids) / max(1, len(ids)) for ids in completion_ids]


def make_trainer(side: str, setting: Setting, folder: Path, steps: int, callbacks: list[TrainerCallback]) -> Any:
    """A trainer of `steps` optimizer steps whose model is loaded here, from the folder `setting.model`."""
    model = AutoModelForCausalLM.from_pretrained(setting.model, dtype=torch.float32)
    if setting.lora_r:
        model = add_lora(model, r=setting.lora_r, target_modules=ADAPTED)
    tokenizer = AutoTokenizer.from_pretrained(setting.model)
    tokenizer.padding_side, padding = "left", tokenizer.pad_token_id
    tokenizer.add_special_tokens({"eos_token": "<|never|>"})  # its id lies behind the model's vocabulary
    assert tokenizer.eos_token_id >= model.config.vocab_size and padding < model.config.vocab_size
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    common: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": setting.batch_size,
        "gradient_accumulation_steps": setting.accumulation,
        "num_generations": setting.num_generations,
        "max_completion_length": setting.max_completion_length,
        "gradient_checkpointing": setting.gradient_checkpointing,
        "temperature": 1.0,
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant",
        "optim": "adamw_torch_fused",
        "bf16": False,
        "use_cpu": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "seed": setting.seed,
    }
    grpo: dict[str, Any] = {"loss_type": setting.loss_type, "scale_rewards": "group"}
    if side == "ours":
        common["share_prompts"] = setting.share_prompts
        weight = {"kl_weight": setting.kl_weight}
        kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
            "grpo": (GRPOTrainer, GRPOArguments, grpo | weight),
            "ppo": (PPOTrainer, PPOArguments, weight | {"num_ppo_epochs": 1}),
            "vapor": (VAPORTrainer, VAPORArguments, {}),
        }
        trainer, arguments, own = kinds[setting.trainer]
        server = ServerProcess([setting.vllm, *VLLM_PROGRAM], VLLM_OPTIONS) if setting.vllm else None
        engine = None if server is None else ServerEngine(server)
        args = arguments(**common, **own)
        return trainer(model, spread_reward, args, prompts(setting), tokenizer, callbacks=callbacks, engine=engine)
    grpo |= {"beta": setting.kl_weight, "epsilon": 0.2, "use_bias_correction_kl": False}
    return trl_trainer(model, spread_reward, prompts(setting), tokenizer, callbacks, **common, **grpo)


def trl_trainer(model: Any, reward: Any, rows: list[Any], tokenizer: Any, callbacks: Any = None, **options: Any) -> Any:
    """TRL's trainer; `options` are of its `GRPOConfig`."""
    from datasets import Dataset
    from trl import GRPOConfig
    from trl import GRPOTrainer as TRLTrainer

    data = Dataset.from_list(rows)
    return TRLTrainer(model, reward, GRPOConfig(**options), data, processing_class=tokenizer, callbacks=callbacks)


CLOCKS = {"s": time.perf_counter, "CPU s": time.process_time}
GENERATION_METHODS = {"ours": "_generate_completions", "trl": "_generate_single_turn"}
ROLLOUT_METHODS = {"ours": "_roll_out", "trl": "_generate_and_score_completions"}


def resident_bytes(peak: bool = False) -> int:
    """Memory of this process now, or the most it ever held."""
    if peak:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def read_clocks() -> dict[str, float]:
    """What each clock of `CLOCKS` shows."""
    return {unit: clock() for unit, clock in CLOCKS.items()}


class StepByStep(TrainerCallback):
    """Waits for a line before each step and answers with the seconds it took, by part.

    Args:
        answers: Stream that the answers are written to.
    """

    def __init__(self, answers: TextIO) -> None:
        self.answers = answers
        self.spent: dict[str, float] = {}
        self.before = 0

    def watch(self, trainer: Any, method: str, part: str) -> None:
        """Add up what a method of the trainer takes."""
        original: Callable[..., Any] = getattr(trainer, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = read_clocks()
            result = original(*args, **kwargs)
            self.add(part, started)
            return result

        setattr(trainer, method, timed)

    def add(self, part: str, started: dict[str, float]) -> None:
        """Add what has passed on each clock."""
        for unit, now in read_clocks().items():
            name = f"{part} {unit}"
            self.spent[name] = self.spent.get(name, 0.0) + now - started[unit]

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note what the process holds with the models loaded."""
        self.before = resident_bytes()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait, then start the clocks."""
        if not sys.stdin.readline():
            raise SystemExit("standard input has ended, so nobody waits for an answer")
        self.spent = {}
        self.started = read_clocks()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Answer: the step, sampling, the roll-out with sampling in it, and the rest, which is the update."""
        self.add("step", self.started)
        for unit in CLOCKS:
            self.spent[f"update {unit}"] = self.spent[f"step {unit}"] - self.spent.get(f"rollout {unit}", 0.0)
        peak = resident_bytes(peak=True)
        print(json.dumps({**self.spent, "rss": peak, "rss_net": peak - self.before}), file=self.answers, flush=True)


def check_lengths(trainer: Any, side: str, length: int) -> None:
    """Stop where completions were not as long as asked for."""
    name = "completion_length" if side == "ours" else "completions/mean_length"
    found = [line[name] for line in trainer.state.log_history if name in line]
    if not found or any(value != length for value in found):
        raise RuntimeError(f"completions of {side} have {found} tokens, not {length}: the end token was sampled")


if __name__ == "__main__":
    side, measure, words, steps = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    setting = Setting(**json.loads(words))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:

        def work(*callbacks: StepByStep) -> None:
            """Load the model, and train to the last step."""
            trainer = make_trainer(side, setting, Path(scratch), steps, list(callbacks))
            for clock in callbacks:
                clock.watch(trainer, GENERATION_METHODS[side], "generation")
                clock.watch(trainer, ROLLOUT_METHODS[side], "rollout")
            trainer.train()
            check_lengths(trainer, side, setting.max_completion_length)

        if measure == "time":
            work(StepByStep(answers))
        else:
            print(json.dumps({"peak": peak_tensor_bytes(work)}), file=answers, flush=True)
