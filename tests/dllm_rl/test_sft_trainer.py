from functools import partial

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, TrainingArguments

from dllm_rl.decoding import evaluate
from dllm_rl.sft import SftArguments, SftDataset, collate, mask_tokens, masked_diffusion_loss
from sudoku_env.prompts.tokens import detect_definite
from tests.dllm_rl.helpers.tiny_training import KeepGradients, logged, puzzles, sudoku_task, tokenizer, warm_model
from tests.dllm_rl.helpers.tiny_training import sft_trainer as small
from tests.helpers.drawn import first_with

TASK = sudoku_task(with_tail=True)


def sft_trainer(folder, data, kind=TrainingArguments, **changes):
    chosen = {"max_steps": 150, "per_device_train_batch_size": 6, "learning_rate": 1e-2, "seed": 42}
    chosen |= {"lr_scheduler_type": "cosine", "logging_steps": 10}
    return small(folder, data=data, kind=kind, **{**chosen, **changes})


def test_a_handful_of_puzzles_is_learned(tmp_path):
    """With seven other seeds three or all four are solved in the end, and at most 5% of the loss is left."""
    handful = puzzles(4)
    trainer = sft_trainer(tmp_path, SftDataset(TASK.batch(handful)), max_steps=200)
    trainer.train()
    losses = logged(trainer, "loss")
    assert losses[0] > 1.0 and np.mean(losses[-5:]) < 0.2 * losses[0]
    assert evaluate(trainer.model, handful, TASK).solved.sum() >= 2
    trainer.save_model(str(tmp_path / "model"))
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path / "model")
    assert all(torch.equal(value, trainer.model.state_dict()[name]) for name, value in loaded.state_dict().items())


def test_loss_of_a_batch_with_padding(tmp_path):
    data = SftDataset(TASK.batch([*puzzles(2), *puzzles(2, seed=2, template="short")]))
    batch = collate([data[row] for row in range(4)])
    assert not batch["attention_mask"].all()
    trainer = sft_trainer(tmp_path, data)
    given = trainer.model, batch["input_ids"].long(), batch["maskable"], tokenizer().mask_token_id
    options = {"attention_mask": batch["attention_mask"], "uniforms": trainer.uniforms(batch)}
    assert trainer.compute_loss(trainer.model, batch) == masked_diffusion_loss(*given, **options)


@pytest.mark.parametrize("cut", [(4, 2), (2, 4), (1, 8)])
@pytest.mark.parametrize("count", [16, 6])
def test_a_step_is_the_mean_over_its_problems_however_they_are_cut(tmp_path, cut, count):
    """Six of them are a global batch that the end of the epoch leaves short: 4 + 2, 2 + 2 + 2, 1 + … + 1."""
    settings = {"count": count, "max_steps": 3, "optim": "sgd", "max_grad_norm": 0.0}
    whole, parts = KeepGradients(), KeepGradients()
    size, accumulated = cut
    one = small(tmp_path, warm_model().double(), callbacks=[whole], per_device_train_batch_size=8, **settings)
    one.train()
    dealt = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulated}
    other = small(tmp_path, warm_model().double(), callbacks=[parts], **dealt, **settings)
    other.train()
    for name, gradient in whole.tensors().items():
        assert (parts.tensors()[name] - gradient).abs().max() <= 1e-6 * max(1.0, float(gradient.abs().max()))
    assert logged(other, "loss") == pytest.approx(logged(one, "loss"), rel=1e-6)


def test_the_loss_on_definite_cells_alone_by_loops(tmp_path):
    """Each sequence by itself: which of its masked cells are singles of what is left, and the tail."""
    given = [*puzzles(3), *puzzles(3, seed=2, template="short")]
    data = SftDataset(TASK.batch(given))
    # Given cells too, so that not all that is masked follows.
    data.maskable[:, data.problems.prompt_ids.shape[1] :] = True
    trainer = sft_trainer(tmp_path, data, kind=SftArguments, ce_on="definite")

    # In some sequence some of the masked positions count and some do not.
    first_with(lambda counts: any(0 < few < all_ for few, all_ in counts), partial(counted, trainer, given), seed=2)


def counted(trainer, given, seed):
    """Hold the loss of masks that are drawn from a seed to loops; how many positions count and are masked, by row."""
    data = trainer.train_dataset
    batch = collate([data[row] for row in (5, 0, 3, 4)])
    trainer.args.seed = seed
    loss = trainer.compute_loss(trainer.model, batch)
    ids, maskable, mask_id = batch["input_ids"].long(), batch["maskable"], tokenizer().mask_token_id
    corrupted, masked, ratio = mask_tokens(ids, maskable, mask_id, uniforms=trainer.uniforms(batch))
    expected, counts = 0.0, []
    for row, number in enumerate((5, 0, 3, 4)):
        layout, size = given[number].layout, ids.shape[1] - given[number].layout.response_length
        definite = detect_definite([0] * layout.prompt_length + corrupted[row, size:].tolist(), layout)
        open_ = masked[row, size:].nonzero()[:, 0].tolist()
        places = [size + ell for ell in open_ if ell in definite or ell not in layout.cell_positions]
        counts.append((len(places), len(open_)))
        ids_and_mask = corrupted[row : row + 1], batch["attention_mask"][row : row + 1]
        logits = trainer.model(*ids_and_mask, logits_mask=torch.ones_like(masked[:1])).logits
        for ell in places:
            nll = -logits.detach().float().log_softmax(-1)[ell, ids[row, ell]]
            expected += float(nll / (ratio[row] * maskable[row].sum() * 4))
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    return counts
