"""Peak memory of one update in a process of its own, printed in MiB.

What is printed is the rise of the largest resident set over the resident set after imports, the model, the roll-out and
a forward and backward pass of one sequence (code pages, gradient buffers), so it is the memory of activations and
temporaries. `ru_maxrss` would remember what loading took, so the mark is put back first (5 written to
/proc/self/clear_refs, which Linux has). Start it with glibc's `MALLOC_MMAP_THRESHOLD_` at a small fixed value: then
freed tensors go back to the system and the figure follows live ones.

    MALLOC_MMAP_THRESHOLD_=65536 python benchmarks/peak_memory.py MODEL ROLLOUT naive|lean MAX_TOKENS MAX_MASKED
"""

import re
import sys
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM
from transformers.utils import logging

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.naive_update import naive_pass  # noqa: E402
from dllm_rl.objective import ObjectiveConfig  # noqa: E402
from dllm_rl.policy import PolicyConfig  # noqa: E402
from dllm_rl.update import objective_pass  # noqa: E402


def backward(rl: Tensor, sft: Tensor) -> None:
    """Add the gradient of J."""
    (rl + sft).backward()


def status(name: str) -> float:
    """A field of /proc/self/status in MiB."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 2**10


model_folder, rollout_file, kind, max_tokens, max_masked = sys.argv[1:]
torch.set_num_threads(1)
logging.set_verbosity_error()
logging.disable_progress_bar()
model = AutoModelForMaskedLM.from_pretrained(model_folder)
record = torch.load(rollout_file, weights_only=False)
model(input_ids=record.puzzles.prompt_ids[:1]).logits.sum().backward()
policy, objective = PolicyConfig(position_temperature=1.0), ObjectiveConfig()
Path("/proc/self/clear_refs").write_text("5")
baseline = status("VmRSS")
if kind == "naive":
    naive_pass(model, record, backward, policy=policy, config=objective)
else:
    objective_pass(
        model, record, backward, policy=policy, config=objective, max_tokens=int(max_tokens), max_masked=int(max_masked)
    )
print(status("VmHWM") - baseline)
