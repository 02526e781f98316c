"""A training program of its own: fits a line by momentum on noisy batches, `python small_training.py FOLDER [FAULT]`.

FAULT makes it wrong: "random", "momentum" and "buffer" are not taken from the checkpoint; "in_place" writes checkpoints
that a kill leaves half; "anew" never resumes; "unseeded" draws other batches in each run; "broken" ends with an error.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

STEPS, SAVE_EVERY, ROWS = 16, 2, 5
"""A buffer of rows serves five steps, so that checkpoints lie within buffers."""


def save(
    folder: Path, arrays: dict[str, np.ndarray], state: dict[str, Any], random: dict[str, Any], fault: str
) -> None:
    target = folder / f"checkpoint-{state['global_step']}"
    written = target if fault == "in_place" else folder / "writing"
    written.mkdir(parents=True, exist_ok=True)
    save_file({"weights": arrays["weights"]}, written / "model.safetensors")
    time.sleep(0.1 if fault == "in_place" else 0.02)
    save_file({name: value for name, value in arrays.items() if name != "weights"}, written / "optimizer.safetensors")
    (written / "rng_state.json").write_text(json.dumps(random))
    (written / "trainer_state.json").write_text(json.dumps(state))
    if fault == "anew" and target.exists():
        target.rename(folder / f"old-{time.time()}")
    if written != target:
        written.rename(target)


def train(folder: Path, fault: str = "") -> None:
    random = np.random.default_rng(None if fault == "unseeded" else 7)
    arrays = {"weights": np.zeros(3), "momentum": np.zeros(3), "buffer": np.zeros((ROWS, 3))}
    state: dict[str, Any] = {"global_step": 0, "log_history": []}
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.removeprefix("checkpoint-")))
    if found and fault != "anew":
        kept = {**load_file(found[-1] / "model.safetensors"), **load_file(found[-1] / "optimizer.safetensors")}
        arrays.update({name: value for name, value in kept.items() if name != fault})
        state = json.loads((found[-1] / "trainer_state.json").read_text())
        if fault != "random":
            random.bit_generator.state = json.loads((found[-1] / "rng_state.json").read_text())
    for step in range(state["global_step"] + 1, STEPS + 1):
        if step % ROWS == 1:
            arrays["buffer"] = random.normal(size=(ROWS, 3))
        row = arrays["buffer"][step % ROWS]
        error = row @ (arrays["weights"] - [1.0, 2.0, 3.0])
        arrays["momentum"] = 0.9 * arrays["momentum"] + error * row
        arrays["weights"] = arrays["weights"] - 0.02 * arrays["momentum"]
        line = {"step": step, "loss": float(error**2), "seconds": time.time()}
        state = {"global_step": step, "log_history": [*state["log_history"], line]}
        time.sleep(0.01)
        if step % SAVE_EVERY == 0:
            save(folder, arrays, state, random.bit_generator.state, fault)
        if fault == "broken":
            raise SystemExit("nothing works")
    save_file({"weights": arrays["weights"]}, folder / "model.safetensors")


if __name__ == "__main__":
    train(Path(sys.argv[1]), *sys.argv[2:])
