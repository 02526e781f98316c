"""A Llama of some thousand parameters that has seen answers of both trials, with a real tokenizer."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, PrinterCallback

from llm_rl import RAROArguments, start_rows, supervised_trainer
from llm_rl.training import RunArguments
from scripts.shared.tiny_llama import tiny_llama
from scripts.shared.word_problems import word_problem_sets
from scripts.smollm2.raro import CRITIC_TEMPLATE
from sudoku_dllm.trials.trial import short_training
from sudoku_env import chat_rows
from sudoku_env.puzzle_sets import draw_by_split

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def byte_level_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """One that splits digits and has learned its merges from texts."""
    backend = Tokenizer(models.BPE(unk_token=None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    learner = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, learner)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|end|>", pad_token="<|end|>", chat_template=TEMPLATE
    )


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model and its tokenizer."""
    folder = tmp_path_factory.mktemp("base")
    puzzles = draw_by_split(4, (24, 0, 0), clues=(13, 14), rule="singles", exact=False, seed=0)["train"]
    prompts = RAROArguments(
        output_dir=str(folder), prompt_format="text", policy_system="", critic_system="",
        critic_template=CRITIC_TEMPLATE, use_cpu=True,
    ).prompts  # fmt: skip
    rows = [*chat_rows(puzzles, 0, form="response")]
    rows += start_rows(word_problem_sets((24, 0, 0), 0, (1, 1))["train"], prompts, labels="true")
    tokenizer = byte_level_tokenizer([row["chosen"] for row in rows])
    ends = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = tiny_llama(len(tokenizer), max_position_embeddings=512, initializer_range=0.02, **ends)
    settings = short_training(folder, 24, 0, 1e-2) | {"max_steps": 60, "warmup_steps": 10}
    trainer = supervised_trainer(model, RunArguments(**settings), rows, tokenizer)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
