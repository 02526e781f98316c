"""Started by torchrun: one of two processes never comes to the barrier."""

import sys
import time

import torch.distributed as dist

from llm_rl.training.arguments import RunArguments

args = RunArguments(sys.argv[1], use_cpu=True, ddp_timeout=15, report_to="none")
print(f"process {args.process_index} of {args.world_size}", flush=True)
if args.process_index:
    time.sleep(600)
dist.barrier()
