"""The page docs/several_answers.md, from what its study kept.

python scripts/train_sudoku.py --arms ARM … --seeds 0 1 2 3 4 --output_dir runs/several_answers    # the study
python -m scripts.study.pack runs/several_answers data/study/several_answers
python -m scripts.several_answers.study --page docs/several_answers.md
"""

from dataclasses import dataclass, field
from pathlib import Path

from llm_rl.training import fail, need_reports, parse, write_text_whole
from scripts.study.tables import markdown_table
from sudoku_dllm.several.arguments import AFTER_LABEL, ARMS, RecipeArguments, ScriptArguments
from sudoku_dllm.several.report import SHARES, TITLES, Outcomes, ceiling_of, draw
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials import Records, arm_of
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.statistics import Estimate

PICTURE = "several_answers.png"
LEADERS = {"judged": "Judged decisions", AFTER_LABEL: "The least completion, then judged decisions,"}
HEADER = """# Several right answers: what a reward wins, and what a label

Made by `python -m scripts.several_answers.study`; do not edit.

A board with few clues has many completions, and each is right. A model that matches them has the right marginals, and
yet the cells that one pass fills clash, as none sees the others: [ceilings.md](ceilings.md) counts what is left. More
random grids cannot mend that. Three things can: a label that settles on one completion of each board, where somebody
has one; a rule of the game at decoding, never to fill two peers in one pass; or a reward.

- **A label that is a rule wins at four cells a pass and more.** The least completion, read as a number, can be worked
  out from left to right, and a model that learns it completes 68 % at four cells and 43 % at nine; the solver's first
  completion, which hangs on the order of its search, 47 and 13 %; judged decisions 55 and 17 %. It takes
  somebody who has such a rule and can compute it, one cell a pass is worse (87 %, judged decisions 94 %), and of the
  variety nothing is left: 200 draws from the empty board give one grid or two.
- **Without an answer being shown, 50 points over SFT on random grids**: judged decisions, for which a solver only says
  what can still be completed, take four cells a pass to 55 %, where SFT completes 5 % and its ceiling is 7 %. One cell
  a pass is as good as before. They are 7 points ahead of the solver's first completion at four and at six cells, both
  intervals clear of zero, and 18 ahead of the same label at the states that the policy visits.
- **A reward behind the label** (half of the time for each) is 7 points ahead of the label alone at one cell a pass and
  5 at two, level with it at four, and behind by 4 at six and 8 at nine, all but the level one clear of zero in both
  intervals. At two cells labels without peers in a pass are as good.
- **Where no label has a rule, what needs no training comes closest**: where no pass fills two peers, the solver's first
  completion reaches 50 % at four cells in 9 passes instead of 8. Judged decisions gain nothing by that exclusion: they
  fill peers in one pass as often as chance would, and make them agree.
- **It is the order that learns**: with the gradient of the positions alone, which moves the digits only as far as their
  margins say which cells to fill, all but 4 points of judged decisions' are there at four cells (over seeds the
  interval holds zero) and all at one; without it 21 points are lost at four cells and 24 at one, both intervals clear.
- **The price is variety**: of 200 drawn decodes of the empty board three quarters are valid after judged decisions, but
  only 21 different; of the 28 % of the solver's first completion nearly all are different.
- **Few answers**: from 16 grids known by heart, a check alone brings the rules; renaming the digits of the 16 does as
  much ([below](#few-answers-and-none)).

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
  gradient of positions and tokens, or of one of them alone; and the least completion for half of the updates, then
  judged decisions for half of theirs. Of SFT on the start's *own valid decodes* and of the *group-relative policy
  gradient* of whole trajectories there is one seed.
- **Rates** were chosen on other boards (`--test_seed 0`), one seed, 120 CPU seconds, of two or three each, by what the
  better way of decoding gives at four cells: judged decisions 4.5e-4, after the label 2e-4, canonical completions 2e-3,
  own decodes, visited states and random grids 1e-3, the policy gradient 1e-4 ([log.md](log.md)).
- **Intervals**: [over boards] [over seeds], 95 %, in points, paired by board and seed; bold where neither holds 0.
- The *ceiling* is what a model with exactly the marginals of random grids completes.
"""
FEW = """## Few answers, and none

What a check alone makes of a model that has hardly seen a solution: 4×4 boards with 0 to 4 clues, 0.2M parameters from
random weights, SFT on so many grids until they are known by heart, then 2,500 updates of judged decisions of one cell
(about 90 CPU seconds), the solver as judge; or as many seconds of SFT on the same grids with their digits renamed in
all 24 ways. Per cent of 400 held-out boards valid at one cell a pass, seed by seed:

| grids shown | start | judged decisions | SFT on the same grids | SFT on them, digits renamed |
| --- | --- | --- | --- | --- |
| 16 | 0.2, 1.5, 0.5, 0.0, 0.0 | 50.2, 83.8, 40.5, 79.5, 0.0 | 0.0, 0.8, 0.0, 0.2, 0.0 | –, –, 70.2, 45.5, 68.0 |
| 64 | 6.2, 9.0 | 82.0, 82.0 | 6.2, 4.8 | |
| 256 | 80.5, 90.8 | 96.8, 94.0 | 80.0, 71.0 | |

- **The check brings the rules**: from 16 grids it takes four seeds of five from about 0 to between 40 and 84 %. Who
  knows that digits can be renamed gets there without it, more evenly, and is ahead at two and four cells a pass (36 to
  53 and 20 to 23 %, where judged decisions of one cell have 0 to 35 and 0 to 7 %).
- **Without a single grid** (a start that has seen random digits) 240 CPU seconds bring 6.5 % and 90 none
  ([log.md](log.md)), where SFT on true grids takes 60 seconds to 96 %.

`python -m scripts.several_answers.no_answers --grids 16 --seeds 0 1 2 3 4`, and `--grids 64 256 --seeds 0 1`.
"""
FOOTER = """## Words of the last table

Of passes of four cells that begin from a board which can be completed: *joint*, after how many it still can be: the
tokens of the pass agree; *peers*, pairs of cells of one row, column or box among those filled together, with what a
random choice of open cells would give; *definite*, cells whose digit was the same in all completions when they were
filled, with the same floor. *Valid*, *distinct grids* and *up to digits* (grids that differ by more than a renaming of
the digits) are of 200 decodes of the empty board, positions at T_pos 0.5 and tokens at 1.

## Run it again

    python scripts/train_sudoku.py --output_dir runs/several_answers --seeds 0 1 2 3 4 \\
        --arms {arms}
    python -m scripts.study.pack runs/several_answers data/study/several_answers
    python -m scripts.several_answers.study

Budgets are numbers of updates, so a busy machine gives the same result. {machines}.
"""


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/study.py`."""

    study: str = field(
        default="data/study/several_answers", metadata={"help": "Folder of the results, of a run or packed."}
    )
    page: str = field(
        default="docs/several_answers.md", metadata={"help": "Page to write; its picture goes to images/ beside."}
    )


def outcomes_in(folder: Path) -> Outcomes:
    """The results of the default boards and recipe that lie in a folder, arms in their order."""
    names = Records(folder).jobs()
    found = [Job(arm_of(name), int(name.rpartition("seed")[2])) for name in names]
    order = (BASE, *ARMS)
    return Outcomes(
        ScriptArguments(),
        RecipeArguments(report_to="none", use_cpu=True),
        folder,
        sorted(found, key=lambda job: (order.index(job.arm), job.seed)),
    )


def interval(found: Estimate) -> str:
    """A difference in points with its intervals over boards and, of several, over seeds; bold where neither holds 0."""
    intervals = [found.puzzles] if found.seeds is None else [found.puzzles, found.seeds]
    ends = (f"[{100 * low:+.1f}, {100 * high:+.1f}]" for low, high in intervals)
    mark = "**" if found.excludes_zero else ""
    return f"{mark}{100 * found.mean:+.1f}{mark} {' '.join(ends)}"


def tables(outcomes: Outcomes) -> dict[str, str]:
    """The tables by their titles."""
    k = outcomes.args.tokens_per_step
    found = {
        "Valid grids, the order free": valid_table(outcomes, exclude_peers=False),
        "Valid grids, never two peers in a pass": valid_table(outcomes, exclude_peers=True),
    }
    for leader in outcomes.leaders:
        name = LEADERS[leader]
        found |= {
            f"{name} minus the others, the order free": differences_table(outcomes, leader),
            f"{name} minus the best control, each control decoded the better way": controls_table(outcomes, leader),
        }
    return found | {
        f"Valid grids at {k} cells a pass by clues, the order free": clues_table(outcomes, k),
        f"Passes of {k} cells, and {outcomes.script.draws} drawn decodes of the empty board": passes_table(outcomes, k),
    }


def a_pass(outcomes: Outcomes) -> list[str]:
    """Heads of the columns by cells a pass."""
    return [f"{cells} a pass" for cells in outcomes.script.eval_tokens]


def valid_table(outcomes: Outcomes, *, exclude_peers: bool) -> str:
    """Per cent valid by arm and cells a pass, seeds together, with the ceiling."""
    script, rows = outcomes.script, []
    for arm in outcomes.arms:
        rates = [100 * outcomes.valid(arm, cells, exclude_peers).mean() for cells in script.eval_tokens]
        updates = {f"{result['updates']:,}" for job, result in outcomes.results.items() if job.arm == arm}
        seeds = sum(job.arm == arm for job in outcomes.results)
        cost = [", ".join(sorted(updates)), f"{outcomes.spent(arm):.0f}", str(seeds)]
        rows.append([TITLES[arm], *(f"{rate:.1f}" for rate in rates), *cost])
    ceiling = ceiling_of(script, "no peers" if exclude_peers else "free") or {}
    told = [f"{ceiling[cells]:.1f}" if cells in ceiling else "" for cells in script.eval_tokens]
    rows.append(["ceiling: the marginals of random grids", *told, "", "", ""])
    return markdown_table(["trained by", *a_pass(outcomes), "updates", "CPU s", "seeds"], rows)


def differences_table(outcomes: Outcomes, leader: str) -> str:
    """The leader minus each other arm, of the seeds that both have."""
    rows = []
    for arm in outcomes.arms:
        if arm != leader:
            each = [
                outcomes.difference(leader, arm, cells, exclude_peers=False) for cells in outcomes.script.eval_tokens
            ]
            rows.append([TITLES[arm], *map(interval, each)])
    return markdown_table(["minus", *a_pass(outcomes)], rows)


def controls_table(outcomes: Outcomes, leader: str) -> str:
    """The leader, decoded freely, minus the best control at each number of cells a pass."""
    rows = []
    for cells in outcomes.script.eval_tokens:
        arm, exclude = outcomes.best_control(cells)
        ways = ((leader, False), (arm, exclude))
        passes = [f"{outcomes.column(name, cells, way, 'passes').mean():.1f}" for name, way in ways]
        share = f"{100 * outcomes.valid(arm, cells, exclude).mean():.1f}"
        difference = interval(outcomes.difference(leader, arm, cells, exclude_peers=exclude))
        rows.append([str(cells), f"{TITLES[arm]}{', no peers' * exclude}", share, difference, ", ".join(passes)])
    head = ["cells a pass", "best control", "valid", "minus it", "passes, of both"]
    return markdown_table(head, rows)


def clues_table(outcomes: Outcomes, k: int) -> str:
    """Per cent valid of the boards with so many clues, two numbers of clues together."""
    boards = Setting.load(outcomes.script, outcomes.args).test_boards()
    clues, (low, high) = (boards > 0).sum(1), outcomes.script.clues
    ranges = [(first, min(first + 1, high)) for first in range(low, high + 1, 2)]
    rows = []
    for arm in outcomes.arms:
        valid = outcomes.valid(arm, k)  # (S, N)
        rates = (100 * valid[:, (clues >= first) & (clues <= last)].mean() for first, last in ranges)
        rows.append([TITLES[arm], *(f"{rate:.1f}" for rate in rates)])
    return markdown_table(["trained by", *(f"{first} or {last} clues" for first, last in ranges)], rows)


def passes_table(outcomes: Outcomes, k: int) -> str:
    """What passes are like, with what cells drawn at random would give, and how many grids are left."""
    rows = []
    for arm in outcomes.arms:
        joint, *shares = (100 * outcomes.pooled(arm, k, *names).mean for names in SHARES)
        told = [f"{share:.1f} ({floor:.1f})" for share, floor in zip(shares[::2], shares[1::2], strict=True)]
        grids = [f"{outcomes.empty_board(arm, name):.1f}" for name in ("distinct", "patterns")]
        rows.append([TITLES[arm], f"{joint:.1f}", *told, f"{100 * outcomes.empty_board(arm, 'valid'):.1f}", *grids])
    head = ["trained by", "joint", "peers (random)", "definite (random)", "valid", "distinct grids", "up to digits"]
    return markdown_table(head, rows)


def main() -> None:
    """Write the page and its picture."""
    (args,) = parse(Arguments, description=__doc__)
    need_reports()
    folder, page = Path(args.study), Path(args.page)
    if not Records(folder).jobs():
        fail(f"--study {folder} has no results; see --help for how to make them")
    outcomes = outcomes_in(folder)
    machines = sorted({result["machine"] for result in outcomes.results.values()})
    (page.parent / "images").mkdir(parents=True, exist_ok=True)
    draw(outcomes, page.parent / "images" / PICTURE)
    parts = [HEADER, *(f"## {title}\n\n{table}" for title, table in tables(outcomes).items())]
    arms = " ".join(arm for arm in outcomes.arms if arm != BASE)
    write_text_whole(page, "\n".join([*parts, FEW, FOOTER.format(machines="; ".join(machines), arms=arms)]))
    print(f"{page} is written.")


if __name__ == "__main__":
    main()
