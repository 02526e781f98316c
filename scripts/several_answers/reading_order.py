"""The least completion with the cells read in a random order, another for each seed, beside that in reading order.

Its records are kept; commit 73cb6d0 has the trainings (`scripts.several_answers.reading_order`).
"""

from scripts.several_answers.outcome_tables import STUDIED
from sudoku_dllm.several.report import TITLES, valid
from sudoku_dllm.trials.record import Records
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.words import lead, markdown_table, percent

LABEL, SHUFFLED = "sft_least", "reading_order/sft_least"
TITLE = "The least completion, cells read in another order"


def table(records: Records) -> str:
    """Per cent valid of both orders, and their difference, of the seeds that both have; empty where there are none."""
    found = Results(records, (LABEL, SHUFFLED))
    if not (seeds := found.seeds(LABEL, SHUFFLED)):
        return ""
    columns = [valid(k) for k in STUDIED["eval_tokens"]]
    rows = [
        [name, *(percent(found.column(arm, column, seeds).mean()) for column in columns), str(len(seeds))]
        for arm, name in ((LABEL, TITLES[LABEL]), (SHUFFLED, "the same, cells read in a random order"))
    ]
    rows.append(["minus", *(lead(found.difference(SHUFFLED, LABEL, column)) for column in columns), ""])
    return markdown_table(["trained by", *(f"{k} a pass" for k in STUDIED["eval_tokens"]), "seeds"], rows)
