"""The best of several answers by a critic that compares them in pairs, beside a vote of the majority.

Reads lines of {"question", "answers": [text, …]}, and "right": [true, …] where a verifier has been asked. For each
number k of answers a tournament among the first k of each question is played, by the model's critic in both orders of
each pair; what it chooses is written to `chosen.jsonl`, and where "right" is given a table tells the share of questions
whose chosen answer is right: of the first answer, of the majority's, of the critic's, and of the best there is.

    python -m scripts.judge_answers --model runs/raro/model --answers answers.jsonl [--tournament swiss --counts 4 16]
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl import RAROArguments
from llm_rl.core._options import option
from llm_rl.raro.judge import CriticJudge
from llm_rl.raro.prompts import extract_answer
from llm_rl.raro.tournament import majority_vote, single_elimination, swiss
from llm_rl.rollout.loading import load_policy
from llm_rl.training import need_file, need_model, need_writable, parse, user_errors, write_text_whole
from sudoku_dllm.trials.words import markdown_table

TOURNAMENTS: dict[str, Callable[..., list[int]]] = {"single_elimination": single_elimination, "swiss": swiss}


@dataclass
class Arguments:
    """The model, the answers and the tournament."""

    model: str = option("", "Folder of the critic's model and its tokenizer.")
    answers: Path = option(Path("answers.jsonl"), "Lines of questions and answers.")
    counts: list[int] = option([1, 2, 4, 8, 16], "Answers to choose among.")
    tournament: str = option("single_elimination", f"One of {', '.join(TOURNAMENTS)}.")
    critiques: int = option(1, "Critiques of each order of a pair.")
    greedy: bool = option(False, "The critic takes the most likely token each time.")

    def __post_init__(self) -> None:
        if not self.counts or min(self.counts) < 1:
            raise ValueError(f"counts={self.counts} must be numbers from 1 on")
        if self.tournament not in TOURNAMENTS:
            raise ValueError(f"tournament={self.tournament!r} is unknown; choose one of {', '.join(TOURNAMENTS)}")


@dataclass
class CriticArguments(RAROArguments):
    """The critic's prompts, lengths and temperature, as it was trained with them."""

    output_dir: str = option("runs/judged_answers", "Folder of what is written.")


def read_answers(path: Path) -> list[dict[str, Any]]:
    """The questions of a file with their answers.

    Raises:
        ValueError: A line is none, or one has "right" and another has not; the message names the file and the line.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            question, answers, right = row["question"], row["answers"], row.get("right")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{path}, line {number}: expected an object with question and answers") from None
        texts = [question, *answers] if isinstance(answers, list) and answers else [None]
        if not all(isinstance(text, str) for text in texts) or (right is not None and len(right) != len(answers)):
            raise ValueError(
                f"{path}, line {number}: question is a text, answers a list of texts, not empty, and right as long"
            )
        if rows and (right is None) != (rows[0]["right"] is None):
            raise ValueError(f"{path}, line {number}: give right in all lines, or in none")
        rows.append({"question": question, "answers": answers, "right": right})
    if not rows:
        raise ValueError(f"{path} is empty; give a line for each question")
    return rows


def main() -> None:
    """Play, write what is chosen, print the table."""
    args, critic = parse(Arguments, CriticArguments, description=__doc__)
    need_model("model", args.model)
    need_file("answers", args.answers)
    need_writable("output_dir", critic.output_dir)
    with user_errors(ValueError, OSError):
        rows = read_answers(args.answers)
        model, tokenizer = load_policy(args.model, None)
    model.eval()
    questions, lines, table = [row["question"] for row in rows], [], []
    for count in args.counts:
        # What the critic and a vote choose among the first so many answers.
        among = [row["answers"][:count] for row in rows]
        with user_errors(ValueError):
            options = {"critiques": args.critiques, "greedy": args.greedy}
            judge = CriticJudge(model, tokenizer, critic, questions, among, **options)
            chosen = TOURNAMENTS[args.tournament]([len(each) for each in among], judge, seed=critic.seed)
        said = [[extract_answer(text, critic.reasoning_tags) or "" for text in each] for each in among]
        voted = [majority_vote(each) for each in said]
        for question, number, vote in zip(questions, chosen, voted, strict=True):
            lines.append({"question": question, "answers": count, "critic": number, "majority": vote})

        # How often it is right.
        if rows[0]["right"] is not None:
            right = [np.array(row["right"][:count], bool) for row in rows]
            shares = [share(right, choice) for choice in ([0] * len(rows), voted, chosen)]
            best = f"{100 * np.mean([each.any() for each in right]):.1f}"
            table.append([str(count), *shares, best, f"{judge.tokens / len(rows):.0f}"])
    folder = Path(critic.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    write_text_whole(folder / "chosen.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    if table:
        head = ["answers", "the first", "majority", "critic", "any", "tokens of critiques a question"]
        print(f"Right, % of {len(rows)} questions:\n\n{markdown_table(head, table)}")
    print(f"What was chosen: {folder / 'chosen.jsonl'}")


def share(right: Sequence[Any], chosen: Sequence[int]) -> str:
    """Per cent of the questions whose chosen answer is right."""
    return f"{100 * np.mean([each[number] for each, number in zip(right, chosen, strict=True)]):.1f}"


if __name__ == "__main__":
    main()
