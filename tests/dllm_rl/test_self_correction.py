"""Training on own decodes that take back: they are those of `decode`, the loss is its definition, and runs resume."""

import pytest
import torch
from transformers import TrainerCallback

from dllm_rl.corruption import Corruption, with_own_mistakes
from dllm_rl.decoding import decode
from dllm_rl.policy import PolicyConfig, logits_at
from dllm_rl.self_correction import Decodes, SelfCorrectionArguments, SelfCorrectionTrainer
from dllm_rl.sft import SftArguments, SftDataset, collate
from dllm_rl.strategies import STRATEGIES
from dllm_rl.taking_back import TakeBack
from tests.dllm_rl.helpers.tiny_training import logged, new_model, puzzles, sudoku_task, tokenizer, warm_model
from tests.dllm_rl.test_sft_trainer import sft_trainer

TASK = sudoku_task(with_tail=True)
MASK = tokenizer().mask_token_id


class Watch(TrainerCallback):
    """Looks after every update."""

    def __init__(self, look):
        self.look = look

    def on_step_end(self, *_, **__):
        self.look()


def arguments(folder, **changes):
    return SelfCorrectionArguments(str(folder), report_to="none", use_cpu=True, **changes)


def trainer_of(folder, data, model=None, **changes):
    chosen = {
        "output_dir": str(folder),
        "max_steps": 6,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "decodes": 6,
    }
    args = SelfCorrectionArguments(**{**chosen, **changes})
    return SelfCorrectionTrainer(model=model or new_model(), args=args, task=TASK, train_dataset=data)


@pytest.fixture(scope="module")
def both_templates():
    return SftDataset(TASK.batch([*puzzles(4), *puzzles(4, seed=2, template="short")]))


def test_its_decodes_are_those_of_decode(tmp_path):
    """Without drawn tokens, each with its own number of tokens and threshold, pass by pass to the same end."""
    model, args = warm_model().eval(), arguments(tmp_path, sampled_passes=0.0, max_passes=30)
    problems = TASK.batch([*puzzles(4), *puzzles(4, seed=2, template="short")])
    torch.manual_seed(0)
    decodes = Decodes.of(problems, args)
    decodes.tokens_per_step, decodes.thresholds = torch.arange(8) % 3 + 1, torch.linspace(0.2, 0.99, 8)
    passes, final, everyone = [0] * 8, decodes.states.clone(), torch.arange(8)
    for number in range(30):
        with torch.no_grad():
            logits, _ = logits_at(model, *problems.prompts_of(everyone), decodes.states, decodes.open, MASK)
        over = decodes.advance(logits, args, PolicyConfig())
        for row in (over & (torch.tensor(passes) == 0)).nonzero().squeeze(1).tolist():
            passes[row], final[row] = number + 1, decodes.states[row]
    taken_back = 0
    for row in range(8):
        found = decode(
            model,
            problems.select(torch.tensor([row])),
            STRATEGIES["margin"],
            tokens_per_step=row % 3 + 1,
            take_back=TakeBack(30, remask_threshold=float(decodes.thresholds[row])),
        )
        taken_back += int(found.taken_back)
        assert (int(found.forward_passes), found.responses[0].tolist()) == (passes[row], final[row].tolist())
    assert taken_back > 0


def test_the_loss_by_loops(tmp_path, both_templates):
    trainer = trainer_of(tmp_path, both_templates, warm_model(), decode_weight=0.7, sampled_passes=0.5)
    batch = collate([both_templates[row] for row in range(4)])
    trainer.model.train()
    for _ in range(4):
        trainer.compute_loss(trainer.model, batch)  # decodes go on to states with masks, right and wrong tokens
    decodes = trainer.decodes
    problems, states = decodes.problems, decodes.states.clone()
    expected = 0.0
    for row in range(6):
        prompt = problems.prompt_ids[row][problems.prompt_mask[row]].tolist()
        with torch.no_grad():
            logits = trainer.model(input_ids=torch.tensor([prompt + states[row].tolist()])).logits[0, len(prompt) :]
        logits[:, MASK] = float("-inf")
        free = decodes.open[row].nonzero()[:, 0].tolist()
        nll = [-float(logits[ell].float().log_softmax(-1)[problems.answers[row, ell]]) for ell in free]
        expected += 0.7 * sum(nll) / len(free) / 6
    assert ((states != MASK) & (states != problems.answers)).any() and (states == MASK).any()
    _, loss = trainer._decode_loss(trainer.model, decodes)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)


