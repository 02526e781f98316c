"""The environment and the reward in the installed TRL's trainer; skipped where it is not installed."""

import asyncio
import json
import pickle
import runpy
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("trl", reason="needs trl: make test-integrations")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from sudoku_env import SudokuError, SudokuText, text_rows
from sudoku_env.integrations.trl import answer_reward, environment_factory
from tests.helpers.refusals import refused

PUZZLE, SOLUTION = "123.341221434321", "1234341221434321"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
RESPONSE_TAGS = ["<tool_response>", "</tool_response>"]


def byte_tokenizer():
    """A token for each byte, Qwen3's special tokens and chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(SPECIAL[:3])
    backend.add_tokens(SPECIAL[3:] + RESPONSE_TAGS)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=qwen3_chat_template
    )


def tiny_model(tokenizer):
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=8192, **ends, **shape))


class Scripted(GRPOTrainer):
    """The policy's turns are written by a script, a list for each round of generation; everything else is TRL's."""

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        turns = self.script.pop(0)
        assert len(turns) == len(prompt_ids)
        return [self.processing_class(turn, add_special_tokens=False)["input_ids"] for turn in turns], None


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call><|im_end|>"


@pytest.mark.parametrize("name", ["place", "erase", "undo", "hint", "give_up"])
def test_the_tools_have_schemas(name):
    schema = get_json_schema(getattr(environment_factory(size=4)(), name))["function"]
    assert schema["name"] == name and schema["description"]
    parameters = schema["parameters"]["properties"]
    assert list(parameters) == {"place": ["row", "column", "digit"], "erase": ["row", "column"]}.get(name, [])
    assert all(value["type"] == "integer" and value["description"] for value in parameters.values())


def test_rows_begin_games():
    tools = environment_factory(size=4)()
    row = text_rows(1, size=4, clues=6, tools=True)[0]
    assert tools.reset(**row) is None and tools.get_reward() == 0.0
    assert tools.reset(seed=3) == SudokuText(size=4, tools=True).reset(seed=3)[0]
    refused("neither", lambda: tools.reset(prompt=[]), SudokuError)
    refused("num_generations=0 is no group", lambda: environment_factory(size=4, num_generations=0), SudokuError)


def test_each_process_of_a_training_deals_puzzles_of_its_own(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    dealt = set()
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        tools = environment_factory(size=4, num_generations=2)()
        dealt |= {tools.reset(prompt=[]) for _ in range(4)}
    assert len(dealt) == 4


def test_rewards_of_free_answers():
    answers = ["```\n1234\n3412\n2143\n4321\n```", [{"role": "assistant", "content": "1231341221434321"}], PUZZLE, None]
    assert answer_reward(answers, puzzle=[PUZZLE] * 4, prompts=None) == [1.0, 0.0, 0.0, 0.0]
    logged: dict[str, float] = {}
    columns = {"solution": [SOLUTION] * 4, "log_metric": logged.__setitem__}
    assert answer_reward(answers, puzzle=[PUZZLE] * 4, **columns) == [1.0, 0.0, 0.0, 0.0]
    assert logged == {"unparsed": 0.5}  # the second is a full board that is wrong


def scripted(folder, script, factory, data=None, kind=Scripted, **arguments):
    """A trainer whose policy's turns are those of a script, in games of a factory."""
    given = {"max_steps": 1, "per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 2000}
    fixed = {"logging_steps": 1, "report_to": "none", "use_cpu": True, "bf16": False, "save_strategy": "no"}
    args, tokenizer = GRPOConfig(output_dir=str(folder), **(given | fixed | arguments)), byte_tokenizer()
    parts = {"train_dataset": data, "processing_class": tokenizer, "environment_factory": factory}
    trainer = kind(tiny_model(tokenizer), args=args, **parts)
    trainer.script = script
    return trainer


def test_grpo_trainer_plays_and_learns_from_the_games(tmp_path):
    """Four completions: solved; no call; solved with a hint, whose cost is the one blank; a bad call, then given up."""
    done = "Done.<|im_end|>"
    right = call("place", row=1, column=4, digit=4)
    rows = Dataset.from_list([text_rows(1, size=4, tools=True)[0] | {"puzzle": PUZZLE}] * 2)
    first = [right, done, call("hint"), call("place", row=1, column=4, digit="four")]
    script = [first, [done, right, call("give_up")], [done, done]]
    trainer = scripted(tmp_path, script, environment_factory(size=4), rows)
    trainer.train()
    assert trainer.script == []
    scores = [environment.get_reward() for environment in trainer.environments]
    assert scores == pytest.approx([1.0, 0.0, 0.0, 0.0])
    games = [environment._game for environment in trainer.environments]
    assert [game.info()["hints"] for game in games] == [0, 0, 1, 0]
    assert games[3].log()["replies"][0].startswith("Refused: place is written") and games[3].over
    logged = trainer.state.log_history[0]
    assert logged["rewards/SudokuTools/mean"] == pytest.approx(0.25)
    assert logged["tools/failure_frequency"] == 0.0 and logged["grad_norm"] > 0


def test_without_a_data_set_each_group_has_a_puzzle_of_its_own(tmp_path):
    played = []

    class Watched(Scripted):
        def _generate_single_turn(self, *arguments, **options):
            played.append([environment.game.log()["puzzle"] for environment in self.environments])
            return super()._generate_single_turn(*arguments, **options)

    script, factory = [["Done.<|im_end|>"] * 4] * 2, environment_factory(size=4, num_generations=2, seed=3)
    scripted(tmp_path, script, factory, kind=Watched, max_steps=2, num_generations=2).train()
    groups = [tuple(batch[k : k + 2]) for batch in played for k in (0, 2)]
    assert all(one == other for one, other in groups) and len(set(groups)) == 4


def test_the_asynchronous_trainer_gives_a_group_one_puzzle_too():
    """Its loop of generation as it is, on a copy of the factory through pickle; the turns alone are ours."""
    from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop

    class Loop(_AsyncRolloutLoop):
        async def _generate_one(self, prompt, tool_dict, tools, group_id=0):
            await asyncio.sleep(0.001 * (len(prompts[group_id]) % 3))  # they end in another order than they began
            prompts[group_id].append(prompt[-1]["content"])
            if len(prompts) > 4:
                stop.set()
            return [], [], [], 0, 0, None

    names = ("rollout_buffer", "model_version_value", "heartbeat_value", "failed_event", "exception_info_queue")
    loop = Loop(
        model_name="none",
        dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": ""}]] * 2}),
        reward_funcs=[],
        processing_class=byte_tokenizer(),
        eos_token_ids=[0],
        environment_factory=pickle.loads(pickle.dumps(environment_factory(size=4, num_generations=3))),
        num_generations=3,
        max_inflight_tasks=4,
        metrics_queue=None,
        **{name: SimpleNamespace(value=0) for name in names},
    )
    prompts, stop = defaultdict(list), asyncio.Event()
    loop._loop.run_until_complete(loop._generate_loop(stop))
    shown = [set(group) for group in prompts.values()]
    assert all(len(group) == 1 for group in shown) and len(set.union(*shown)) == len(shown) > 4


def test_the_example_trains_a_model_of_a_folder(tmp_path, monkeypatch):
    tokenizer = byte_tokenizer()
    tokenizer.save_pretrained(tmp_path / "model")
    tiny_model(tokenizer).save_pretrained(tmp_path / "model")
    script = Path(__file__).parents[3] / "examples" / "trl_tools.py"
    words = f"--model_name_or_path {tmp_path / 'model'} --output_dir {tmp_path / 'run'} --puzzles 2 --max_steps 1"
    small = "--num_generations 2 --per_device_train_batch_size 2 --max_completion_length 8 --report_to none"
    monkeypatch.setattr(sys, "argv", [str(script), *words.split(), *small.split(), "--use_cpu", "--bf16", "false"])
    played = runpy.run_path(str(script), run_name="__main__")["trainer"]
    assert played.state.global_step == 1
    assert all(environment.get_reward() <= 1.0 for environment in played.environments)
