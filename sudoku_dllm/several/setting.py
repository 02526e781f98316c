"""What the arms have in common: the boards to train on and those held out, as the model reads them."""

from dataclasses import dataclass

import numpy as np
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from dllm_rl.models.folder import named_model
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from sudoku_dllm.answers import shortest_answer
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_env.board import Board
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import PreFilled, pre_fill_boards

TEMPLATE = "compact"


@dataclass(frozen=True, eq=False)
class Setting:
    """Base, boards and arguments of a run.

    Attributes:
        script: What to train and how to judge it.
        args: The recipe of judged decisions.
        tokenizer: That of the base.
    """

    script: ScriptArguments
    args: RecipeArguments
    tokenizer: PreTrainedTokenizerBase

    @classmethod
    def load(cls, script: ScriptArguments, args: RecipeArguments) -> "Setting":
        """Read the tokenizer, and see that it can read the boards.

        Raises:
            OSError: A file cannot be read.
            SudokuError: The tokenizer has no tokens for boards of this size.
            ValueError: The tokenizer cannot be loaded.
        """
        with named_model(script.model, "tokenizer"):
            setting = cls(script, args, AutoTokenizer.from_pretrained(script.model))
        setting.filled(setting.test_boards()[:1])
        return setting

    @property
    def sizes(self) -> set[int]:
        """Sizes of the boards to train on."""
        return {self.script.size}

    @property
    def task(self) -> SudokuTask:
        """Puzzles whose tail is written beforehand, so that decisions are of cells alone."""
        return SudokuTask(self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, "prefill")

    def test_boards(self) -> Board:
        """The held-out boards, uint8 `(N, n²)`."""
        return self._drawn(self.script.test_boards, self.script.test_seed)[0]

    def one_answer_tests(self) -> Board:
        """As many held-out boards that have one answer, with clues as usual for the size, uint8 `(N, n²)`."""
        return self._drawn(self.script.test_boards, self.script.test_seed, stream=2, one_answer=1.0)[0]

    def training_boards(self, seed: int) -> tuple[Board, Board]:
        """Boards to train on with a seed, none held out, and the grids they were taken from, uint8 `(N, n²)` each."""
        boards, grids = self._drawn(self.script.boards, seed, stream=1, one_answer=self.script.one_answer)
        tests = {board.tobytes() for board in (*self.test_boards(), *self.one_answer_tests())}
        kept = np.array([board.tobytes() not in tests for board in boards])
        if not kept.any():
            raise ValueError(
                f"all boards={len(boards)} with clues={self.script.clues} are held out; ask for more of them"
            )
        return boards[kept], grids[kept]

    def _drawn(self, count: int, seed: int, stream: int = 0, one_answer: float = 0.0) -> tuple[Board, Board]:
        drawn_from = int(np.random.SeedSequence([seed, stream]).generate_state(1)[0])
        low, high = self.script.clues
        one, size = round(one_answer * count), self.script.size
        several = generate(count - one, size=size, clues=(low, high), answers="any", seed=drawn_from)
        drawn = [several, generate(one, size=size, seed=drawn_from)]
        return np.concatenate([each.boards for each in drawn]), np.concatenate([each.solutions for each in drawn])

    def filled(self, boards: Board) -> list[PreFilled]:
        """Boards as prompts."""
        first = build_prompt(boards[0], TEMPLATE)
        length = shortest_answer(self.tokenizer, first, self.script.size, answers="any").layout.response_length
        return pre_fill_boards(boards, self.tokenizer, length, template=TEMPLATE, answers="any")

    def batch(self, boards: Board, answers: Board | None = None) -> PuzzleBatch:
        """Boards as problems on the device of the run.

        Args:
            boards: uint8 `(N, n²)`.
            answers: uint8 `(N, n²)`, the completion that supervised training learns; None leaves the solver's first.
        """
        batch = self.task.batch(self.filled(boards))
        if answers is not None:
            tokens = torch.tensor(batch.layout.digit_ids)[torch.from_numpy(answers).long() - 1]
            batch.answers[:, torch.tensor(batch.layout.cell_positions)] = tokens.to(batch.answers)
        return batch.to(self.args.device)
