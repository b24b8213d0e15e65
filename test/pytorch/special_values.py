#!/usr/bin/env python3
"""special_values - NaN, infinities, signed zeros, subnormals in every operand, against PyTorch.

Each operation of weir/op.h computes tensors that are full of such values, graph off, graph on and
in a chain that is fused, forward and backward, in all its types and in sizes with and without a
tail of the vector body; a case is one result or gradient. It holds if each element is as PyTorch
has it: NaN where NaN is, the same infinity, the same sign of a zero, else equal within the
operation's tolerance. Where Weir means to differ, the expectation beside the operation
(special_cases.py) says what is expected instead, in the words of weir/op.h. Then the same calls run
on every instruction set that the machine has: all must give the same bits.

Usage: special_values.py [BUILD] [-k WORD] [-v]. Ends with "special: N passed, M failed". Left out,
with a sentence, where the interpreter has no torch: WEIR_TORCH_PYTHON names another.
"""
import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from torch_python import need_torch

ROOT = Path(__file__).resolve().parent.parent.parent
SIZES = (1, 7, 16, 33, 100)
MODES = ("off", "on", "chain")


def differ(got, want, eps, signed, absolute=0.0):
    """Where the elements of two tensors differ, as a mask; eps: tolerance in units of the type;
    signed: of zeros the sign counts."""
    if not got.dtype.is_floating_point:
        return got != want
    a, b = got.double(), want.double()
    nan = torch.isnan(a) & torch.isnan(b)
    size = b.abs().clamp(min=torch.finfo(got.dtype).tiny)
    near = (a - b).abs() <= eps * torch.finfo(got.dtype).eps * size + absolute
    zeros = (a == 0) & (b == 0)
    equal = (a == b) & ~zeros | zeros & ((torch.signbit(a) == torch.signbit(b)) | (not signed))
    return ~(nan | equal | (near & torch.isfinite(a) & ~zeros & (eps > 0)))


