import json
import time

from transformers import TrainerControl, TrainerState, TrainingArguments

from dllm_rl import callbacks
from dllm_rl.callbacks import HeldOutCurve
from llm_rl.training.callbacks import MetricsWriter
from llm_rl.training.logs import read_json_lines
from tests.dllm_rl.helpers.tiny_training import new_model, puzzles, sudoku_task


def drive(curve, model, steps, seconds):
    """Call a callback as a trainer would, each step taking some time."""
    args, state, control = TrainingArguments(use_cpu=True, report_to="none"), TrainerState(), TrainerControl()
    state.max_steps = steps
    curve.on_train_begin(args, state, control, model=model)
    for step in range(1, steps + 1):
        time.sleep(seconds)
        state.global_step = step
        curve.on_step_end(args, state, control, model=model)


def test_curve_has_a_start_regular_points_and_an_end(tmp_path):
    path = tmp_path / "curve.jsonl"
    drive(HeldOutCurve(path, puzzles(4), sudoku_task(), every=2), new_model(), steps=5, seconds=0.0)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 2, 4, 5]
    assert all({"seconds", "solved", "greedy_forced", "steps_before_error"} <= line.keys() for line in lines)


def test_clock_stops_while_evaluating(tmp_path, monkeypatch):
    result = callbacks.evaluate(new_model(), puzzles(2), sudoku_task())

    def slow(*args, **kwargs):
        time.sleep(0.5)
        return result

    monkeypatch.setattr(callbacks, "evaluate", slow)
    curve = HeldOutCurve(tmp_path / "curve.jsonl", puzzles(2), sudoku_task(), every=1)
    drive(curve, new_model(), steps=3, seconds=0.02)
    assert 0.06 <= curve.seconds < 0.5


def test_clock_alone_needs_no_puzzles(tmp_path):
    curve = HeldOutCurve(tmp_path / "curve.jsonl", [], sudoku_task(), every=0)
    drive(curve, new_model(), steps=2, seconds=0.02)
    assert curve.seconds >= 0.04 and not (tmp_path / "curve.jsonl").exists()


def test_metrics_are_written_line_by_line(tmp_path):
    writer, state = MetricsWriter(tmp_path / "metrics.jsonl"), TrainerState()
    for step in (1, 2):
        state.global_step = step
        writer.on_log(
            TrainingArguments(use_cpu=True, report_to="none"), state, TrainerControl(), logs={"loss": step / 2}
        )
    frame = read_json_lines(tmp_path / "metrics.jsonl")
    assert frame.step.tolist() == [1, 2] and frame.loss.tolist() == [0.5, 1.0]


def test_a_resumed_run_starts_from_the_lines_of_its_checkpoint(tmp_path):
    path, state = tmp_path / "metrics.jsonl", TrainerState()
    path.write_text('{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 9}\n{"step": 3, "lo')
    state.log_history, state.global_step = [{"loss": 0.5, "step": 1}], 1
    writer = MetricsWriter(path)
    args, control = TrainingArguments(use_cpu=True, report_to="none"), TrainerControl()
    writer.on_train_begin(args, state, control)
    state.global_step = 2
    writer.on_log(args, state, control, logs={"loss": 0.25})
    assert path.read_text() == '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}\n'
    state.is_world_process_zero = False
    writer.on_train_begin(args, state, control)
    writer.on_log(args, state, control, logs={"loss": 1.0})
    assert len(path.read_text().splitlines()) == 2


def test_a_resumed_curve_keeps_its_points_and_its_clock(tmp_path):
    path, state = tmp_path / "curve.jsonl", TrainerState()
    first = HeldOutCurve(path, puzzles(2), sudoku_task(), every=1)
    drive(first, new_model(), steps=2, seconds=0.02)
    saved = json.loads(json.dumps(first.state()))
    drive(first, new_model(), steps=1, seconds=0.0)  # goes on after the checkpoint, in vain
    state.global_step, state.stateful_callbacks = 2, {"HeldOutCurve": saved}
    resumed = HeldOutCurve(path, puzzles(2), sudoku_task(), every=1)
    args, control = TrainingArguments(use_cpu=True, report_to="none"), TrainerControl()
    resumed.on_train_begin(args, state, control, model=new_model())
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 1, 2]
    assert resumed.seconds >= 0.04
