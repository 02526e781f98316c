import os

import pytest
import torch


def test_torch_computes_as_it_was_asked_to() -> None:
    """What `tests/helpers/dialects.py` asks for is what all other tests here compute with."""
    assert torch.get_num_threads() == int(os.environ.get("OMP_NUM_THREADS", "1"))
    if not (asked := os.environ.get("ATEN_CPU_CAPABILITY")):
        pytest.skip("as the processor is")
    assert torch.backends.cpu.get_cpu_capability().lower() == asked
