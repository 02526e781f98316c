"""Metrics as JSON lines."""

from pathlib import Path

from transformers import TrainerControl, TrainerState, TrainingArguments

from llm_rl.training.callbacks import MetricsWriter, read_json_lines


def test_metrics_are_written_line_by_line(tmp_path: Path) -> None:
    writer, state = MetricsWriter(tmp_path / "metrics.jsonl"), TrainerState()
    for step in (1, 2):
        state.global_step = step
        writer.on_log(
            TrainingArguments(use_cpu=True, report_to="none"), state, TrainerControl(), logs={"loss": step / 2}
        )
    frame = read_json_lines(tmp_path / "metrics.jsonl")
    assert frame.step.tolist() == [1, 2] and frame.loss.tolist() == [0.5, 1.0]


def test_a_resumed_run_starts_from_the_lines_of_its_checkpoint(tmp_path: Path) -> None:
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
