"""Runs a script as one process of a job, and ends the process without taking the interpreter down.

A thread of the process group, of DistributedDataParallel or of autograd that asks for the interpreter's lock while the
interpreter is going down is made to exit, which C++ answers, now and then, with "terminate called without an active
exception"; torchrun takes that for a failure of the job. What is registered to run at exit runs; an error of the script
ends the process as usual, with its traceback and its code.
"""

import atexit
import os
import runpy
import sys

import torch.distributed as dist

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
if dist.is_initialized():
    dist.destroy_process_group()
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
