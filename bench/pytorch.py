#!/usr/bin/env python3
"""pytorch.py - the PyTorch side of a comparison: trains on command, one process per variant.

Speaks the protocol of `weir bench worker` (src/tool/worker.c) on stdin and stdout:
    (start)  -> ready VERSION BATCH
    run K    -> ms T1 ... TK            milliseconds of each of K steps
    memory   -> memory PERSISTENT STEP  bytes; STEP is the step peak beyond the persistent ones
    quit     leaves

A step is forward, cross entropy, backward and SGD with momentum 0.9 on one fixed synthetic batch,
in f32 (products too, unless --tf32 or --precision): the steps of src/tool/bench_case.c on the
networks of networks.py. On a card a step's time ends when the card is done. Needs torch.
"""
import argparse
import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")     # the profiler's remarks about missing GPUs

import torch                                         # noqa: E402
from torch.nn import functional as F                 # noqa: E402
from torch.utils.checkpoint import checkpoint_sequential    # noqa: E402
from networks import MODELS, build                   # noqa: E402
from serve import serve                              # noqa: E402

WARM_UP = 2
TUNED = ("tuned", "compile", "reduce-overhead")
PRECISIONS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def allocated_peak(step):
    """The highest sum of the bytes that PyTorch's allocator on the CPU gave out in a step and had
    not got back. What libraries keep inside themselves does not go through it."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as run:
        step()
    live = peak = 0
    events = [e for e in run.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


class Trial:
    """A model in training with its one batch."""

    def __init__(self, args):
        torch.manual_seed(1)
        self.cuda = args.device != "cpu"
        self.net, self.x, self.y = build(args.model, args.batch, args.image)
        if self.cuda:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
            torch.backends.cudnn.benchmark = args.variant in TUNED
            self.net, self.x, self.y = (a.to(args.device) for a in (self.net, self.x, self.y))
        if args.variant in TUNED:
            self.net = self.net.to(memory_format=torch.channels_last)
            if self.x.dim() == 4:
                self.x = self.x.to(memory_format=torch.channels_last)
        fused = {"fused": True} if args.variant in TUNED else {}
        self.optim = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9, **fused)
        self.forward = self.forward_of(args.variant)
        kind = "cuda" if self.cuda else "cpu"
        self.autocast = torch.autocast(kind, dtype=PRECISIONS[args.precision],
                                       enabled=args.precision != "f32")
        for _ in range(WARM_UP):
            self.step()

    def forward_of(self, variant):
        """The net as called: checkpointed in sqrt(n) segments of its children, or compiled with a
        budget of the bytes that are saved for the backward pass (a share, no limit of the peak)."""
        if variant == "checkpoint":
            segments = round(len(self.net) ** 0.5)
            return lambda x: checkpoint_sequential(self.net, segments, x, use_reentrant=False)
        if variant == "compile":
            return torch.compile(self.net)
        if variant == "reduce-overhead":
            return torch.compile(self.net, mode="reduce-overhead")
        if variant.startswith("budget"):
            torch._functorch.config.activation_memory_budget = float(variant[len("budget"):])
            return torch.compile(self.net)
        return self.net

    def step(self):
        self.optim.zero_grad(set_to_none=True)
        with self.autocast:
            loss = F.cross_entropy(self.forward(self.x), self.y)
        loss.backward()
        self.optim.step()
        self.wait()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def persistent(self):
        """Bytes of parameters, running statistics, momentum and the batch."""
        tensors = [*self.net.parameters(), *self.net.buffers(), self.x, self.y]
        tensors += [v for s in self.optim.state.values() for v in s.values() if torch.is_tensor(v)]
        return sum(t.untyped_storage().nbytes() for t in tensors)

    def step_peak(self):
        """Highest sum of the bytes that a step has allocated and not freed.

        Gradients are dropped first, so the step begins with persistent bytes alone.
        """
        self.optim.zero_grad(set_to_none=True)
        if self.cuda:
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self.step()
            return torch.cuda.max_memory_allocated() - before
        return allocated_peak(self.step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--batch", type=int, default=0, help="default: the model's own")
    parser.add_argument("--image", type=int, default=0,
                        help="size of the images, where it may vary; default: the model's own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variant", default="default",
                        choices=("default", "tuned", "compile", "reduce-overhead", "checkpoint",
                                 "budget0.5", "budget0.35"),
                        help="tuned: channels_last and fused SGD; compile: and torch.compile; "
                        "reduce-overhead: and its CUDA graphs; checkpoint: in sqrt(n) segments; "
                        "budget: torch.compile, activation_memory_budget")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1; default: cpu")
    parser.add_argument("--tf32", action="store_true", help="products of f32 by TF32 units")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32",
                        help="bf16, f16: forward and loss under autocast")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    trial = Trial(args)
    serve(trial, torch.__version__, len(trial.x))


if __name__ == "__main__":
    main()
