"""Ways to learn 9×9 side by side, for as many puzzles each: which training is worth hours.

Each learner differs from the recipe of `configs/sudoku9x9_cpu.yaml` as `LEARNERS` says. The budget is a number of
sequences that go through six blocks, so that a body that is looped twice gets half as many puzzles and the outcome does
not depend on what else a machine does. The rate rises and then falls to zero. Judged are validation puzzles with 22 to
30 clues, drawn: solved by margin at one and four tokens a step, and the cross-entropy of blanks by the share that is
masked. Prints a line a learner and adds it to `learners.jsonl`.

    python -m scripts.sudoku.learners --learners plain top ordered harder --sequences 32000 [--start data/base9x9]
    python -m scripts.sudoku.learners --learners scratch looped2 looped3 --sequences 80000
    python -m scripts.sudoku.learners --learners harder thrice --sequences 48000 --start data/models/llada-sudoku9x9
"""

import copy
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from dllm_rl import Decoding, LladaConfig, LladaForMaskedLM, SftDataset, SudokuTask, evaluate, load
from dllm_rl.sft import collate
from llm_rl.training import parse
from scripts.shared.of_split import first_of_split
from scripts.sudoku.endless import EndlessPuzzles
from scripts.sudoku.hold_anneal import HoldThenAnneal
from scripts.sudoku.masks import MaskKind, masked_loss
from scripts.sudoku.solving import filled
from sudoku_env import Board, PreFilled, generate

BLOCKS = 6
"""Blocks of the recipe's body; what a sequence costs is counted in passes through so many."""
ROWS = 16
"""Puzzles an update."""
HARD = (22, 30)
SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Learner:
    """How a learner differs from the recipe.

    Attributes:
        masks: How cells are masked, see `scripts.sudoku.masks`.
        clues: Clues of the puzzles.
        singles: The share that is kept of the puzzles which singles solve.
        blocks: Blocks of a body from random weights; None: begin with the weights that are there.
        loops: How often the blocks are gone through; None: as often as in the model to begin with.
    """

    masks: MaskKind = "random"
    clues: tuple[int, int] = (22, 40)
    singles: float = 1.0
    blocks: int | None = None
    loops: int | None = None


LEARNERS = {
    "plain": Learner(),
    "top": Learner("top", HARD),
    "ordered": Learner("ordered", HARD),
    "harder": Learner("ordered", HARD, singles=0.1),
    "again": Learner("ordered", HARD, singles=0.1, loops=2),
    "thrice": Learner("ordered", HARD, singles=0.1, loops=3),
    "scratch": Learner(blocks=6, loops=1),
    "looped2": Learner(blocks=3, loops=2),
    "looped3": Learner(blocks=2, loops=3),
}


@dataclass
class Arguments:
    """Arguments of `learners.py`."""

    learners: list[str] = field(default_factory=lambda: ["plain"], metadata={"help": f"Some of {', '.join(LEARNERS)}."})
    sequences: int = field(default=64_000, metadata={"help": "Sequences that go through six blocks, for each."})
    start: str = field(default="data/base9x9", metadata={"help": "Model whose weights or sizes a learner begins with."})
    learning_rate: float = field(default=2e-3, metadata={"help": "The highest rate."})
    warmup_steps: int = field(default=300, metadata={"help": "Updates while the rate rises."})
    seed: int = field(default=3, metadata={"help": "Random seed of puzzles, masks and initial weights."})
    judged: int = field(default=400, metadata={"help": "Validation puzzles."})
    output_dir: Path = field(default=Path("runs/learners"), metadata={"help": "Folder of the lines and models."})

    def __post_init__(self) -> None:
        if unknown := set(self.learners) - set(LEARNERS):
            raise ValueError(f"learners: {sorted(unknown)} are unknown; choose among {', '.join(LEARNERS)}")


