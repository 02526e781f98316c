"""The comparison of `scripts/raro/reward_model.py`: its pairs, what they teach, and all of it in small."""

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from llm_rl import RewardModel
from scripts.raro.reward_model import Arguments, Taught, given, right, teach
from tests.scripts.helpers.started import in_small


def test_a_right_answer_has_the_digits_and_the_sum_and_stands_first_in_a_pair() -> None:
    texts = ["+ 7 - 7 + 1", "+ 7 - 4 - 2", "+ 7 + 4 - 2", "- 2 + 7 - 4"]
    columns = {"digits": [[4, 7, 2]] * 4, "target": [1] * 4}
    good = right(texts, **columns)
    assert good == [0, 1, 0, 1] and given(texts, **columns) == [0, 1, 1, 1]
    samples = [SimpleNamespace(row={"prompt": f"{i // 4} "}, scores=[good[i % 4]]) for i in range(8)]
    found = Taught(Arguments()).pairs(SimpleNamespace(samples=samples, completions=texts * 2), 4)
    assert found == [(f"{i} {texts[a]}", f"{i} {texts[b]}") for i in (0, 1) for a, b in ((1, 0), (3, 2))]


def test_a_taught_classifier_prefers_the_first_of_a_pair() -> None:
    words, pair = Taught(Arguments()).words, ("make 1 of 4 7 2 + 7 - 4 - 2", "make 1 of 4 7 2 + 7 + 4 - 2")
    for pairs in ([pair], [pair[::-1]]):
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = LlamaConfig(vocab_size=len(words), num_labels=1, pad_token_id=words.pad_token_id, **sizes)
        model = LlamaForSequenceClassification(config)
        teach(model, pairs, words, steps=100, rate=1e-2, seed=0)
        first, other = RewardModel(model, words)(["", ""], pairs[0])
        assert first > other
    with pytest.raises(ValueError, match="raise start_steps"):
        teach(model, [], words, steps=1, rate=1e-2, seed=0)


def test_all_arms_in_small(tmp_path) -> None:
    words = "--start_steps 300 --max_steps 4 --questions 24 --test_questions 12 --completions 16 --hidden_size 32"
    words += " --num_hidden_layers 1 --batch_size 32 --start_learning_rate 1e-2 --start_examples 1000 --pair_steps 2"
    table = in_small("raro/reward_model.py", tmp_path / "run", *words.split())
    assert all(f"| {title} |" in table for title in ("start", *Taught.ARMS.values()))
