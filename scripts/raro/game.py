"""RARO's game on a model of 20,000 parameters whose answers and labels are one token each; two minutes a seed.

There is one question and four answers, "good" is the expert's. The model starts from both formats and nothing else:
answers and labels are uniform. The run folder receives `metrics.jsonl` for each seed, `curve.png` and `results.json`.

    python -m scripts.raro.game [--seeds 0 1 2 --output_dir runs/raro_game]
    python -m scripts.raro.game --resume_from_checkpoint last
"""

import json
import logging
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from tokenizers import AddedToken
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback

from llm_rl import MetricsWriter, RAROArguments, RAROTrainer
from llm_rl.training import (
    CheckpointError,
    RunFolder,
    load_pyplot,
    need_reports,
    parse,
    read_json_lines,
    save_figure,
    user_errors,
    write_text_whole,
)
from scripts.shared.tiny_llama import tiny_llama, word_tokenizer

ANSWERS = ["good", "bad", "poor", "ugly"]
LABELS = ["[Answer 1]", "[Answer 2]", "[Tie]"]
PANELS = {
    "critic/accuracy": "critic accuracy",
    "policy/reward_mean": "policy reward",
    "critic/tie_rate": "tie rate",
    "verified/good": "answers like the expert's",
}


@dataclass
class GameArguments:
    """The seeds and the game."""

    seeds: list[int] = field(
        default_factory=lambda: [0, 1, 2], metadata={"help": "Random seeds of start, roll-outs and training."}
    )
    steps: int = field(default=200, metadata={"help": "Optimizer steps."})
    start_steps: int = field(default=150, metadata={"help": "Supervised steps before them."})
    learning_rate: float = field(default=1e-3, metadata={"help": "Rate of AdamW."})
    tau_crit: float = field(default=RAROArguments.tau_crit, metadata={"help": "The critic's reward for a tie."})
    kl_weight: float = field(default=0.01, metadata={"help": "Weight of the divergence from the start."})
    logging_steps: int = field(default=5, metadata={"help": "Steps between two points of the curves."})
    output_dir: str = field(default="runs/raro_game", metadata={"help": "Run folder."})
    save_steps: int = field(default=50, metadata={"help": "Steps between two checkpoints of a seed."})
    resume_from_checkpoint: Literal["last"] | None = field(
        default=None, metadata={"help": "last: go on where the run was stopped, with finished seeds taken over."}
    )
    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Start anew in a folder that holds a run, which is deleted."}
    )


def token_tokenizer() -> PreTrainedTokenizerFast:
    """A token for each word and label."""
    tokenizer = word_tokenizer(["<end>", "Q", "C", "|", *ANSWERS], pad="<end>", end="<end>")
    tokenizer.add_tokens([AddedToken(label) for label in LABELS])
    return tokenizer


def start_model(tokenizer: Any, seed: int, steps: int) -> LlamaForCausalLM:
    """Knows both formats and nothing else."""
    model = tiny_llama(
        len(tokenizer),
        seed,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(steps):
        draws = torch.randint(4, (16, 3)).tolist()
        policy = [f"Q {ANSWERS[a]} <end>" for a, _, _ in draws]
        critic = [f"C Q {ANSWERS[a]} | {ANSWERS[b]} {LABELS[c % 3]} <end>" for a, b, c in draws if c < 3]
        loss = torch.zeros(())
        for texts in (policy, critic):
            ids = torch.tensor(tokenizer(texts)["input_ids"])
            loss = loss + torch.nn.functional.cross_entropy(
                model(ids).logits[:, -3:-1].flatten(0, 1), ids[:, -2:].flatten()
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def good(completions: list[str], **kwargs: Any) -> list[float]:
    """1 for the expert's answer."""
    return [float("good" in text) for text in completions]


(game,) = parse(GameArguments, description=__doc__)
need_reports()
folder = RunFolder(game)
logging.getLogger("accelerate").setLevel(logging.ERROR)
torch.set_num_threads(1)
run, tokenizer = folder.open(asdict(game)), token_tokenizer()
curves, results = {}, {}
for seed in game.seeds:
    log = run / f"metrics_seed{seed}.jsonl"
    args = RAROArguments(
        str(run / f"seed{seed}"),
        prompt_format="text",
        policy_system="",
        critic_system="",
        critic_template="C {question} {answer_1} | {answer_2}",
        per_device_train_batch_size=32,
        num_generations=16,
        critic_pairs=8,
        critic_generations=8,
        max_completion_length=3,
        unparsable_reward=0.0,
        overlength_reward=0.0,
        tau_crit=game.tau_crit,
        kl_weight=game.kl_weight,
        learning_rate=game.learning_rate,
        lr_scheduler_type="constant",
        max_steps=game.steps,
        logging_steps=game.logging_steps,
        save_steps=game.save_steps,
        save_total_limit=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=seed,
    )
    rows = [{"question": "Q", "answer": "good"}] * 8
    model = start_model(tokenizer, seed, game.start_steps)
    trainer = RAROTrainer(model, args, rows, tokenizer, verifiers=good, callbacks=[MetricsWriter(log)])
    trainer.remove_callback(PrinterCallback)
    with user_errors(CheckpointError):
        trainer.train(resume_from_checkpoint=game.resume_from_checkpoint)
    lines = read_json_lines(log).dropna(subset=["policy/reward_mean"])
    curves[f"seed {seed}"] = lines
    ends = {metric: [float(lines[metric].iloc[place]) for place in (0, -1)] for metric in PANELS}
    results[str(seed)] = {"first and last": ends, "best accuracy": float(lines["critic/accuracy"].max())}
    changes = ", ".join(f"{PANELS[metric]} {first:.2f} → {last:.2f}" for metric, (first, last) in ends.items())
    print(f"seed {seed}: {changes}; accuracy at most {results[str(seed)]['best accuracy']:.2f}", flush=True)
write_text_whole(run / "results.json", json.dumps(results, indent=2))
figure, axes = load_pyplot().subplots(1, len(PANELS), figsize=(18, 3.5), constrained_layout=True)
for axis, (metric, title) in zip(axes, PANELS.items(), strict=True):
    for name, lines in curves.items():
        axis.plot(lines["step"], lines[metric], marker="o", label=name)
    axis.set(title=title, xlabel="optimizer step")
    axis.grid(alpha=0.3)
axes[0].legend()
save_figure(figure, run / "curve.png")