def test_an_evaluation_has_the_loss_of_the_batch_alone(tmp_path, both_templates):
    trainer = trainer_of(tmp_path, both_templates)
    plain = sft_trainer(tmp_path / "sft", both_templates, kind=SftArguments)
    batch = collate([both_templates[row] for row in range(4)])
    losses = []
    for each in (trainer, plain):
        torch.manual_seed(0)
        with torch.no_grad():
            losses.append(each.compute_loss(trainer.model.eval(), batch))
    assert torch.equal(*losses) and trainer.decodes is None


def test_decodes_that_are_over_make_room(tmp_path, both_templates):
    """With a learning rate of 0 each ends within its passes, and the problems that follow are those of the batches."""
    trainer = trainer_of(
        tmp_path, both_templates, warm_model(), learning_rate=0.0, max_steps=60, max_passes=19, decodes=3
    )
    seen = []
    trainer.add_callback(Watch(lambda: seen.append((trainer.decodes.passes.clone(), trainer.decodes.states.clone()))))
    trainer.train()
    assert all(int(passes.max()) < 19 for passes, _ in seen)
    starts = [states[passes == 0] for passes, states in seen]
    assert sum(map(len, starts)) > 6
    given = {tuple(row) for row in both_templates.problems.responses.tolist()}
    assert {tuple(row) for start in starts for row in start.tolist()} <= given
    last = trainer.state.log_history
    assert any(0 < line.get("decodes/wrong", 0) <= 1 for line in last)
    assert all(0 <= line["decodes/solved"] <= 1 for line in last if "decodes/solved" in line)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, both_templates, weight):
    settings = {"objective_weight": weight, "position_temperature": 0.5}
    whole = trainer_of(tmp_path, both_templates, save_strategy="steps", save_steps=3, **settings)
    whole.train()
    resumed = trainer_of(tmp_path, both_templates, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    for name in ("loss", "decodes/wrong"):
        assert logged(resumed, name) == logged(whole, name)
    assert torch.equal(resumed.decodes.states, whole.decodes.states)
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_model_learns_what_belongs_where_a_wrong_token_stands(tmp_path):
    """On a handful of puzzles, at tokens that it would have written wrongly itself; SFT on masks alone does not."""
    data = SftDataset(TASK.batch(puzzles(6)))
    ids, maskable = data.input_ids.long().repeat(20, 1), data.maskable.repeat(20, 1)
    found = {}
    for kind in ("sft", "self-correction"):
        changes = {"max_steps": 400, "per_device_train_batch_size": 6, "logging_steps": 100}
        if kind == "sft":
            trainer = sft_trainer(tmp_path / kind, data, kind=SftArguments, **changes)
        else:
            trainer = trainer_of(tmp_path / kind, data, decodes=24, sampled_passes=0.8, **changes)
        trainer.train()
        torch.manual_seed(0)
        state, wrong = with_own_mistakes(trainer.model, ids, maskable, MASK, Corruption(0.3, temperature=5.0))
        with torch.no_grad():
            best = trainer.model(input_ids=state).logits.argmax(-1)
        found[kind] = float((best == ids)[wrong].float().mean())
    assert found["self-correction"] > found["sft"] + 0.1, found


def test_what_makes_no_sense_is_refused(tmp_path):
    for changes, words in (
        ({"decodes": 0}, "decodes=0"),
        ({"max_passes": 0}, "max_passes=0"),
        ({"highest_threshold": 1.5}, "highest_threshold=1.5"),
        ({"sampled_passes": -0.1}, "sampled_passes=-0.1"),
        ({"objective_weight": -1.0}, "objective_weight=-1.0"),
        ({"decode_weight": 0.0}, "train with SftTrainer"),
        ({"error_cost": 0.0}, "error_cost=0.0"),
        ({"lam": -1.0}, "lam"),
        ({"position_temperature": 0.0}, "position_temperature"),
    ):
        with pytest.raises(ValueError, match=words):
            arguments(tmp_path, **changes)


def test_problems_of_other_lengths_are_refused():
    one, other = TASK.batch(puzzles(2)), TASK.batch(puzzles(2, seed=2, template="short"))
    with pytest.raises(ValueError, match="pad them in one batch"):
        one.joined(other)
    both = TASK.batch([*puzzles(2), *puzzles(2, seed=2, template="short")])
    joined = both.select(torch.tensor([2, 3])).joined(both.select(torch.tensor([0])))
    assert torch.equal(joined.responses, both.responses[[2, 3, 0]])
    assert torch.equal(joined.prompt_mask, both.prompt_mask[[2, 3, 0]])
