"""Runs a script as one process of a job, and leaves the job before the interpreter ends.

A process that ends while threads of its process group are alive is now and then aborted ("terminate called without an
active exception"), which torchrun takes for a failure.
"""

import runpy
import sys

import torch.distributed as dist

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
if dist.is_initialized():
    dist.destroy_process_group()
