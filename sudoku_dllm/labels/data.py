"""What the arms have in common: the puzzles to train on and those held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from dllm_rl.models.folder import named_model
from dllm_rl.sudoku import SudokuTask
from sudoku_dllm.labels.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.placebo import PlaceboTask
from sudoku_env.prompts.text import build_prompt, parse_puzzle
from sudoku_env.prompts.tokens import PreFilled, pre_fill
from sudoku_env.puzzles import read_prompts
from sudoku_env.symmetries import symmetric_prompts

COMPACT = "compact"


@dataclass(frozen=True, eq=False)
class Setting:
    """Arguments of a run, the tokenizer of its base, and its puzzles."""

    script: ScriptArguments
    args: RecipeArguments
    tokenizer: PreTrainedTokenizerBase
    train: list[PreFilled]  # images included
    tests: Mapping[str, list[PreFilled]]  # held out, as those of the curve are
    curve: list[PreFilled]

    @classmethod
    def load(cls, script: ScriptArguments, args: RecipeArguments) -> "Setting":
        """Read everything.

        Raises:
            OSError: A file cannot be read.
            SudokuError: A prompt is none, cannot be pre-filled, or is in words that images are not in.
            ValueError: The tokenizer cannot be loaded, or a held-out solution grid occurs in training.
        """
        with named_model(script.model, "tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(script.model)

        def filled(path: str, count: int, images: int = 1) -> list[PreFilled]:
            prompts = read_prompts(path)[: count or None]
            if script.prompt_template is not None:
                prompts = [build_prompt(parse_puzzle(prompt), script.prompt_template) for prompt in prompts]
            if images > 1:
                template = script.prompt_template or COMPACT
                options: dict[str, Any] = {"symmetries": script.symmetries, "seed": args.seed}
                prompts = symmetric_prompts(prompts, images, template=template, **options)
            return [pre_fill(prompt, tokenizer, script.max_gen_length) for prompt in prompts]

        train = filled(script.data, script.max_puzzles, script.images)
        tests = {name: filled(path, script.eval_puzzles) for name, path in script.test_sets.items()}
        curve = filled(script.curve_data, script.curve_puzzles) if script.curve_points else []
        held_out = {f"--eval_data: {name}": each for name, each in tests.items()}
        _check_held_out(train, {**held_out, "--curve_data": curve})
        return cls(script, args, tokenizer, train, tests, curve)

    def task(self, *, placebo: bool = False) -> SudokuTask:
        """The task to train on; cells are definite under the script's rule, or all of them in the placebo."""
        kind = PlaceboTask if placebo else SudokuTask
        return kind(self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, self.script.tail, self.script.rule)

    @property
    def sizes(self) -> set[int]:
        """Sizes of the boards to train on."""
        return {puzzle.layout.size for puzzle in self.train}

    @property
    def judged_as(self) -> SudokuTask:
        """The task to judge by: definite by singles, whatever is trained, as the random floor is."""
        return SudokuTask(self.tokenizer.pad_token_id)


def _check_held_out(train: Sequence[PreFilled], held_out: Mapping[str, Sequence[PreFilled]]) -> None:
    """Refuse sets by name that share a solution grid with training."""
    seen = {puzzle.layout.solution.tobytes() for puzzle in train}
    for name, puzzles in held_out.items():
        if shared := sum(puzzle.layout.solution.tobytes() in seen for puzzle in puzzles):
            raise ValueError(
                f"{name}: {shared} of {len(puzzles)} solution grids occur in training; split by grid first"
            )
