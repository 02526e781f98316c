"""A training program of its own: fits a line by momentum on noisy batches, `python small_training.py FOLDER [FORGET]`.

FORGET leaves something out of the checkpoints: "random", "momentum", "buffer"; or "resuming", which starts anew; or
"atomic", which writes them in place and reads half of one.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

STEPS, EVERY = 24, 3


def save(folder: Path, step: int, arrays: dict, state: dict, in_place: bool) -> None:
    target = folder / f"checkpoint-{step}"
    written = target if in_place else folder / "writing"
    written.mkdir(parents=True, exist_ok=True)
    save_file({"weights": arrays["weights"]}, written / "model.safetensors")
    time.sleep(0.02 if in_place else 0.005)
    save_file({name: value for name, value in arrays.items() if name != "weights"}, written / "optimizer.safetensors")
    time.sleep(0.02 if in_place else 0.005)
    (written / "trainer_state.json").write_text(json.dumps(state))
    if not in_place:
        written.rename(target)


def train(folder: Path, forgets: str = "") -> None:
    random = np.random.default_rng(7)
    arrays = {"weights": np.zeros(3), "momentum": np.zeros(3), "buffer": np.zeros((4, 3))}
    state = {"global_step": 0, "log_history": [], "random": random.bit_generator.state}
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    if found and forgets != "resuming":
        arrays.update(load_file(found[-1] / "model.safetensors"))
        kept = load_file(found[-1] / "optimizer.safetensors")
        arrays.update({name: value for name, value in kept.items() if name != forgets})
        state = json.loads((found[-1] / "trainer_state.json").read_text())
        if forgets != "random":
            random.bit_generator.state = state["random"]
    for step in range(state["global_step"] + 1, STEPS + 1):
        if step % 4 == 1:
            arrays["buffer"] = random.normal(size=(4, 3))
        row = arrays["buffer"][step % 4]
        error = row @ (arrays["weights"] - [1.0, 2.0, 3.0])
        arrays["momentum"] = 0.9 * arrays["momentum"] + error * row
        arrays["weights"] = arrays["weights"] - 0.02 * arrays["momentum"]
        line = {"step": step, "loss": float(error**2), "seconds": time.time()}
        state = {"global_step": step, "log_history": [*state["log_history"], line], "random": random.bit_generator.state}
        time.sleep(0.01)
        if step % EVERY == 0:
            save(folder, step, arrays, state, forgets == "atomic")
    save_file({"weights": arrays["weights"]}, folder / "model.safetensors")


if __name__ == "__main__":
    train(Path(sys.argv[1]), *sys.argv[2:])
