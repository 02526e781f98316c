"""The game on a model of 20,000 parameters whose answers and judgments are one token each."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from llm_rl.raro import RAROArguments, RAROTrainer

ANSWERS = ["good", "bad", "poor", "ugly"]
LABELS = ["[Answer 1]", "[Answer 2]", "[Tie]"]


def token_tokenizer() -> PreTrainedTokenizerFast:
    words = {word: index for index, word in enumerate(["<end>", "Q", "C", "|", *ANSWERS])}
    backend = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", pad_token="<end>")
    tokenizer.add_tokens([AddedToken(label) for label in LABELS])
    return tokenizer


def start_model(tokenizer: Any, seed: int) -> LlamaForCausalLM:
    """Knows both formats and nothing else: answers and labels are uniform."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"eos_token_id": 0, "pad_token_id": 0, "bos_token_id": None}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=32, **sizes, **ends))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(150):
        draws = torch.randint(4, (16, 3)).tolist()
        policy = [f"Q {ANSWERS[a]} <end>" for a, _, _ in draws]
        critic = [f"C Q {ANSWERS[a]} | {ANSWERS[b]} {LABELS[c % 3]} <end>" for a, b, c in draws if c < 3]
        loss = torch.zeros(())
        for texts in (policy, critic):
            ids = torch.tensor(tokenizer(texts)["input_ids"])
            loss = loss + torch.nn.functional.cross_entropy(
                model(ids).logits[:, -3:-1].flatten(0, 1), ids[:, -2:].flatten()
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@pytest.mark.slow
def test_the_critic_learns_to_tell_and_then_the_policy_to_answer_as_the_expert(tmp_path: Path) -> None:
    tokenizer = token_tokenizer()
    args = RAROArguments(
        str(tmp_path),
        prompt_format="text",
        policy_system="",
        policy_template="{question}",
        critic_system="",
        critic_template="C {question} {answer_1} | {answer_2}",
        per_device_train_batch_size=32,
        num_generations=16,
        critic_pairs=8,
        critic_generations=8,
        max_completion_length=3,
        unparsable_reward=0.0,
        overlength_reward=0.0,
        beta=0.01,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        max_steps=180,
        logging_steps=20,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=2,
    )

    def good(completions: list[str], **kwargs: Any) -> list[float]:
        return [float("good" in text) for text in completions]

    rows = [{"question": "Q", "answer": "good"}] * 8
    run = RAROTrainer(start_model(tokenizer, 2), args, rows, tokenizer, verifiers=good)
    run.train()
    first, *later, last = run.state.log_history[:-1]
    assert 0.4 < first["critic/accuracy"] < 0.6 and first["verified/good"] < 0.4
    assert max(line["critic/accuracy"] for line in later) > 0.65  # the critic is ahead,
    assert last["verified/good"] > 0.85  # the policy catches up,
    assert last["critic/accuracy"] < 0.65  # and there is little left to tell.
