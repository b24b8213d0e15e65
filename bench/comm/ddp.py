#!/usr/bin/env python3
"""ddp.py - steps of PyTorch's DistributedDataParallel over gloo, as bench/comm/step.c makes them.

Usage: ddp.py MODEL STEPS [WIRE], with torchrun's variables: RANK, WORLD_SIZE, MASTER_ADDR,
MASTER_PORT. WIRE bf16 or f16: the hook that sends gradients in that type. Rank 0 prints the
milliseconds of each step. Needs torch.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from networks import build      # noqa: E402

WARM = 3
SIZES = {"resnet18": (32, 32), "gpt": (8, 0)}       # batch, image
HOOKS = {"bf16": default_hooks.bf16_compress_hook, "f16": default_hooks.fp16_compress_hook}


def main():
    model, steps = sys.argv[1], int(sys.argv[2])
    wire = sys.argv[3] if len(sys.argv) > 3 else "f32"
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    net, x, y = build(model, *SIZES[model])
    net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True,
                                                    static_graph=True)
    if wire in HOOKS:
        net.register_comm_hook(None, HOOKS[wire])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for i in range(WARM + steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        if i >= WARM and dist.get_rank() == 0:
            print(f"{(time.perf_counter() - begin) * 1e3:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