class Run:
    """All cases, counted."""

    def __init__(self, dev, args):
        self.dev, self.args = dev, args
        self.passed, self.wrong, self.digest = 0, {}, hashlib.sha256()

    def remember(self, got):
        """For the digest; one NaN is like another: sign and payload are the machine's."""
        flat = got.reshape(-1).clone()
        if flat.dtype.is_floating_point:
            flat[torch.isnan(flat)] = float("nan")
        if flat.numel():
            self.digest.update(flat.view(torch.uint8).numpy().tobytes())

    def note(self, case, label, what, got, wants, eps, inputs, absolute=0.0):
        """One case: a result or gradient. wants: what is right, of halves two things."""
        want = wants[0]
        if case.rows:
            self.remember(got)
        if want is None or self.args.digest:
            return
        if got.shape != want.shape or got.dtype != want.dtype:
            self.wrong.setdefault((label[0], what), []).append(
                (label, f"{got.dtype}{tuple(got.shape)}, not {want.dtype}{tuple(want.shape)}"))
            return
        signed = what == "value"
        mask = differ(got, want, eps, signed, absolute)
        for other in wants[1:]:
            if other is not None and other.dtype == got.dtype and other.shape == got.shape:
                mask &= differ(got, other, eps, signed, absolute)
        if not bool(mask.any()):
            self.passed += 1
            return
        lines = []
        for at in mask.nonzero()[:self.args.v and 400 or 6]:
            at = tuple(at.tolist())
            from_ = [t[at].item() if t.shape == got.shape else "..." for t in inputs]
            lines.append(f"{from_} -> {got[at].item()!r}, not {want[at].item()!r}")
        self.wrong.setdefault((label[0], what), []).append((label, "; ".join(lines)))

    def compute(self, case, inputs, dy, mode):
        """Result and gradients by Weir; gradients are None where there are none."""
        dev = self.dev
        kinds = case.kinds or ["param"] * len(inputs)
        made = [dev.make(t, k if t.dtype in FLOAT_TYPES or k != "param" else "input")
                for t, k in zip(inputs, kinds)]
        wrt = [m for m, t, k in zip(made, inputs, kinds)
               if k == "param" and t.dtype in FLOAT_TYPES and case.grad]
        seed = dev.make(dy) if wrt and dy is not None else None
        dev.scope("begin")
        graph = dev.pointer("weir_graph_begin", dev.at) if mode != "off" else None
        use = [chained(dev, m) if mode == "chain" and w in wrt else m for m, w in zip(made, made)]
        y = case.weir(dev, *use)
        if mode == "chain" and wrt:
            y = chained(dev, y)
        dev.keep(y)
        grads = dev.gradients(y, seed, wrt) if seed else []
        for g in grads:
            dev.keep(g)
        if graph:
            dev.status("weir_graph_end", graph, None)
            dev.status("weir_graph_run", graph)
        result = dev.read(y), [None if g is None else dev.read(g) for g in grads]
        states = [dev.read(m) for m, k in zip(made, kinds) if k == "state"]
        if graph:
            dev.lib.weir_graph_free(graph)
        dev.scope("end")
        dev.clear()
        return (*result, states)

    def expect(self, case, inputs, dy, native=False):
        """The same by PyTorch, or by what the case says in its place; native: halves as PyTorch
        computes them, else in f32."""
        kinds = case.kinds or ["param"] * len(inputs)
        leaf = [t.clone().requires_grad_(k == "param" and t.dtype in FLOAT_TYPES and case.grad)
                for t, k in zip(inputs, kinds)]
        y = case.ref(*leaf) if native else case.torch(*leaf)
        wrt = [t for t in leaf if t.requires_grad]
        if case.slope:
            grads = case.slope(dy, y.detach(), *[t.detach() for t in leaf])
        elif wrt and dy is not None and y.requires_grad:
            grads = torch.autograd.grad(y, wrt, dy, allow_unused=True)
        else:
            grads = []
        states = [t.detach() for t, k in zip(leaf, kinds) if k == "state"]
        return y.detach(), [g if g is None else g.detach() for g in grads], states

    def one(self, case, dtype, size, mode, seeds):
        """All comparisons of a case in one mode; seeds: of ordinary numbers, or special too."""
        inputs = case.inputs(dtype, size)
        label = (case.name, str(dtype)[6:], size, mode, seeds)
        with torch.no_grad():
            probe = case.torch(*[t.clone() for t in inputs])
        dy = None
        if probe.dtype in FLOAT_TYPES and case.grad:
            dy = cycle([1.0, -2.0, 0.5] if seeds == "plain" else
                       [float("nan"), float("inf"), -0.0, 3.0], probe.numel(), probe.dtype)
            dy = dy.reshape(probe.shape)
        right = [self.expect(case, inputs, dy)]
        if dtype in special_cases.HALVES:
            right.append(self.expect(case, inputs, dy, True))
        got, got_grads, got_states = self.compute(case, inputs, dy, mode)
        eps = case.eps_of(dtype)
        unit = torch.finfo(dtype).eps if dtype.is_floating_point else 0
        self.note(case, label, "value", got, [r[0] for r in right], eps, inputs, case.near * unit)
        for i, g in enumerate(got_grads):
            if g is not None and i < len(right[0][1]):
                self.note(case, label, f"gradient {i}", g, [r[1][i] for r in right],
                          max(eps, case.grad_eps), inputs, case.grad_near * unit)
        for i, g in enumerate(got_states):
            self.note(case, label, f"state {i}", g, [r[2][i] for r in right], eps, inputs)

    def all(self):
        """Every case in every type, size and mode."""
        for case in CASES:
            if self.args.k and self.args.k not in case.name:
                continue
            for dtype in case.types:
                for size in case.sizes or SIZES:
                    for mode in MODES:
                        self.one(case, dtype, size, mode, "plain")
                    exact = case.eps == 0 or dtype not in special_cases.HALVES
                    if case.grad and case.special_dy and exact and dtype in FLOAT_TYPES:
                        self.one(case, dtype, size, "chain", "special")

    def report(self):
        """What differs, by operation."""
        failed = 0
        for (name, what), seen in sorted(self.wrong.items()):
            failed += len(seen)
            label, lines = seen[-1]
            print(f"{name} {what}: {len(seen)} cases differ, in "
                  f"{sorted({s[0][1] for s in seen})}, {sorted({s[0][3] for s in seen})}")
            for label, lines in seen if self.args.v else seen[-1:]:
                print(f"    {label[1:]}: {lines}")
        return failed


def chained(dev, t):
    """t through two rows that change nothing, to be fused with what is beside it."""
    return dev.call("neg", dev.call("neg", t))


def sets_agree(build, args):
    """The same digest of all results on every instruction set."""
    seen = {}
    for isa in ("base", "avx2", "avx512"):
        command = [sys.executable, __file__, str(build), "--digest"] + (["-k", args.k] if args.k
                                                                        else [])
        env = dict(os.environ, WEIR_ISA=isa)
        seen[isa] = subprocess.run(command, env=env, check=True, capture_output=True,
                                   text=True).stdout.split()[-1]
    print("instruction sets:", ", ".join(f"{isa} {d[:12]}" for isa, d in seen.items()))
    return len(set(seen.values())) == 1


def main():
    """Runs, prints, counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=str(ROOT / "build"))
    parser.add_argument("-k", default="")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--digest", action="store_true")
    args = parser.parse_args()
    run = Run(Device(str(Path(args.build) / "libweir.so")), args)
    run.all()
    if args.digest:
        print(run.digest.hexdigest())
        return 0
    failed = run.report()
    if not sets_agree(args.build, args):
        print("instruction sets give different bits")
        failed += 1
    print(f"special: {run.passed} passed, {failed} failed")
    return failed != 0


need_torch("special")
import torch                                                                    # noqa: E402

import special_cases                                                            # noqa: E402
import special_layers                                                           # noqa: E402
from special_cases import FLOAT_TYPES, cycle                                    # noqa: E402
from special_weir import Device                                                 # noqa: E402

CASES = [case for kind in (special_cases.curves, special_cases.between, special_cases.casts,
                           special_cases.reductions, special_layers.images,
                           special_layers.products, special_layers.norms, special_layers.losses,
                           special_layers.moves, special_layers.updates) for case in kind()]

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(1)
    sys.exit(main())
