"""The page docs/several_answers.md and the tables beside its results, from what its study kept.

python scripts/train_sudoku.py --arms ARM … --seeds 0 1 2 3 4 --output_dir runs/several_answers    # the study
python -m scripts.study.pack runs/several_answers data/study/several_answers
python -m scripts.several_answers.study --page docs/several_answers.md --tables data/study/several_answers/tables.md
"""

from dataclasses import dataclass, field
from pathlib import Path

from llm_rl.training import fail, need_reports, parse, write_text_whole
from scripts.several_answers.decoders import tables as decoder_tables
from scripts.several_answers.further import FURTHER, command_of, commands_in, sections
from scripts.several_answers.no_answers import table as few_answers
from scripts.several_answers.outcome_tables import outcomes_in, tables
from scripts.several_answers.reading_order import TITLE as ORDER_TITLE
from scripts.several_answers.reading_order import table as reading_order
from sudoku_dllm.several.report import draw
from sudoku_dllm.trials import Records

PICTURE = "several_answers.png"
HEADER = """# Several right answers: what a reward wins, and what a label

Made by `python -m scripts.several_answers.study`; do not edit.

A board with few clues has many completions, and each is right. A model that matches them has the right marginals, and
yet the cells that one pass fills clash, as none sees the others: [the ceilings](../data/study/ceilings/tables.md) count
what is left. More random grids cannot mend that. Three things can: a label that settles on one completion of each
board, where somebody has one; a rule of the game at decoding, never to fill two peers in one pass; or a reward.

- **A label that is a rule wins at four cells a pass and more.** The least completion, read as a number, can be worked
  out cell by cell, and a model that learns it completes 68 % at four cells and 43 % at nine; the solver's first
  completion, which hangs on the order of its search, 47 and 13 %; judged decisions 55 and 17 %. It takes
  somebody who has such a rule and can compute it, one cell a pass is worse (87 %, judged decisions 94 %), and of the
  variety nothing is left: 200 draws from the empty board give one grid or two. That it goes from left to right is not
  what counts: the least completion with the cells read in a random order is learned as well, 91 % at one cell and 64 at
  four, and only at nine behind (31; two seeds).
- **Without an answer being shown, 50 points over SFT on random grids**: judged decisions, for which a solver only says
  what can still be completed, take four cells a pass to 55 %, where SFT completes 5 % and its ceiling is 7 %. One cell
  a pass is as good as before. They are 7 points ahead of the solver's first completion at four and at six cells, both
  intervals clear of zero, 18 ahead of the same label at the states that the policy visits, 16 ahead of own valid
  decodes as labels, and 23 ahead of the group-relative policy gradient of whole trajectories.
- **A reward behind the label** (half of the time for each) is 7 points ahead of the label alone at one cell a pass and
  5 at two, level with it at four, and behind by 4 at six and 8 at nine, all but the level one clear of zero in both
  intervals. At two cells labels without peers in a pass are as good. With four times the time (two seeds) both have
  learned more, 91 / 87 / 75 / 66 / 55 % by the label alone and 96 / 89 / 78 / 59 / 45 with the reward behind it: 5
  points ahead at one cell, 10 behind at nine, both clear in both intervals, and at four 3, which could be chance. So
  what held four cells below 70 % was the budget.
- **Where no label has a rule, what needs no training comes closest**: where no pass fills two peers, the solver's first
  completion reaches 50 % at four cells in 9 passes instead of 8. Judged decisions gain nothing by that exclusion: they
  fill peers in one pass as often as chance would, and make them agree.
- **It is the order that learns**: with the gradient of the positions alone, which moves the digits only as far as their
  margins say which cells to fill, all but 4 points of judged decisions' are there at four cells (over seeds the
  interval holds zero) and all at one; without it 21 points are lost at four cells and 24 at one, both intervals clear.
- **Where a pass fills as many cells as it is sure of**, by a bound on their entropies, 90 % of the boards take 18
  passes after judged decisions and 17 behind the label, where a fixed number takes 28 and 26; the least completion
  alone reaches 75 % in ten and 90 % in none.
- **The first term costs**: roll-outs of 16 trajectories a board that end at an error, judged decisions with and without
  the policy gradient of whole trajectories at weight 0.3, two seeds: 46.4 and 51.9 % at four cells
  ([log.md](log.md)).
- **Other sizes say the same**: on 4×4, where the label is learned in a minute, it is 35 points ahead of judged
  decisions at four cells, and a reward behind it costs 6; on 9×9, in a quarter of the passes the label has 57 %, judged
  decisions 25 %, 32 less, clear in both intervals, and the reward behind the label 58 %; at two cells that is 80 %, 4
  more than the best label, clear in both intervals too.
- **The price is variety**: of 200 drawn decodes of the empty board three quarters are valid after judged decisions, but
  only 21 different; of the 28 % of the solver's first completion nearly all are different.
- **From no answer at all a check alone teaches 4×4**: a model that has seen random digits and no grid, and is told of
  each decision whether the board can still be completed, completes 98 % of the held-out boards one cell a pass after
  25 CPU minutes (two seeds); no supervision can begin there ([below](#few-answers-and-none)).
- **Few answers**: from 16 grids known by heart a check alone brings the rules of 4×4 in some seeds; images of the 16
  under the symmetries of Sudoku bring them in all, and on 6×6 they alone do ([below](#few-answers-and-none)).

![Per cent of held-out boards completed validly, by cells a pass](images/several_answers.png)

## What was done

- **Boards**: 6×6 with 1 to 8 clues, each number as likely, cells of a uniform random grid; 20,000 to train on, others
  for each seed, and 400 held out, none of which is trained on. *Valid* is a full grid without a clash that keeps the
  clues. Decoding is greedy by margin, nothing is drawn.
- **Start**: `llada-sudoku6x6-converged`, 0.2M parameters, which has seen boards with one answer alone. It writes the
  end token into cells of nearly blank boards, so it completes fewer than any training from it.
- **Arms**, each as many updates as cost 200 CPU seconds: masked-diffusion SFT on the *random grids* that the boards
  were taken from; SFT on the *solver's first completion* of each board, on its *least completion* read as a number, and
  on the one *nearest to a pattern*, the least completion of the empty board; the *cross-entropy at visited states*,
  which has the roll-outs of judged decisions and for a label the solver's first completion of each state; and [*judged
  decisions*](objective.md#judged-decisions), four cells a decision, 32 decisions judged at each state, log F, with the
  gradient of positions and tokens, or of one of them alone; the least completion for half of the updates, then
  judged decisions for half of theirs; SFT on the start's *own valid decodes*; and the *group-relative policy gradient*
  of whole trajectories. Noise as a further input, the same for all cells, is no control that had to be trained: drawn
  independently of the answers it leaves the marginals as they are, and the ceiling with them.
- **Rates** were chosen on other boards (`--test_seed 0`), one seed, 120 CPU seconds, of two or three each, by what the
  better way of decoding gives at four cells: judged decisions 4.5e-4, after the label 2e-4, canonical completions 2e-3,
  own decodes, visited states and random grids 1e-3, the policy gradient 1e-4 ([log.md](log.md)).
- **Intervals**: [over boards] [over seeds], 95 %, in points, paired by board and seed; bold where neither holds 0.
- The *ceiling* is what a model with exactly the marginals of random grids completes.
- **4×4 and 9×9**: the same recipe and rates, none of them chosen anew; the first from a model that has learned random
  grids for 400 updates, the second from `data/start9x9`. The cost of an update differs there, so the budgets are
  equal in what the arms of 6×6 spend an update, and CPU seconds say by how much the labels had more on 9×9. CPU seconds
  of 9×9, of four times the time and of few answers were taken on busy cores without AVX-512, and are up to twice too
  large.
"""
TABLES = """# Tables of several right answers

Made by `python -m scripts.several_answers.study`; do not edit. What was done, and what to make of it, is in
[docs/several_answers.md](../../../docs/several_answers.md).

## Words of the tables

Where a cell has two figures the second is with no two peers in a pass. Of passes of four cells that begin from a board
which can be completed: *joint*, after how many it still can be: the tokens of the pass agree; *peers*, pairs of cells
of one row, column or box among those filled together, with what a random choice of open cells would give; *definite*,
cells whose digit was the same in all completions when they were filled, with the same floor. *Valid*, *distinct grids*
and *up to digits* (grids that differ by more than a renaming of the digits) are of 200 decodes of the empty board,
positions at T_pos 0.5 and tokens at 1.
"""
SHOWN = "Valid grids, the order free"
FEW = """## Few answers, and none

What a check alone makes of a model that has hardly seen a solution: boards of 4×4 with 0 to 4 clues and of 6×6 with 1
to 8, 0.2M parameters from random weights, SFT on so many grids until they are known by heart, then judged decisions of
one cell, the solver as judge; or as much SFT on the same grids, on these with their digits renamed in every way, or on
their images under all symmetries of Sudoku. Per cent of 400 held-out boards valid:

{table}
- **At that cost the task's symmetries, used as data, are worth more than a check**: images of the same 16 grids
  complete 99 % of the 4×4 boards and images of 64 grids 90 % of the 6×6 boards, at one cell a pass.
- **A check alone brings the rules of 4×4 in some seeds** within 2,500 updates, from what was known by heart and no
  further grid, and nothing on 6×6, where the first right board is never met.
- **Without a single grid it takes patience**: of the decisions of a start that has seen random digits 28 % are right;
  240 CPU seconds bring 6.5 % of the boards ([log.md](log.md)), six times as many 98 and 99 %, at one cell a pass, for
  which it was trained. Nothing was shown but whether a solver still finds a completion. Where no answer is there, SFT
  has nothing to learn from, nor has SFT on own valid decodes: the start makes none.

`python -m scripts.several_answers.no_answers --grids 16 --seeds 0 1 2`, `--size 6 --grids 64`, and
`--grids 0 --seeds 0 1 --updates 27000`.
"""
FOOTER = """## Run it again

    python -m scripts.several_answers.no_answers --grids 5000 --updates 1 --output_dir runs/base4x4
{commands}
    python -m scripts.several_answers.decoders
    python -m scripts.several_answers.reading_order --seeds 0 1
    python -m scripts.study.pack runs/several_answers data/study/several_answers
    python -m scripts.several_answers.study

Budgets are numbers of updates, so a busy machine gives the same result.
{machines}.
"""


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/study.py`."""

    study: str = field(
        default="data/study/several_answers", metadata={"help": "Folder of the results, of a run or packed."}
    )
    tables: Path = field(
        default=Path("data/study/several_answers/tables.md"), metadata={"help": "File of all tables, to be written."}
    )
    page: str = field(
        default="docs/several_answers.md", metadata={"help": "Page to write; its picture goes to images/ beside."}
    )


def main() -> None:
    """Write page, picture and tables."""
    (args,) = parse(Arguments, description=__doc__, places=("tables",))
    need_reports()
    folder, page = Path(args.study), Path(args.page)
    if not Records(folder).jobs():
        fail(f"--study {folder} has no results; see --help for how to make them")
    outcomes = outcomes_in(folder)
    machines = sorted({result["machine"] for result in outcomes.results.values()})
    (page.parent / "images").mkdir(parents=True, exist_ok=True)
    draw(outcomes, page.parent / "images" / PICTURE)
    shown = {**tables(outcomes), **dict(decoder_tables(Records(folder))), **dict(sections(folder))}
    if other_order := reading_order(Records(folder)):
        shown |= {ORDER_TITLE: other_order}
    for further in FURTHER:
        shown |= {f"{further.title}: {name}": one for name, one in decoder_tables(Records(folder), further.name)}
    titled = {title: f"## {title}\n\n{table}" for title, table in shown.items()}
    write_text_whole(args.tables, "\n".join([TABLES, *titled.values()]))
    commands = [command_of(outcomes, {}), *commands_in(folder)]
    footer = FOOTER.format(machines="; ".join(machines), commands="\n".join(commands))
    few = FEW.format(table=few_answers(Records(folder)))
    write_text_whole(page, "\n".join([HEADER, titled[SHOWN], few, footer]))
    print(f"{page} and {args.tables} are written.")


if __name__ == "__main__":
    main()
