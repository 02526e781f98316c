"""Judge the kept models of a run again: what was trained before there were guards gets their outcomes.

Each job that is done and lacks them is judged as `train_sudoku.py` judges it now, and its outcomes are replaced; what
it cost stays. Then the run is reported again, but for arms that are gone, whose outcomes alone are written.

    python -m scripts.several_answers.guards runs/several_answers
"""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path

from dllm_rl.models.shipped import load
from llm_rl.training import fail, need_reports, parse, user_errors
from llm_rl.training.output_folder import RECORD
from scripts.several_answers.outcome_tables import KEPT
from sudoku_dllm.several.arguments import ARMS, RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import Several
from sudoku_dllm.several.judging import GUARDS
from sudoku_dllm.several.report import Outcomes, valid
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials import Records, job_name, write_job
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job, Progress, in_processes, in_this_process
from sudoku_dllm.trials.training import MODEL


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/guards.py`."""

    run: Path = field(metadata={"help": "Run folder of scripts/train_sudoku.py, with the models of its arms."})


class Again(Several):
    """The comparison, whose jobs are judged without being trained."""

    def run(self, job: Job, folder: Path, *, resume: bool, training: Progress, judging: Progress) -> None:
        """Judge the model of a job that is done, and keep what it cost."""
        self.progress = judging
        model = load(self.script.model if job.arm == BASE else str(folder / MODEL)).model.to(self.args.device)
        figures, outcomes = self.judge(model, job.seed, folder)
        cost = Records(Path(self.args.output_dir)).result(job_name(job.arm, seed=job.seed)) or {}
        write_job(folder, {**cost, **figures}, outcomes)


def main() -> None:
    """Judge what lacks the guards, as many jobs at a time as the run had, and report."""
    (args,) = parse(Arguments, description=__doc__, places=("run",))
    need_reports()
    if not (args.run / RECORD).is_file():
        fail(f"{args.run} has no {RECORD}; give the folder that scripts/train_sudoku.py wrote")
    told = json.loads((args.run / RECORD).read_text(encoding="utf-8"))
    told["arms"] = [arm for arm in told["arms"] if arm in ARMS]
    with user_errors(OSError, ValueError):
        script = ScriptArguments(**{name: told[name] for name in (item.name for item in fields(ScriptArguments))})
        recipe = RecipeArguments(
            output_dir=str(args.run), report_to="none", use_cpu=told["use_cpu"], tokens_per_step=told["tokens_per_step"]
        )
        found = Outcomes(script, recipe, args.run, KEPT)
        script.arms = [arm for arm in found.arms if arm in ARMS]
        script.seeds = sorted({job.seed for job in found.results})
        names = {valid(script.size**2, guard) for guard in GUARDS}
        left = [job for job in found.results if not names <= found.outcomes[job].keys()]
        again = Again(Setting.load(script, recipe))
        if left and not again.processes:
            in_this_process(again, args.run, left, resume=False)
        elif left and (failed := in_processes(again, args.run, left, again.processes, resume=False)):
            fail(f"{len(failed)} of {len(left)} jobs could not be judged; mend what is said above and give it again")
        again.report(args.run, [job for job in found.results if job.arm in (BASE, *ARMS)])


if __name__ == "__main__":
    main()
