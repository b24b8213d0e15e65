#!/usr/bin/env python3
"""pytorch.py - the PyTorch side of a comparison: trains on command, one process per variant.

Speaks the protocol of `weir bench worker` (src/tool/worker.c) on stdin and stdout:
    (start)  -> ready VERSION BATCH
    run K    -> ms T1 ... TK            milliseconds of each of K steps
    memory   -> memory PERSISTENT STEP  bytes; STEP is the step peak beyond the persistent ones
    quit     leaves

A step is forward, cross entropy, backward and SGD with momentum 0.9 on one fixed synthetic batch,
in f32: the models and steps of src/tool/trial.c. Needs torch; the networks are written out here.
"""
import argparse
import os
import sys
import time

os.environ.setdefault("KINETO_LOG_LEVEL", "99")     # the profiler's remarks about missing GPUs

import torch                                         # noqa: E402
from torch import nn                                 # noqa: E402
from torch.nn import functional as F                 # noqa: E402

WARM_UP = 2
SMALL_IMAGE = 64        # up to this size a resnet has the CIFAR stem and ten classes


def mlp(widths):
    layers = []
    for i in range(len(widths) - 1):
        layers.append(nn.Linear(widths[i], widths[i + 1]))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers[:-1])


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def conv_bn(inside, out, kernel, stride=1):
    return nn.Sequential(
        nn.Conv2d(inside, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out))


def digits_cnn():
    return nn.Sequential(
        conv_bn(1, 32, 3), nn.ReLU(), conv_bn(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(1024, 10))


class Block(nn.Module):
    """y = relu(f(x) + shortcut(x)), ResNet v1.5; ReLU overwrites its input, as torchvision's."""

    def __init__(self, inside, width, stride, bottleneck):
        super().__init__()
        out = 4 * width if bottleneck else width
        if bottleneck:
            parts = [conv_bn(inside, width, 1), conv_bn(width, width, 3, stride),
                     conv_bn(width, out, 1)]
        else:
            parts = [conv_bn(inside, width, 3, stride), conv_bn(width, out, 3)]
        self.parts = nn.ModuleList(parts)
        project = stride != 1 or inside != out
        self.shortcut = conv_bn(inside, out, 1, stride) if project else nn.Identity()

    def forward(self, x):
        y = x
        for i, part in enumerate(self.parts):
            y = part(y)
            if i + 1 < len(self.parts):
                y = F.relu(y, inplace=True)
        y += self.shortcut(x)
        return F.relu(y, inplace=True)


def resnet(depth, image):
    small = image <= SMALL_IMAGE
    counts = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]
    layers = [conv_bn(3, 64, 3) if small else conv_bn(3, 64, 7, 2), nn.ReLU(inplace=True)]
    if not small:
        layers.append(nn.MaxPool2d(3, 2, 1))
    inside = 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        for i in range(count):
            layers.append(Block(inside, width, 2 if stage and not i else 1, depth == 50))
            inside = 4 * width if depth == 50 else width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10 if small else 1000)]
    return nn.Sequential(*layers)


# name: (default batch, network of an image size, input shape of an image size, classes)
MODELS = {
    "mlp": (128, lambda px: mlp([784, 1024, 1024, 10]), lambda px: (784,), 10),
    "cnn": (64, lambda px: digits_cnn(), lambda px: (1, 8, 8), 10),
    "lenet": (64, lambda px: lenet(), lambda px: (1, 28, 28), 10),
    "resnet18": (16, lambda px: resnet(18, px), lambda px: (3, px, px), 1000),
    "resnet50": (16, lambda px: resnet(50, px), lambda px: (3, px, px), 1000),
    "tiny": (8, lambda px: mlp([8] * 7), lambda px: (8,), 8),
}


class Trial:
    """A model in training with its one batch."""

    def __init__(self, args):
        batch, make, shape, classes = MODELS[args.model]
        if args.model.startswith("resnet") and args.image <= SMALL_IMAGE:
            classes = 10
        batch = args.batch or batch
        torch.manual_seed(1)
        self.net = make(args.image)
        self.x = torch.rand(batch, *shape(args.image)) * 2 - 1
        self.y = torch.randint(0, classes, (batch,))
        if args.variant == "tuned":
            self.net = self.net.to(memory_format=torch.channels_last)
            if self.x.dim() == 4:
                self.x = self.x.to(memory_format=torch.channels_last)
        fused = {"fused": True} if args.variant == "tuned" else {}
        self.optim = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9, **fused)
        for _ in range(WARM_UP):
            self.step()

    def step(self):
        self.optim.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.optim.step()

    def persistent(self):
        """Bytes of parameters, running statistics, momentum and the batch."""
        tensors = [*self.net.parameters(), *self.net.buffers(), self.x, self.y]
        tensors += [v for s in self.optim.state.values() for v in s.values() if torch.is_tensor(v)]
        return sum(t.untyped_storage().nbytes() for t in tensors)

    def step_peak(self):
        """Highest sum of the bytes a step has allocated and not freed, from the allocator's events.

        Gradients are dropped first, so the step begins with persistent bytes alone. What libraries
        keep inside themselves does not go through the allocator and is not seen.
        """
        self.optim.zero_grad(set_to_none=True)
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, profile_memory=True) as run:
            self.step()
        events = [e for e in run.profiler.kineto_results.events() if e.name() == "[memory]"]
        live = peak = 0
        for event in sorted(events, key=lambda e: e.start_ns()):
            live += event.nbytes()
            peak = max(peak, live)
        return peak


def serve(trial):
    print("ready", torch.__version__, len(trial.y), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        if words == ["memory"]:
            print("memory", trial.persistent(), trial.step_peak(), flush=True)
        elif len(words) == 2 and words[0] == "run" and words[1].isdigit():
            times = []
            for _ in range(int(words[1])):
                begin = time.perf_counter()
                trial.step()
                times.append((time.perf_counter() - begin) * 1e3)
            print("ms", *(f"{t:.6f}" for t in times), flush=True)
        else:
            print("error: send 'run K', 'memory' or 'quit'", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--batch", type=int, default=0, help="default: the model's own")
    parser.add_argument("--image", type=int, default=224, help="size of a resnet's images")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variant", choices=("default", "tuned"), default="default",
                        help="tuned: channels_last and fused SGD")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    serve(Trial(args))


if __name__ == "__main__":
    main()
