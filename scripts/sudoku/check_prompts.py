"""Run pre_fill, detect_definite and judge_error over a prompt set with a tokenizer, and say what came out.

python -m scripts.sudoku.check_prompts --data prompts.jsonl --tokenizer char
python -m scripts.sudoku.check_prompts --data prompts.jsonl --tokenizer path/to/tokenizer --mask_token_id 7
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl.core._options import option
from llm_rl.training import USER_ERRORS, need_file, parse, user_errors
from sudoku_env import (
    PreFilled,
    SudokuError,
    TokenLayout,
    definite_digits,
    detect_definite,
    judge_error,
    pre_fill,
    read_prompts,
)
from sudoku_env.prompts.char_tokenizer import CharTokenizer


@dataclass
class Arguments:
    """The prompts, and who reads them."""

    data: str = field(metadata={"help": "Prompt set: jsonl, csv or parquet with a prompt column."})
    tokenizer: str = option("char", "char, a folder, a .gguf file or a tokenizer.json.")
    max_gen_length: int = option(128, "Response tokens.")
    mask_token_id: int | None = option(None, "Mask token of a tokenizer that names none.")
    layout: str | None = option(None, "Answer layout; default: the first that suits the tokenizer.")


def load_tokenizer(name: str) -> Any:
    """`char`, a GGUF file, a `tokenizer.json`, or a folder or hub name that AutoTokenizer takes."""
    if name == "char":
        return CharTokenizer()
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    import dllm_rl  # noqa: F401  (registers LLaDA)

    path = Path(name)
    if path.suffix == ".gguf":
        return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    if path.suffix == ".json":
        return PreTrainedTokenizerFast(tokenizer_file=name)
    return AutoTokenizer.from_pretrained(name)


def check(prefilled: PreFilled, tokenizer: Any, rng: np.random.Generator) -> str | None:
    """What is wrong with one pre-filled prompt and the states made from it, or None."""
    layout = prefilled.layout
    ids = np.array(prefilled.token_ids)
    cells = layout.prompt_length + layout.cell_positions
    blank = np.flatnonzero(layout.puzzle == 0)

    if not np.array_equal(layout.read_boards(ids), layout.puzzle):
        return "the cells of the response are not the puzzle's"
    if judge_error(ids, layout):
        return "judge_error is true for the pre-filled state"
    if detect_definite(ids, layout) != layout.cell_positions[definite_digits(layout.puzzle) > 0].tolist():
        return "detect_definite is not the definite cells of the puzzle"

    partly, wrong, garbled = ids.copy(), ids.copy(), ids.copy()
    filled = rng.permutation(blank)[: blank.size // 2]
    partly[cells[filled]] = layout.solution_ids[filled]
    wrong[cells[blank[0]]] = layout.digit_ids[layout.solution[blank[0]] % layout.size]
    garbled[cells[blank[-1]]] = ids[0]
    if judge_error(np.stack([partly, wrong, garbled]), layout).tolist() != [False, True, True]:
        return "judge_error is not [False, True, True] for right digits, a wrong digit, no digit"
    for state in (ids, partly, wrong, garbled):
        found = TokenLayout.from_state(state, tokenizer, mask_token_id=layout.mask_id)
        same = np.array_equal(found.solution, layout.solution) and np.array_equal(found.puzzle, layout.puzzle)
        if not same or (found.map_range, found.prompt_length) != (layout.map_range, layout.prompt_length):
            return "TokenLayout.from_state found another layout"
    return None


def main() -> None:
    """Check every prompt and print a summary; exit status 1 if anything failed."""
    (args,) = parse(Arguments, description=__doc__)
    need_file("data", args.data)
    with user_errors(*USER_ERRORS, SudokuError):
        prompts = read_prompts(args.data)
    with user_errors(OSError, ValueError):
        tokenizer = load_tokenizer(args.tokenizer)
    rng = np.random.default_rng(0)
    done: list[PreFilled] = []
    failures: list[str] = []
    seconds = 0.0
    for number, prompt in enumerate(prompts, start=1):
        started = time.perf_counter()
        try:
            prefilled = pre_fill(
                prompt, tokenizer, args.max_gen_length, mask_token_id=args.mask_token_id, layout=args.layout
            )
        except SudokuError as error:
            failures.append(f"prompt {number}: {error}")
            continue
        finally:
            seconds += time.perf_counter() - started
        wrong = check(prefilled, tokenizer, rng)
        if wrong:
            failures.append(f"prompt {number}: {wrong}")
        done.append(prefilled)

    layouts = [prefilled.layout for prefilled in done]
    print(f"prompts          {len(prompts)} read, {len(done)} pre-filled, {len(failures)} failed")
    print(f"pre_fill         {1000 * seconds / len(prompts):.2f} ms a prompt")
    if layouts:
        definite = [len(detect_definite(prefilled.token_ids, prefilled.layout)) for prefilled in done]
        print(f"answer layouts   {dict(Counter((f'{one.size}x{one.size}', one.name) for one in layouts))}")
        print(f"digit tokens     {sorted({tuple(one.digit_ids.tolist()) for one in layouts})}")
        print(f"mask token       {sorted({one.mask_id for one in layouts})}")
        print(f"map range        {sorted({one.map_range for one in layouts})}")
        print(f"prompt tokens    {min(p.prompt_length for p in done)}-{max(p.prompt_length for p in done)}")
        print(f"givens           {dict(sorted(Counter(int(np.count_nonzero(one.puzzle)) for one in layouts).items()))}")
        print(f"definite cells   {min(definite)}-{max(definite)}, mean {np.mean(definite):.2f}")
    for failure in failures[:10]:
        print(failure)
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
