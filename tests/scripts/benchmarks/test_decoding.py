"""`scripts/benchmarks/decoding.py` as a user runs it."""

import subprocess
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from dllm_rl.decoding import STRATEGIES
from sudoku_env.order import TIERS
from tests.helpers.warm_process import ROOT, run_script
from tests.scripts.helpers.page_data import page_data
from tests.scripts.helpers.started import ON_ONE_THREAD

pytestmark = pytest.mark.slow


def run(folder: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = ROOT / "scripts" / "benchmarks" / "decoding.py", ["--output_dir", folder, *words]
    done = run_script(*command, env=ON_ONE_THREAD, timeout=300)
    assert done.returncode == status, done.stderr[-3000:]
    return done


def test_tables_and_pictures(tmp_path) -> None:
    words = "--max_puzzles 6 --tokens_per_step 1 4 --threshold 0.5 6 --entropy_bound 0 3"
    done = run(tmp_path, *words.split())
    assert {path.name for path in tmp_path.iterdir()} == {
        "decode.gif", "order.png", "report.html", "table.csv", "tiers.csv",
    }  # fmt: skip
    everything = pd.read_csv(tmp_path / "table.csv")
    by_threshold = everything[everything["threshold"].notna()].set_index(["strategy", "threshold"])
    by_bound = everything[everything["entropy_bound"].notna()].set_index(["strategy", "entropy_bound"])
    drawn = {"random", "policy"}
    reached = {("margin_difference", 0.5), *((name, at) for name in ("margin", "definite_first") for at in (0.5, 6))}
    assert set(by_threshold.index) == reached and len(by_threshold) == len(reached)
    assert sorted(by_bound.index) == sorted((name, at) for name in STRATEGIES if name not in drawn for at in (0, 3))
    assert by_threshold["tokens_per_step"].isna().all() and by_bound["tokens_per_step"].isna().all()
    assert by_threshold.loc[("margin", 0.5), "forward_passes"] < by_threshold.loc[("margin", 6), "forward_passes"] < 20
    for name in ("margin", "entropy", "left_to_right"):
        assert by_bound.loc[(name, 3), "forward_passes"] < by_bound.loc[(name, 0), "forward_passes"]
    table = everything[everything["tokens_per_step"].notna()].set_index(["strategy", "tokens_per_step"])
    assert sorted(table.index) == sorted((name, count) for name in STRATEGIES for count in (1, 4))
    for name in STRATEGIES:
        assert name in done.stdout
        assert table.loc[(name, 4), "forward_passes"] < table.loc[(name, 1), "forward_passes"] / 2
    assert table.loc[("margin", 1), "solved"] == table.loc[("policy_greedy", 1), "solved"] > 0
    assert (table.loc["definite_first", "chosen_definite"] > table.loc["random", "chosen_definite"]).all()
    assert table.loc[("left_to_right", 1), "rank_corr_rounds"] < table.loc[("definite_first", 1), "rank_corr_rounds"]
    assert table[["cells", "random_floor"]].apply(lambda column: column.between(0, 1).all()).all()
    assert (table.loc["policy_greedy", ["solved - margin", "difference_ci95"]] == 0).all(axis=None)
    tiers = pd.read_csv(tmp_path / "tiers.csv")
    assert len(tiers) == 3 * len(everything) and set(tiers["of"]) == {"greedy", "chosen", "random floor"}
    counted = tiers[tiers["count"] > 0]
    assert counted[list(TIERS)].sum(axis=1).sub(1).abs().max() < 1e-9
    with Image.open(tmp_path / "decode.gif") as picture:
        assert picture.n_frames > 18
    page = page_data(tmp_path / "report.html")
    assert [row[0] for row in page["tables"][0]["rows"]] == everything["strategy"].tolist()
    assert len(page["replays"]) == 6 and all(len(replay["boards"]) == 24 for replay in page["replays"][:1])
    with Image.open(tmp_path / "order.png") as picture:
        assert picture.width > 800


def test_tokens_are_taken_back_beside_each_number_a_step(tmp_path) -> None:
    words = "--max_puzzles 5 --strategies margin random --tokens_per_step 2 4".split()
    words += "--remask_threshold 0.2 1 --remask_count 1 --edit_threshold 0.6 --max_passes 14".split()
    run(tmp_path, *words)
    table = pd.read_csv(tmp_path / "table.csv")
    back = table[table[["remask_threshold", "remask_count", "edit_threshold"]].notna().any(axis=1)]
    assert len(table) == 4 + 2 * 4 and len(back) == 2 * 4 and set(back["strategy"]) == {"margin"}
    assert sorted(back["tokens_per_step"]) == [2] * 4 + [4] * 4 and back["forward_passes"].between(5, 14).all()
    plain = table[(table["strategy"] == "margin") & (table["tokens_per_step"] == 4)].iloc[0]
    assert (back.loc[back["tokens_per_step"] == 4, "forward_passes"] > plain["forward_passes"]).all()
    with Image.open(tmp_path / "decode.gif") as picture:
        assert picture.n_frames > 8

    for wrong, message in (
        (("--max_passes", "0"), "max_passes=0 must be at least 1"),
        (("--strategies", "probability", "--threshold", "0.9"), "reached by none of the scores"),
    ):
        done = run(tmp_path / "bad", *words, *wrong, status=2)
        assert message in done.stderr and "Traceback" not in done.stderr


def test_a_model_of_another_family_with_shifted_logits(tmp_path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "data" / "models" / "llada-sudoku6x6")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    words = ["--model", str(tmp_path / "model"), "--shifted_logits", "--max_puzzles", "2", "--tokens_per_step", "5"]
    run(tmp_path / "out", *words, "--strategies", "entropy", "random")
    table = pd.read_csv(tmp_path / "out" / "table.csv")
    assert table["strategy"].tolist() == ["entropy", "random"] and (table["solved"] == 0).all()
    assert (table["forward_passes"] <= 6).all()


def test_a_list_of_packed_puzzles(tmp_path) -> None:
    (tmp_path / "list.txt").write_text("31.5244521.3......1.42...6....2.1...\n")
    words = ["--data", str(tmp_path / "list.txt"), "--strategies", "margin", "--tokens_per_step", "1"]
    assert "list.txt: 1 puzzles" in run(tmp_path, *words).stdout
