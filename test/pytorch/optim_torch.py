#!/usr/bin/env python3
"""optim_torch - the optimisers and schedules of the C library against PyTorch's, step by step.

Each run gives the same parameters, and at every step the same gradients, to an optimiser of Weir
and to torch.optim's; after each of 25 steps all parameters must agree: in f64 within 1e-12 of their
size; in f32 they must be as near to what f64 makes of the same numbers as PyTorch's are, within a
factor of two. Runs: every optimiser with several sets of numbers, at once and as a
graph that runs again and again; learning rates that follow a schedule.

Usage: optim_torch.py [BUILD] [-k WORD] [-v]. Ends with "optim: N passed, M failed". Left out, with
a sentence, where the interpreter has no torch: WEIR_TORCH_PYTHON names another.
"""
import argparse
import ctypes
import sys
from pathlib import Path

from torch_python import need_torch

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 25
SHAPES = ((), (7,), (3, 4), (70, 33))
NEAR = {"f64": 1e-12, "f32": 1e-6}        # f32: and what PyTorch is off by, twice

# Numbers of torch.optim's optimisers, by name: {} is PyTorch's default.
SGD = ({}, {"weight_decay": 0.05}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True},
       {"momentum": 0.8, "dampening": 0.3}, {"momentum": 0.5, "dampening": 1.0},
       {"momentum": 0.9, "weight_decay": 0.1},
       {"momentum": 0.7, "nesterov": True, "weight_decay": 0.02},
       {"momentum": 0.95, "dampening": 0.5, "weight_decay": 0.01})
ADAM = ({}, {"betas": (0.8, 0.9)}, {"betas": (0.5, 0.99), "eps": 1e-4}, {"weight_decay": 0.05},
        {"eps": 0.1}, {"betas": (0.95, 0.9999), "eps": 1e-6, "weight_decay": 0.3})
ADAGRAD = ({}, {"lr_decay": 0.1}, {"weight_decay": 0.05}, {"initial_accumulator_value": 0.5},
           {"eps": 1e-3}, {"lr_decay": 0.01, "weight_decay": 0.1, "eps": 1e-5,
                           "initial_accumulator_value": 2.0})
RMSPROP = ({}, {"alpha": 0.9}, {"momentum": 0.9}, {"centered": True}, {"weight_decay": 0.05},
           {"eps": 1e-3}, {"centered": True, "momentum": 0.8},
           {"alpha": 0.5, "eps": 1e-4, "weight_decay": 0.1, "momentum": 0.5, "centered": True})


def weir_options(name, given):
    """The options structure for numbers of torch.optim; what is not given is PyTorch's default."""
    get = given.get
    if name == "sgd":
        return Sgd(get("momentum", 0), get("weight_decay", 0), get("dampening", 0),
                   get("nesterov", False), None)
    if name in ("adam", "adamw"):
        decay = get("weight_decay", 0.01 if name == "adamw" else 0)
        return Adam(*get("betas", (0.9, 0.999)), get("eps", 1e-8), decay)
    if name == "adagrad":
        return Adagrad(get("eps", 1e-10), get("weight_decay", 0), get("lr_decay", 0),
                       get("initial_accumulator_value", 0), False)
    return Rmsprop(get("alpha", 0.99), get("eps", 1e-8), get("weight_decay", 0),
                   get("momentum", 0), get("centered", False), False)


class Schedule:
    """A learning rate by step: PyTorch's scheduler and the C library's function."""

    def __init__(self, name, torch_name, numbers, weir_numbers):
        self.name, self.torch_name, self.numbers = name, torch_name, numbers
        self.weir_numbers = weir_numbers

    def torch(self, optimiser):
        """PyTorch's scheduler."""
        return getattr(torch.optim.lr_scheduler, self.torch_name)(optimiser, *self.numbers)

    def weir(self, dev, lr, step, base):
        """One call, recorded or at once: sets lr."""
        rest = [ctypes.c_double(x) if isinstance(x, float) else ctypes.c_int64(x)
                for x in self.weir_numbers]
        dev.status(f"weir_lr_{self.name}", lr, step, ctypes.c_double(base), *rest)


SCHEDULES = (Schedule("step", "StepLR", (7, 0.5), (0.5, 7)),
             Schedule("step", "StepLR", (1, 0.9), (0.9, 1)),
             Schedule("exponential", "ExponentialLR", (0.95,), (0.95,)),
             Schedule("cosine", "CosineAnnealingLR", (STEPS, 0.001), (0.001, STEPS)),
             Schedule("cosine", "CosineAnnealingLR", (40,), (0.0, 40)))


