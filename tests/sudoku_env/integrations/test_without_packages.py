"""An adapter says which extra it lacks."""

import subprocess
import sys

CODE = """
import sys
for name in ("verifiers", "verifiers.v1", "openenv", "openenv.core", "reasoning_gym", "verl"):
    sys.modules[name] = None
from importlib import import_module
for adapter in ("verifiers", "openenv", "openenv.server", "reasoning_gym", "verl.agent_loop"):
    try:
        import_module(f"sudoku_env.integrations.{adapter}")
    except ImportError as error:
        print(error)
import sudoku_env.integrations.trl
print("torch" in sys.modules)
"""


def test_what_is_missing_is_named():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    *refusals, with_torch = done.stdout.splitlines()
    wanted = ("verifiers", "openenv", "openenv", "reasoning-gym", "verl")
    assert len(refusals) == 5 and with_torch == "False"
    assert all(f"sudoku-dllm[{extra}]" in refusal for extra, refusal in zip(wanted, refusals, strict=True))
