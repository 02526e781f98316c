"""What is told while jobs run, by a clock of the test's own."""

import pytest

from sudoku_dllm.trials.jobs import Job, Lines


def test_time_left_is_measured_after_ten_seconds_and_told_every_twenty(capsys: pytest.CaptureFixture[str]) -> None:
    base, first, second = jobs = [Job("base", 0), Job("sft", 0), Job("judged", 0)]
    now = 0.0
    lines = Lines(jobs, quiet=True, at_a_time=2, clock=lambda: now)
    told: dict[float, str] = {}

    def at(seconds: float, **shares: tuple[str, float]) -> None:
        nonlocal now
        now = seconds
        for arm, (phase, share) in shares.items():
            lines.show(Job(arm, 0), phase, share)
        if printed := capsys.readouterr().out.strip():
            told[seconds] = printed

    # Up to its first step, here at 6 s, an arm reads files: that tells no speed.
    at(0, base=("decoding", 1e-6), sft=("training", 0.0))
    at(6, base=("decoding", 0.05), sft=("training", 0.01))
    at(9.9, base=("decoding", 0.08), sft=("training", 0.0165))
    at(12, base=("decoding", 0.1), sft=("training", 0.02))
    at(31, base=("decoding", 0.2), sft=("training", 0.06))
    at(33, base=("decoding", 0.2), sft=("training", 0.06))
    lines.end(base, "decoded")
    lines.end(first, "trained")
    capsys.readouterr()
    at(500, judged=("decoding", 0.5))
    # 120 s a decoding, 600 s a training: (108 + 708 + 720) / 2 = 768 s.
    assert told[12] == "base decoding 10%, sft training 2%, about 13 minutes left as measured"
    # 165 s a decoding, 500 s a training: (132 + 635 + 665) / 2 = 716 s.
    assert told[33] == "base decoding 20%, sft training 6%, about 12 minutes left as measured"
    assert told[500] == "judged decoding 50%, about 2 minutes left as measured" and sorted(told) == [12, 33, 500]
    lines.end(second, "judged")


def test_time_left_says_that_what_was_not_measured_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 0.0, 0.0, 30.0, 30.0])
    lines = Lines([Job("sft", 0)], quiet=True, clock=lambda: next(times))
    for share in (0.5, 0.625):  # resumed in its middle
        lines.show(Job("sft", 0), "training", share)
    assert capsys.readouterr().out.strip() == "sft training 62%, at least 2 minutes left as measured"
