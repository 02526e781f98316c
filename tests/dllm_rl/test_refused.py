"""What options, arguments and calls of the package refuse, with an error that names it."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from dllm_rl.decoding import (
    Decoding,
    EntropyBound,
    Strategy,
    TakeBack,
    Threshold,
    decode,
    evaluate,
    paired_difference,
    semi_autoregressive,
    steps_from_maps,
)
from dllm_rl.decoding.noise import inverse_cdf, puzzle_noise
from dllm_rl.decoding.rollouts import rollout
from dllm_rl.decoding.trajectories import micro_batches
from dllm_rl.policy import NEG_INF, PolicyConfig, annealed
from dllm_rl.sft import SftDataset
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from dllm_rl.terms.judged_decisions import JudgedDecisionsConfig
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.training.two_rates import TwoRateOptimizer
from dllm_rl.training.update import objective_pass
from llm_rl.training.lora import add_lora
from tests.dllm_rl.helpers.evaluations import FIRST, evaluation
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.tiny_sums import SumTask, sum_model
from tests.dllm_rl.helpers.tiny_training import arguments, puzzles, sft_trainer, sudoku_task, trained, trainer
from tests.dllm_rl.helpers.update_checks import DRAWN
from tests.dllm_rl.sudoku.test_several_answers import few_clues
from tests.helpers.refusals import refused

WEIGHTS = ("policy_weight", "f_weight", "ce_weight", "judged_weight", "kept_weight")
ALONE = {"policy_weight": 0.0, "f_weight": 0.0, "kept_weight": 1.0, "num_generations": 1}
OWN = {"on_error": "guard", "ce_target": "own"}
RATES = {"rl_learning_rate": 1e-3, "sft_learning_rate": 1e-4}
JUDGED_ALONE = {"policy_weight": 0.0, "f_weight": 0.0, "judged_weight": 1.0}
ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    # What cannot act.
    ({"num_generations": 1}, "num_generations=1 with policy_weight=1.0: .* at least 2 .* or policy_weight=0"),
    ({"lora_alpha": 8}, "lora_alpha=8 does nothing without adapters; set lora_r, or leave it out"),
    ({"lora_target_modules": ["q_proj"]}, "lora_target_modules=.* does nothing without adapters"),
    ({"judged_draws": 8}, "judged_draws=8 does nothing without a term that draws; set judged_weight"),
    ({"judged_form": "linear"}, "judged_form='linear' does nothing while judged_weight is 0"),
    ({**ALONE, **OWN}, "ce_target='own' does nothing while ce_weight is 0"),
    ({"on_error": "guard"}, "on_error='guard' with policy_weight=1.0, f_weight=1.0 and num_generations=8: .* no"),
    ({"ce_weight": 1.0, "ce_target": "own"}, "ce_target='own' with on_error='end' .*; set on_error='guard'"),
    ({**ALONE, **OWN, "ce_weight": 1.0, "ce_on": "definite"}, "ce_on='definite' does nothing with ce_target='own'"),
    ({"ce_on": "definite"}, "ce_on='definite' does nothing while ce_weight is 0; set ce_weight"),
    ({"policy_weight": 0.0, "rl_learning_rate": 1e-3}, "rl_learning_rate=0.001 does nothing without its terms"),
    ({"f_weight": 0.0, "sft_learning_rate": 1e-3}, "sft_learning_rate=0.001 does nothing without its terms"),
    # What is no value.
    ({"num_generations": 0}, "num_generations=0"),
    ({"num_iterations": 0}, "num_iterations=0"),
    ({"tokens_per_step": 0}, "tokens_per_step=0 must be at least 1"),
    ({"on_error": "continue"}, "on_error is 'continue'; choose one of 'end', 'correct'"),
    ({"f_form": "square"}, "f_form is 'square'"),
    ({"ce_on": "singles"}, "ce_on is 'singles'"),
    ({"position_temperature": 0.0}, "position_temperature must be positive"),
    ({"position_temperature": math.inf}, "position_temperature must be positive and finite"),
    ({"position_temperature_end": 0.0}, "position_temperature must be positive"),
    ({"lam": -0.5}, "lam must be 0 or larger"),
    ({"lam": math.inf}, "lam must be 0 or larger and finite"),
    ({"lam": "nan"}, "lam must be 0 or larger and finite"),
    ({"reduction": "max"}, "reduction is 'max'; choose one of 'sum', 'mean'"),
    ({"state_fraction": 0.5, "num_iterations": 2}, "with 2 optimizer steps on a roll-out: the ratio"),
    ({"num_mini_batches": 0}, "num_mini_batches=0 must be at least 1"),
    ({"num_mini_batches": 3}, "num_mini_batches=3 with policy_weight=1.0 and f_weight=1.0: these terms need"),
    ({"num_mini_batches": 3, **JUDGED_ALONE, "state_fraction": 0.5}, "with 3 optimizer steps on a roll-out: the ratio"),
    ({"torch_compile": True}, "for every number of states in a pass; leave it out"),
    ({"state_fraction": 0.0}, "state_fraction must lie in"),
    ({"kept_weight": -1.0}, "kept_weight=-1.0 must be a finite number, 0 or larger"),
    ({"ce_target": "best"}, "ce_target is 'best'"),
    *(({name: math.inf}, f"{name}=inf must be a finite number, 0 or larger") for name in WEIGHTS),
    ({"tokens_per_step": 2.5}, "tokens_per_step=2.5 must be at least 1 and a whole number"),
    ({"judged_weight": 1.0, "judged_draws": 2.5}, "judged_draws=2.5 must be at least 2 and a whole number: they"),
    ({"advantage_baseline": "ema"}, "advantage_baseline is 'ema'; choose one of 'mean', 'leave_one_out'"),
    # What does not go together: a scaler would divide each gradient twice.
    ({**RATES, "shard": True}, "is not supported with shard; give one rate to both terms"),
    ({**RATES, "fp16": True}, "is not supported with fp16; give one rate to both terms"),
    ({"shard": True, "fp16": True}, "fp16=True is not supported with shard"),
]


def decoding(strategy: Any = "margin", **options: Any) -> Decoding:
    return Decoding(strategy, **{"tokens_per_step": None, **options})


def taking_back(**options: Any) -> TakeBack:
    return TakeBack(**{"max_passes": 8, "remask_threshold": 0.5, **options})


RULE = taking_back()
OPTIONS = {
    decoding: [
        ({"tokens_per_step": 0}, "tokens_per_step=0 must be at least 1"),
        ({"on_error": "stop"}, "on_error is 'stop'; choose one of 'end'"),
        ({"strategy": "entropie"}, "'entropie' is unknown; choose one of random, probability, margin"),
        ({"strategy": "policy", "limit": Threshold(-1.0)}, r"Threshold\(score=-1.0\) does not fit strategy 'policy'"),
        ({"strategy": "random", "limit": EntropyBound(0.1)}, r"EntropyBound\(nats=0.1\) does not fit .* 'random'"),
        ({"limit": Threshold(2.0), "tokens_per_step": 1}, r"Threshold\(score=2.0\) decides nothing at tokens_"),
        ({"limit": EntropyBound(0.1), "tokens_per_step": 1}, r"EntropyBound\(nats=0.1\) decides nothing at"),
        ({"draws": 8}, "draws=8 does nothing with on_error='continue'; use 'redraw'"),
        ({"strategy": "probability", "limit": Threshold(0.9)}, r"reached by none .* in \[-inf, 0\] .*log\(0.9\)"),
        ({"strategy": "semi_autoregressive", "limit": Threshold(0.9)}, r"reached by none .*log\(0.9\)"),
        ({"strategy": "entropy", "limit": Threshold(0.5)}, "reached by none .* minus the nats of the entropy"),
        ({"guard": "solver"}, "guard='solver' is no guard; use one of"),
        ({"guard": "rules", "take_back": RULE}, "writes or removes tokens"),
        ({"guard": "rules", "on_error": "correct"}, "on_error='correct' writes or removes"),
        ({"limit": Threshold(25.0)}, r"reached by none .* in \[0, 20.72\]"),
        ({"limit": Threshold(0.0)}, "reached by all of the scores"),
        ({"strategy": "margin_difference", "limit": Threshold(1.5)}, r"reached by none .* in \[0, 1\]"),
        ({"take_back": RULE, "on_error": "end"}, "on_error='end' leaves no error to take back; use on_error='con"),
        ({"take_back": RULE, "on_error": "correct"}, "on_error='correct' leaves no error to take back; use on_error="),
        *(({"strategy": name, "take_back": RULE}, f"strategy '{name}' draws") for name in ("policy", "random")),
    ],
    taking_back: [
        ({"max_passes": 0}, "max_passes=0 must be at least 1"),
        ({"remask_threshold": 0.0}, "remask_threshold=0.0 must be a probability above 0"),
        ({"remask_threshold": 1.5}, "remask_threshold=1.5 must be a probability above 0"),
        ({"remask_count": 0}, "remask_count=0 must be at least 1"),
        ({"edit_threshold": 1.0}, "edit_threshold=1.0 must lie between 0 and 1"),
        ({"remask_threshold": None}, "nothing would be taken back"),
        ({"max_passes": 2}, "max_passes=2 leaves no pass that fills again what is masked again; give 3 or more"),
        *(({"restart_share": share}, rf"restart_share={share} must lie in \[0, 1\]") for share in (-0.1, 1.5)),
    ],
    EntropyBound: [
        ({"nats": nats}, f"an entropy bound of {nats} nats must be at least 0") for nats in (-0.1, math.nan, math.inf)
    ],
    Threshold: [({"score": math.nan}, "a threshold of nan is none")],
    semi_autoregressive: [({"block_length": 0}, "block_length=0")],
    PolicyConfig: [
        ({name: value}, name)
        for name in ("position_temperature", "token_temperature", "margin_eps")
        for value in (0.0, -1.0, math.nan)
    ],
    ObjectiveConfig: [
        ({"lam": -0.1}, "lam.*-0.1"),
        ({"lam": math.nan}, "lam"),
        ({"lam": math.inf}, "lam"),
        ({"lam": "0.5"}, "lam"),
        ({"reduction": "max"}, "'max'"),
        ({"advantage_baseline": "median"}, "median"),
        ({"advantage_scale": "iqr"}, "iqr"),
    ],
    JudgedDecisionsConfig: [
        ({"judged_draws": 1}, "judged_draws"),
        ({"judged_weight": -1.0}, "judged_weight"),
        ({"judged_form": "square"}, "judged_form"),
        ({"judged_reward": "solved"}, "judged_reward"),
    ],
    lambda **options: add_lora(make_model(), **options): [
        ({"r": 0}, "r >= 1"),
        ({"alpha": 0}, "alpha > 0"),
        ({"dropout": 1.0}, "dropout < 1"),
        ({"target_modules": ["q_proj", "o_proj"]}, r"which are .*'q_proj'.*; it has no \['o_proj'\]"),
        ({"target_modules": []}, r"target_modules=\[\]"),
    ],
    make_model: [({"n_loops": 0}, "n_loops=0 must be at least 1")],
    lambda **options: SudokuTask(77, **options): [
        *(({"tail": tail}, f"tail '{tail}' needs tail_id") for tail in ("prefill", "scored")),
        ({"tail": "empty"}, "tail 'empty' is unknown"),
        ({"rule": "guess"}, r"rule 'guess' is unknown; choose one of .*naked_single"),
    ],
}
MASKED = torch.tensor([3, 3, 2, 2, 2, 1, 1, 1])
NOTHING = Strategy("nothing", lambda scores, definite: torch.full_like(scores.margins, NEG_INF))
FILLED = Strategy("filled", lambda scores, definite: torch.where(scores.row_of < 0, 0.0, NEG_INF))
BACK, AGAIN = TakeBack(24, remask_count=1), Decoding("margin", take_back=TakeBack(8, restart_share=0.5))
FIVE, PAIR = Decoding("definite_first", tokens_per_step=5, on_error="correct"), [(1, 2)]
CALLS = {
    r"fraction=1\.5": [lambda at: annealed(PolicyConfig(), 0.2, 1.5)],
    "position_temperature must be positive": [lambda at: annealed(PolicyConfig(), 0.0, 1.0)],
    "nothing can be drawn": [
        lambda at: inverse_cdf(torch.tensor([[0.0, math.nan]]), torch.zeros(1).double()),
        lambda at: inverse_cdf(torch.tensor([[0.0, math.inf]]), torch.zeros(1).double()),
    ],
    "seed=-1, step=0 and puzzle number 0 must be 0 or greater": [lambda at: puzzle_noise(-1, 0, [0], 1, 1)],
    "one length": [lambda at: steps_from_maps([[1], [1, 2]], 2), lambda at: steps_from_maps([], 2)],
    "count from 1": [lambda at: steps_from_maps([[0, 1]], 2)],
    "max_masked=2 does not hold one state with 3 masked positions": [lambda at: [*micro_batches(MASKED, 10, 20, 2)]],
    "max_tokens=9 does not hold one sequence of 10 tokens": [lambda at: [*micro_batches(MASKED, 10, 9, None)]],
    "max_tokens=8 ": [lambda at: at.decode("margin", max_tokens=8)],
    "on_error='correct' is for roll-outs": [lambda at: at.decode(decoding(on_error="correct"))],
    "'nothing' must give every state a finite score": [lambda at: at.decode(NOTHING)],
    "'filled' must give every state a finite score at a masked position": [
        lambda at: at.decode(FILLED),
        lambda at: at.rollout(Decoding(FILLED)),
    ],
    r"decode 0 took \d+ tokens back; its states are not kept": [
        lambda at: at.decode(Decoding("margin", take_back=BACK)).states_of(0)
    ],
    "SumBatch does not say which answers contradict": [lambda at: decode(sum_model(), SumTask().batch(PAIR), AGAIN)],
    "no problems": [lambda at: evaluate(at.model, [], SudokuTask(0))],
    "4 and 1 problems": [lambda at: paired_difference(FIRST, evaluation([1], [1], [1], [1]))],
    "tokens_per_step=None is for decodes": [lambda at: at.rollout(replace(DRAWN, tokens_per_step=None))],
    r"EntropyBound\(nats=0\.1\) is for": [lambda at: at.rollout(decoding(tokens_per_step=3, limit=EntropyBound(0.1)))],
    r"TakeBack\(max_passes=24, .* is for decodes": [lambda at: at.rollout(Decoding("margin", take_back=BACK))],
    "fills fewer positions a step than asked for; take tokens_per_step=1": [lambda at: at.rollout(FIVE)],
    "num_generations": [lambda at: at.rollout(num_generations=0)],
    "max_tokens=40 ": [lambda at: at.rollout(max_tokens=40)],
    "no masked position": [lambda at: rollout(at.model, replace(at.batch, responses=at.batch.responses * 0))],
    "lam must be 0 or larger and finite": [
        lambda at: at.rollout(lam=math.nan),
        lambda at: at.rollout(lam=math.inf),
        lambda at: at.rollout(lam=-0.5),
        lambda at: at.rollout(lam="0.5"),
    ],
    "several answers; use 'end'": [lambda at: rollout(at.model, few_clues(1), Decoding("policy", on_error="correct"))],
    "max_tokens=10 does not hold one sequence of 41 tokens": [
        lambda at: objective_pass(at.model, at.rollout(), at, config=ObjectiveConfig(), max_tokens=10)
    ],
    # Problems and trainings.
    "tail 'prefill' needs tail_id": [lambda at: at.collate(tail="prefill")],
    "tail 'scored' needs tail_id": [lambda at: at.collate(tail="scored")],
    "'empty' is unknown": [lambda at: at.collate(tail="empty")],
    "rule 'guess' is unknown; choose one of .*naked_single": [lambda at: at.collate(rule="guess")],
    "no puzzles": [lambda at: PuzzleBatch.collate([], pad_id=0), lambda at: SftDataset(SudokuTask(1, 1).batch([]))],
    "answers='one' and 'any'": [lambda at: sudoku_task().batch([*puzzles(1), *puzzles(1, answers="any")])],
    "answer is not known at some open position; for Sudoku give the task a tail": [
        lambda at: SftDataset(SudokuTask(1).batch(at.puzzles))
    ],
    "keeps no outputs": [lambda at: sft_trainer(at.tmp_path).compute_loss(at.model, {}, return_outputs=True)],
    "closure": [lambda at: TwoRateOptimizer([*at.model.parameters()], torch.optim.SGD, (0.3, 0.05)).step(lambda: 0.0)],
    "there is one; start with torchrun": [lambda at: trainer(at.tmp_path, shard=True)],
    "3 examples do not fill one batch of 4": [lambda at: trained(at.tmp_path, count=3, per_device_train_batch_size=4)],
    "problems is empty; give at least one": [lambda at: trainer(at.tmp_path, data=[])],
}


class Asked:
    """The fixtures that a call asks for, by name, and what it does with two of them."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.of = request.getfixturevalue

    def __getattr__(self, name: str) -> Any:
        return self.of(name)

    def decode(self, how: Any, **options: Any) -> Any:
        return decode(self.model, self.batch, how if isinstance(how, Decoding) else Decoding(how), **options)

    def rollout(self, *how: Decoding, **options: Any) -> Any:
        return rollout(self.model, self.batch, *how, **options)

    def collate(self, **options: Any) -> PuzzleBatch:
        return PuzzleBatch.collate(self.puzzles, pad_id=77, **options)


@pytest.mark.parametrize(("changes", "message"), ARGUMENTS)
def test_arguments_that_do_not_fit_are_refused(tmp_path, changes, message) -> None:
    refused(message, lambda: arguments(tmp_path, **{"num_generations": 8, **changes}))


@pytest.mark.parametrize(
    ("kind", "options", "message"), [(kind, *case) for kind, cases in OPTIONS.items() for case in cases]
)
def test_options_that_do_not_fit_are_refused(kind, options, message) -> None:
    refused(message, lambda: kind(**options))


@pytest.mark.parametrize(("message", "call"), [(message, call) for message, calls in CALLS.items() for call in calls])
def test_calls_that_do_not_fit_are_refused(request, call, message) -> None:
    refused(message, lambda: call(Asked(request)))


def test_a_limit_that_is_none_is_no_value() -> None:
    with pytest.raises(TypeError, match=r"limit=0\.9 is no limit; use Threshold\(score\), EntropyBound\(nats\) or"):
        decoding("probability", limit=0.9)