def model_of(learner: Learner, start: LladaForMaskedLM) -> LladaForMaskedLM:
    """The model that a learner begins with."""
    config = copy.deepcopy(start.config)
    config.n_layers, config.n_loops = learner.blocks or config.n_layers, learner.loops or config.n_loops
    model = LladaForMaskedLM(config)
    if learner.blocks is None:
        model.load_state_dict(start.state_dict())
    return model


def updates_for(sequences: int, learner: Learner, config: LladaConfig) -> int:
    """Updates that cost as much as so many sequences through six blocks; a pass without a gradient is a third."""
    thirds = 4 if learner.masks == "ordered" else 3
    return sequences * BLOCKS * 3 // (ROWS * config.n_loops * config.n_layers * thirds)


def validation(count: int) -> Board:
    """Validation puzzles with few clues, uint8 `(≤ count, 81)`."""
    pool = generate(12 * count, size=9, clues=HARD, rule=None, seed=77)
    return first_of_split([(pool.boards, pool.solutions)], "validation", count)


def train(learner: Learner, model: LladaForMaskedLM, args: Arguments, fill: Any, task: SudokuTask) -> None:
    """Train for the budget."""
    updates = updates_for(args.sequences, learner, model.config)
    puzzles = EndlessPuzzles(
        fill, task, size=9, clues=learner.clues, rule=None, seed=args.seed + 1, singles=learner.singles
    )
    optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    plan = HoldThenAnneal(args.warmup_steps, args.warmup_steps, max(updates - args.warmup_steps, 1))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, plan.factor)
    losses = []
    for update in range(updates):
        batch = collate(puzzles.__getitems__(range(update * ROWS, (update + 1) * ROWS)))
        loss = masked_loss(model, batch, learner.masks, model.config.mask_token_id)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if (update + 1) % 500 == 0:
            print(f"  {update + 1} of {updates}: {sum(losses[-500:]) / 500:.4f}", flush=True)


@torch.no_grad()
def cross_entropy(model: nn.Module, problems: list[PreFilled], task: SudokuTask, mask_id: int) -> dict[str, float]:
    """Nats a masked cell, by the share of blanks that is masked."""
    rows = SftDataset(task.batch(problems))
    inputs, maskable = rows.input_ids.long(), rows.maskable
    generator, found = torch.Generator().manual_seed(5), {}
    for share in SHARES:
        masked = (torch.rand(inputs.shape, generator=generator) < share) & maskable
        logits = model(input_ids=inputs.masked_fill(masked, mask_id), logits_mask=masked).logits
        found[f"nats at {share}"] = float(F.cross_entropy(logits, inputs[masked]))
    return found


def main() -> None:
    """Train and judge, one after the other."""
    (args,) = parse(Arguments, description=__doc__)
    args.output_dir.mkdir(parents=True, exist_ok=True)
    boards = validation(args.judged)
    for name in args.learners:
        learner = LEARNERS[name]
        torch.manual_seed(args.seed)
        start, tokenizer = load(args.start)
        task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id)

        def fill(board: Board, words: Any = tokenizer) -> PreFilled:
            return filled(board[None], words)[0]

        model, begun = model_of(learner, start.float()), time.process_time()
        train(learner, model, args, fill, task)
        model.eval()
        spent = time.process_time() - begun
        problems = filled(boards, tokenizer)
        solved = {
            f"solved at {k}": float(
                evaluate(model, problems, task, Decoding("margin", tokens_per_step=k)).solved.mean()
            )
            for k in (1, 4)
        }
        parameters = sum(p.numel() for p in model.parameters())
        line = {"learner": name, "parameters": parameters, "cpu_seconds": round(spent), **solved}
        line |= cross_entropy(model, problems, task, model.config.mask_token_id) | {"seed": args.seed}
        line |= {"sequences": args.sequences, "learning_rate": args.learning_rate}
        print(line, flush=True)
        with (args.output_dir / "learners.jsonl").open("a") as lines:
            lines.write(json.dumps(line | asdict(learner)) + "\n")
        torch.save(model.state_dict(), args.output_dir / f"{name}.pt")


if __name__ == "__main__":
    main()