class Run:
    """One optimiser with its numbers, a type, at once or as a graph, a schedule or none."""

    def __init__(self, name, given, kind, graph, schedule=None, rate=0.05):
        self.name, self.given, self.kind, self.graph = name, given, kind, graph
        self.schedule, self.rate = schedule, rate
        self.dtype = torch.float64 if kind == "f64" else torch.float32

    def __str__(self):
        said = f"{self.name} {self.given} {self.kind} {'graph' if self.graph else 'at once'}"
        return said + (f" {self.schedule.torch_name}{self.schedule.numbers}"
                       if self.schedule else "")

    def numbers(self):
        """Parameters, and gradients of each step. Some gradients are 0, small, large."""
        made = torch.Generator().manual_seed(5)
        start = [torch.randn(s, generator=made, dtype=torch.float64) for s in SHAPES]
        scale = (1, 1e-3, 10, 1, 0.1)
        steps = [[torch.randn(s, generator=made, dtype=torch.float64) * scale[n % 5]
                  for s in SHAPES] for n in range(STEPS)]
        steps[2][2][0] = 0
        return [t.to(self.dtype) for t in start], [[t.to(self.dtype) for t in s] for s in steps]

    def by_torch(self, start, steps):
        """Parameters after each step."""
        params = [t.clone().requires_grad_() for t in start]
        kind = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "adagrad": "Adagrad",
                "rmsprop": "RMSprop"}[self.name]
        optimiser = getattr(torch.optim, kind)(params, lr=self.rate, foreach=False, **self.given)
        schedule = self.schedule.torch(optimiser) if self.schedule else None
        after = []
        for grads in steps:
            for p, g in zip(params, grads):
                p.grad = g.clone()
            optimiser.step()
            if schedule:
                schedule.step()
            after.append([p.detach().clone() for p in params])
        return after

    def step(self, dev, optimiser, pairs, count):
        """One update, recorded or at once."""
        if self.schedule:
            kind = ctypes.c_int(1 if self.kind == "f64" else 0)
            self.schedule.weir(dev, dev.pointer("weir_optim_lr", optimiser, kind), count,
                               self.rate)
        dev.status("weir_optim_update", optimiser, pairs, ctypes.c_size_t(len(SHAPES)))
        dev.status("weir_increment", count, ctypes.c_double(1))

    def by_weir(self, dev, start, steps):
        """Parameters after each step."""
        params = [dev.make(t, "param") for t in start]
        grads = [dev.make(t) for t in steps[0]]
        count = dev.make(torch.zeros((), dtype=torch.float64), "state")
        pairs = (Pair * len(SHAPES))(*[Pair(p.value, g.value) for p, g in zip(params, grads)])
        options = weir_options(self.name, self.given)
        optimiser = dev.pointer(f"weir_{self.name}_new", dev.at, ctypes.c_double(self.rate),
                                ctypes.byref(options))
        graph, after = None, []
        if self.graph:
            graph = dev.pointer("weir_graph_begin", dev.at)
            self.step(dev, optimiser, pairs, count)
            dev.status("weir_graph_end", graph, None)
        for values in steps:
            for g, t in zip(grads, values):
                size = ctypes.c_size_t(t.numel() * t.element_size())
                dev.status("weir_write", g, ctypes.c_void_p(t.data_ptr()), size)
            if graph:
                dev.status("weir_graph_run", graph)
            else:
                self.step(dev, optimiser, pairs, count)
            after.append([dev.read(p) for p in params])
        if graph:
            dev.lib.weir_graph_free(graph)
        dev.lib.weir_optim_free(optimiser)
        dev.clear()
        return after

    def errors(self, dev):
        """The largest error of a parameter after any step: Weir's and PyTorch's."""
        start, steps = self.numbers()
        got, other = self.by_weir(dev, start, steps), self.by_torch(start, steps)
        if self.kind == "f64":
            return off(start, got, other), 0.0
        exact = self.by_torch([t.double() for t in start], [[t.double() for t in s] for s in steps])
        return off(start, got, exact), off(start, other, exact)


def off(start, got, want):
    """The largest error, in parts of the element or, where that is larger, of what the tensor's
    elements were at the start in the root mean square: an element may pass through 0."""
    least = [float(t.double().square().mean().sqrt()) for t in start]
    worst = 0.0
    for now in zip(got, want):
        for a, b, size in zip(*now, least):
            error = float(((a.double() - b).abs() / b.abs().clamp(min=size)).max())
            worst = max(worst, error if error == error else float("inf"))
    return worst


def runs():
    """All runs."""
    made = []
    scheduled = (("sgd", SGD[2]), ("adam", ADAM[0]), ("adagrad", ADAGRAD[0]),
                 ("rmsprop", RMSPROP[3]))
    sets = {"sgd": SGD, "adam": ADAM, "adamw": ADAM, "adagrad": ADAGRAD, "rmsprop": RMSPROP}
    for kind in NEAR:
        for graph in (False, True):
            made += [Run(name, given, kind, graph) for name in sets for given in sets[name]]
            made += [Run(name, given, kind, graph, schedule) for schedule in SCHEDULES
                     for name, given in scheduled]
    return made


def main():
    """Runs, prints, counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=str(ROOT / "build"))
    parser.add_argument("-k", default="")
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    dev = Device(str(Path(args.build) / "libweir.so"))
    passed, failed, worst = 0, 0, {}
    for run in runs():
        if args.k not in str(run):
            continue
        error, others = run.errors(dev)
        key = run.name, run.kind
        worst[key] = max(worst.get(key, (0, 0)), (error, others))
        right = error <= NEAR[run.kind] + 2 * others
        passed, failed = passed + right, failed + (not right)
        if args.v or not right:
            print(f"{'right' if right else 'WRONG'}: {run}: off by {error:.2g}")
    for (name, kind), (error, others) in worst.items():
        print(f"{name} {kind}: off by {error:.2g} at most" +
              (f", PyTorch there by {others:.2g}" if others else ""))
    print(f"optim: {passed} passed, {failed} failed")
    return failed != 0


need_torch("optim")
import torch                                                                    # noqa: E402

from special_weir import Adagrad, Adam, Device, Pair, Rmsprop, Sgd              # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
