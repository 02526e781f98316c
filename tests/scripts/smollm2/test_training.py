"""The scripts that train SmolLM2, and `compare_seeds.py`, as a user runs them, on a tiny Llama or on SmolLM2."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from scripts.smollm2.loader import SMOLLM2_FOLDER, default_cache_dir, smollm2_file
from sudoku_env.chat.rows import chat_rows
from sudoku_env.puzzles import Puzzles, default_puzzles
from tests.helpers.warm_process import run_script
from tests.scripts.helpers.in_process import run_here, run_until_checkpoint
from tests.scripts.helpers.page_data import page_data

ROOT = Path(__file__).parents[3]
CHAT = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
TINY = {
    "train_puzzles": 8,
    "curve_puzzles": 2,
    "test_puzzles": 3,
    "sft_steps": 2,
    "sft_batch_size": 2,
    "dtype": "float32",
    "lora_r": 2,
    "max_steps": 2,
    "eval_steps": 1,
    "per_device_train_batch_size": 4,
    "num_generations": 2,
    "max_completion_length": 8,
    "dynamic_sampling_attempts": 0,
    "disable_tqdm": "true",
    "use_cpu": "true",
}


def why_without_smollm2():
    """Empty where SmolLM2 is in the cache or can be written there."""
    try:
        (default_cache_dir() / SMOLLM2_FOLDER).is_dir() or smollm2_file()
    except ImportError as error:
        return str(error)
    return ""


MISSING = why_without_smollm2()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny random Llama with a byte-level tokenizer that splits digits."""
    backend = Tokenizer(models.BPE(unk_token=None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    puzzles = default_puzzles(4)
    texts = [row["chosen"] for row in chat_rows(Puzzles(puzzles.boards[:9], puzzles.solutions[:9]), 0, form="brief")]
    learner = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, learner)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|end|>", pad_token="<|end|>", chat_template=CHAT
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    folder = tmp_path_factory.mktemp("tiny")
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def launch(script, *words, **options):
    """Run a script of the repository; its standard output."""
    words = [*words, *(word for name, value in options.items() for word in (f"--{name}", value))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = run_script(ROOT / "scripts" / script, words, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def results_of(folder):
    return json.loads((folder / "results.json").read_text("utf-8"))["results"]


@pytest.fixture(scope="module")
def grpo(tiny, tmp_path_factory):
    """The run folder, the start's folder and the output of GRPO with a control."""
    folder = tmp_path_factory.mktemp("grpo")
    run, start = folder / "run", folder / "start"
    return run, start, launch("smollm2/train_grpo.py", output_dir=run, model=tiny, start=start, control="true", **TINY)


def test_grpo_from_a_start_with_control(tiny, grpo):
    run, start, output = grpo
    assert "2 supervised steps of 2 answers" in output and "GRPO: 2 steps of 4 completions" in output
    assert set(results_of(run)) == {"start", "GRPO", "more SFT"}
    for ways in results_of(run).values():
        assert set(ways) == {"sampled", "greedy"}
        for values in ways.values():
            each = [values[f"reward/{name}_reward"] for name in ("givens", "cells", "exact")]
            assert values["reward_mean"] == pytest.approx(sum(each))
    curve = [line["step"] for line in lines_of(run / "metrics.jsonl") if "eval_reward_mean" in line]
    assert curve == [0, 1, 2]
    assert [line["step"] for line in lines_of(run / "metrics.jsonl") if "grad_norm" in line] == [1, 2]
    weights = {name: load_file(folder / "model.safetensors") for name, folder in (("base", tiny), ("start", start))}
    assert weights["start"].keys() == weights["base"].keys()
    adapted = "model.layers.0.self_attn.q_proj.weight"
    assert not torch.equal(weights["start"][adapted], weights["base"][adapted])
    assert Image.open(run / "curve.png").format == "PNG"
    page = page_data(run / "report.html")
    assert [row[:2] for row in page["tables"][0]["rows"][2:4]] == [["GRPO", "sampled"], ["GRPO", "greedy"]]
    assert [point[0] for point in page["curves"][0]["lines"]["GRPO"]] == [0, 1, 2] and len(page["texts"]) == 3
    assert "exact_reward 0.00" in page["texts"][0]["title"] and "→" in page["texts"][0]["text"]


WALL_CLOCK = {"train_runtime", "train_samples_per_second", "train_steps_per_second"}


def test_a_run_that_is_stopped_twice_ends_as_one_left_alone(tiny, tmp_path, monkeypatch, capsys):
    options = {**TINY, "model": tiny, "max_steps": 4, "save_steps": 1, "eval_steps": 2, "control": "true"}
    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    run_here(monkeypatch, "smollm2/train_grpo.py", output_dir=alone, **options)
    again = {**options, "output_dir": stopped, "resume_from_checkpoint": "last"}
    # The first time there is nothing to resume yet.
    run_until_checkpoint(monkeypatch, "stopped/checkpoint-3", "smollm2/train_grpo.py", **again)
    start = (stopped / "start" / "model.safetensors").stat().st_mtime_ns
    judged = (stopped / "judged.json").read_text("utf-8")
    run_until_checkpoint(monkeypatch, "stopped/checkpoint-4", "smollm2/train_grpo.py", **again)
    assert (stopped / "judged.json").read_text("utf-8") == judged and list(json.loads(judged)) == ["start"]
    clock = json.loads((stopped / "checkpoint-4" / "trainer_state.json").read_text("utf-8"))
    seconds = clock["stateful_callbacks"]["StepClock"]["attributes"]["seconds"]
    capsys.readouterr()
    run_here(monkeypatch, "smollm2/train_grpo.py", **again)
    assert "Start: " not in capsys.readouterr().out
    assert (stopped / "start" / "model.safetensors").stat().st_mtime_ns == start
    first, second = (results_of(folder) for folder in (alone, stopped))
    assert list(first) == list(second) == ["start", "GRPO", "more SFT"]
    assert all(first[name] == second[name] for name in ("start", "GRPO"))
    first, second = (
        [{key: line[key] for key in line if key not in WALL_CLOCK} for line in lines_of(folder / "metrics.jsonl")]
        for folder in (alone, stopped)
    )
    assert first == second and sum("eval_reward_mean" in line for line in first) == 3
    first, second = ((folder / "model" / "model.safetensors").read_bytes() for folder in (alone, stopped))
    assert first == second
    record = json.loads((stopped / "results.json").read_text("utf-8"))
    assert record["seconds"] == seconds > 0
    assert (stopped / "control_model" / "model.safetensors").is_file()


def test_the_table_and_picture_of_two_runs(grpo, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(grpo[0], tmp_path / name)
    files = {"picture": tmp_path / "both.png", "table": tmp_path / "table.md"}
    table = launch("smollm2/compare_seeds.py", tmp_path / "one", tmp_path / "two", **files)
    assert table == files["table"].read_text("utf-8")
    head, _, *lines = table.splitlines()
    assert "| blanks filled rightly | grids solved | s of RL |" in head
    assert [line.split(" | ")[:3] for line in lines] == [
        [f"| {run}", model, way]
        for run in ("one", "two")
        for model in ("GRPO", "more SFT")
        for way in ("sampled", "greedy")
    ]
    values = results_of(grpo[0])
    share = [values[name]["sampled"]["reward/cells_reward"] for name in ("start", "GRPO")]
    assert lines[0].split(" | ")[5] == f"{share[0]:.3f} → {share[1]:.3f}"
    assert Image.open(files["picture"]).format == "PNG"


def test_ppo_from_the_start_of_grpo(grpo, tmp_path):
    output = launch("smollm2/train_ppo.py", output_dir=tmp_path, start=grpo[1], num_ppo_epochs=2, **TINY)
    assert "PPO: 2 steps of 4 completions" in output and set(results_of(tmp_path)) == {"start", "PPO"}
    steps = [line for line in lines_of(tmp_path / "metrics.jsonl") if "grad_norm" in line]
    assert [line["step"] for line in steps] == [1, 2] and all("value_loss" in line for line in steps)
    assert (tmp_path / "checkpoint-2" / "value_function.safetensors").is_file()
    # One start, judged with one draw of random numbers, scores the same whoever judges it.
    assert results_of(tmp_path)["start"] == results_of(grpo[0])["start"]


def test_dpo_from_the_start_of_grpo(grpo, tmp_path):
    left_out = ("num_generations", "dynamic_sampling_attempts")
    options = {name: value for name, value in TINY.items() if name not in left_out} | {"warmup_steps": 0}
    output = launch("smollm2/train_dpo.py", output_dir=tmp_path, start=grpo[1], control="true", **options)
    assert "DPO: 2 steps of 8 completions" in output
    results = results_of(tmp_path)
    assert set(results) == {"start", "DPO", "more SFT"} and results["start"] == results_of(grpo[0])["start"]
    lines = lines_of(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines if "eval_reward_mean" in line] == [0, 1, 2]
    margins = [line["rewards/margins"] for line in lines if "rewards/margins" in line]
    assert margins[0] == 0 and margins[1] != 0


def test_vapor_with_all_weights_from_a_start_that_is_there(grpo, tmp_path):
    start = grpo[1] / "model.safetensors"
    written = start.stat().st_mtime_ns
    output = launch("smollm2/train_vapor.py", output_dir=tmp_path, start=grpo[1], **{**TINY, "lora_r": 0})
    assert "supervised" not in output and start.stat().st_mtime_ns == written
    results = results_of(tmp_path)
    assert set(results) == {"start", "VAPOR"} and set(results["start"]) == {"sampled"}
    # The start is the reference.
    assert results["start"]["sampled"]["preference_margin"] == results["start"]["sampled"]["preference_accuracy"] == 0
    assert results["VAPOR"]["sampled"]["preference_margin"] != 0
    trained = load_file(tmp_path / "model" / "model.safetensors")
    assert any(not torch.equal(value, trained[name]) for name, value in load_file(start).items())


def test_models_are_judged_with_the_same_random_numbers(grpo, tmp_path):
    run, start, _ = grpo
    models = ["--models", start, start, run / "model"]
    output = launch("smollm2/judge.py", *models, test_puzzles=3, dtype="float32", run_dir=tmp_path)
    first, second, trained = (line.rpartition(": ")[2] for line in output.splitlines())
    assert first == second and first.startswith("sampled ") and "greedy " in trained
    questions = {"test_rows": 3, "dtype": "float32", "output_dir": tmp_path, "max_completion_length": 8}
    output = launch("smollm2/train_raro.py", "--judge", *models[1:], greedy="true", **questions)
    assert len(output.splitlines()) == 3 and output.count(": sampled reward/result_reward 0.") == 3
    assert output.count("; greedy reward/result_reward 0.") == 3 and not (tmp_path / "results.json").exists()


def test_the_judge_makes_a_table_of_arms_and_seeds(grpo, tmp_path):
    run, start, _ = grpo
    for seed in (0, 1):
        shutil.copytree(run / "model", tmp_path / f"grpo_seed{seed}" / "model")
        shutil.copytree(run / "control_model", tmp_path / f"grpo_seed{seed}" / "control_model")
    models = [start, *sorted(tmp_path.glob("grpo_seed*/*model"))]
    output = launch(
        "smollm2/judge.py", "--models", *models, test_puzzles=3, dtype="float32", run_dir=tmp_path / "judge"
    )
    told, sampled, greedy = output.partition("\nsampled\n")[0], *output.partition("\nsampled\n")[2].split("\ngreedy\n")
    assert len(told.splitlines()) == 5
    for text in (sampled, greedy):
        _, _, *rows = text.strip().splitlines()
        assert [row.split(" | ")[0] for row in rows] == ["| start", "| more SFT", "| grpo"]


def test_models_that_make_no_table_are_named(grpo, tmp_path):
    run, _, _ = grpo
    folders = [tmp_path / f"{name}_seed{seed}" / "model" for name, seed in (("grpo", 0), ("ppo", 1))]
    for folder in folders:
        shutil.copytree(run / "model", folder)
    done = run_script(ROOT / "scripts" / "smollm2" / "judge.py", ["--models", folders[0], folders[0]])
    assert done.returncode == 2 and "name an arm and a seed twice" in done.stderr
    done = run_script(ROOT / "scripts" / "smollm2" / "judge.py", ["--models", *folders])
    assert done.returncode == 2 and "other seeds for one arm than for another" in done.stderr


def test_rl_ends_after_so_many_seconds(grpo, tmp_path):
    options = {**TINY, "max_steps": 50, "train_seconds": 1e-6, "curve_puzzles": 1, "test_puzzles": 1}
    launch("smollm2/train_grpo.py", output_dir=tmp_path / "run", start=grpo[1], **options)
    assert [line["step"] for line in lines_of(tmp_path / "run" / "metrics.jsonl") if "grad_norm" in line] == [1]
    done = run_script(ROOT / "scripts" / "smollm2" / "train_grpo.py", ["--train_seconds", "0"])
    assert done.returncode == 2 and "train_seconds=0.0 must be positive" in done.stderr


RARO = {
    "max_critic_completion_length": 6,
    "critic_pairs": 2,
    "critic_generations": 2,
    **{name: TINY[name] for name in TINY if "puzzles" not in name and name != "dynamic_sampling_attempts"},
}
RARO_ROWS = {"train_rows": 8, "curve_rows": 2, "test_rows": 3}


def test_raro_on_word_problems_with_control_and_table(tiny, tmp_path):
    """The tiny model ends no answer, so that nothing is judged; what depends on a label is left open."""
    run = tmp_path / "run"
    output = launch(
        "smollm2/train_raro.py", output_dir=run, model=tiny, data="word_problems", control="true", **RARO, **RARO_ROWS
    )
    assert "2 supervised steps of 2 answers" in output and "RARO: 2 steps of 4 completions" in output
    results = results_of(run)
    assert list(results) == ["start", "RARO", "more SFT"]
    for ways in results.values():
        assert 0 <= ways["sampled"]["verified/result_reward"] <= 1
    steps = [line for line in lines_of(run / "metrics.jsonl") if "grad_norm" in line]
    assert [line["step"] for line in steps] == [1, 2] and all("policy/overlength_rate" in line for line in steps)
    table = launch("smollm2/compare_seeds.py", run, picture=tmp_path / "one.png")
    assert "| right answers | policy reward | critic accuracy | tie rate |" in table
    assert [line.split(" | ")[1] for line in table.splitlines()[2:]] == ["RARO", "more SFT"]
    assert Image.open(tmp_path / "one.png").format == "PNG"


def test_a_start_alone(tiny, tmp_path):
    output = launch("smollm2/train_raro.py", output_dir=tmp_path, model=tiny, start_only="true", **RARO, **RARO_ROWS)
    first, second = output.splitlines()
    assert first == f"Run folder: {tmp_path}" and second.startswith("Start: 2 supervised steps")
    assert (tmp_path / "start" / "model.safetensors").is_file() and not (tmp_path / "metrics.jsonl").exists()


def test_raro_on_files_of_ones_own(grpo, tmp_path):
    questions = [{"question": f"say {digit}", "answer": f"it is {digit}"} for digit in range(8)]
    for split in ("train", "validation", "test"):
        text = "".join(json.dumps(row) + "\n" for row in questions)
        (tmp_path / f"{split}.jsonl").write_text(text, "utf-8")
    run = tmp_path / "run"
    launch("smollm2/train_raro.py", output_dir=run, start=grpo[1], data=tmp_path, **RARO)
    assert set(results_of(run)) == {"start", "RARO"}
    assert "policy/overlength_rate" in results_of(run)["RARO"]["sampled"]


def test_raro_needs_all_its_files_and_whole_lines(tmp_path, monkeypatch, capsys):
    options = {"data": tmp_path, "output_dir": tmp_path / "run", "use_cpu": "true"}
    line = json.dumps({"question": "1 + 1", "answer": "2"})
    for split, text, message in (
        ("train", line, "choose word_problems or sudoku"),
        ("validation", f"{line}\n{{", "test.jsonl"),
        ("test", line, "validation.jsonl, line 2: not JSON"),
        ("validation", '{"question": "1 + 1"}', "line 1: expected an object with question and answer"),
    ):
        (tmp_path / f"{split}.jsonl").write_text(text, "utf-8")
        with pytest.raises(SystemExit, match="2"):
            run_here(monkeypatch, "smollm2/train_raro.py", **options)
        assert message in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_raro_on_sudoku_is_judged_by_its_grids(grpo, tmp_path):
    launch("smollm2/train_raro.py", output_dir=tmp_path, start=grpo[1], data="sudoku", **RARO, **RARO_ROWS)
    found = results_of(tmp_path)["RARO"]["sampled"]
    assert {f"verified/{name}_reward" for name in ("givens", "cells", "exact")} <= set(found)


SMALL = {
    "dtype": "float32",
    "sft_batch_size": 8,
    "per_device_train_batch_size": 2,
    "num_generations": 2,
    "max_steps": 1,
    "eval_steps": 1,
    "disable_tqdm": "true",
}
"""Of SmolLM2's runs, so that one core takes two or three minutes for them; the start learns as in the recipe."""


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_a_start_on_smollm2_writes_the_form(tmp_path):
    launch("smollm2/train_grpo.py", output_dir=tmp_path, curve_puzzles=2, test_puzzles=4, **SMALL)
    start = results_of(tmp_path)["start"]["greedy"]
    assert 0.3 < start["reward/givens_reward"] < 1 and start["truncated_frac"] < 0.2


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_a_start_on_smollm2_knows_both_roles(tmp_path):
    critic = {"critic_pairs": 2, "critic_generations": 2, "policy_judgements": 1}
    launch("smollm2/train_raro.py", output_dir=tmp_path, curve_rows=2, test_rows=8, sft_steps=30, **critic, **SMALL)
    start = results_of(tmp_path)["start"]["sampled"]
    assert start["policy/answered"] > 0.7 and start["verified/result_reward"] < 1
    assert start["critic/unparsable_rate"] < 0.6 and start["critic/overlength_rate"] < 0.6
