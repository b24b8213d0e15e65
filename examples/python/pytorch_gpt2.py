"""pytorch_gpt2 - GPT-2 of transformers trained by PyTorch: eagerly, compiled by inductor, and
compiled by Weir within a budget. Losses, time and memory side by side.

Weights and tokens are random; nothing is downloaded. Without PyTorch or transformers it says so.
"""
from __future__ import annotations

import argparse
import copy
import os
import shutil
import sys
from collections.abc import Callable

os.environ.setdefault("KINETO_LOG_LEVEL", "5")     # its profiler complains of missing cards
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import weir
from pytorch_resnet import Result, allocated, measured      # says "torch: left out" without it

import torch

import weir.torch

try:
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError:
    print("transformers: left out")
    sys.exit(0)


# Where torch is not installed, its classes have no types, and a checker is told to accept them.
class NextToken(torch.nn.Module):       # type: ignore[misc, no-any-unimported]
    """The model with its loss: the model's own loss writes to a log, where Dynamo breaks the
    graph."""

    def __init__(self, model: torch.nn.Module) -> None:     # type: ignore[no-any-unimported]
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:    # type: ignore[no-any-unimported]
        logits = self.model(input_ids=tokens).logits
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1),
                                                 tokens[:, 1:].flatten())


class Comparison:
    """One model and its batches, trained from the same weights each time."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        torch.manual_seed(args.seed)
        self.model = NextToken(GPT2LMHeadModel(GPT2Config(
            n_layer=args.layers, n_embd=args.width, n_head=args.heads, n_positions=args.length,
            vocab_size=args.vocabulary, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            use_cache=False)))
        self.batches = [torch.randint(0, args.vocabulary, (args.batch, args.length))
                        for _ in range(args.steps)]

    def run(self, label: str,               # type: ignore[no-any-unimported]
            compiled: Callable[[torch.nn.Module], torch.nn.Module]) -> Result:
        """The usual loop of PyTorch with a model that is compiled in some way."""
        model = copy.deepcopy(self.model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.args.lr)
        call = compiled(model)

        def step(i: int) -> float:
            optimizer.zero_grad()
            loss = call(self.batches[i])
            loss.backward()
            optimizer.step()
            return float(loss.item())
        result = measured(label, step, self.args.steps)
        graphs = weir.torch.compiled_graphs()
        kept = [self.batches[0], *model.buffers()]
        kept += [] if graphs else list(model.parameters())      # else in Weir's memory
        kept += [t for state in optimizer.state.values() for t in state.values()
                 if torch.is_tensor(t)]
        optimizer.zero_grad()           # gradients count for the step, which makes them
        result.peak = sum(t.untyped_storage().nbytes() for t in kept) + allocated(step)
        for graph in graphs:
            stats, arena = graph.stats, graph.measure()
            limit = f" <= budget {stats['budget_bytes']}" if stats["budget_bytes"] else ""
            print(f"{label:11}  planned {stats['planned_peak_bytes']} = measured "
                  f"{stats['persistent_bytes'] + arena}{limit} bytes")
        if graphs:                      # its pieces share one arena
            result.peak += max(g.stats["planned_peak_bytes"] for g in graphs)
        return result

    def by_weir(self, label: str, **options: object) -> Result:
        """Compiled by Weir; the program has installed it, so backend="weir" does the same."""
        torch.compiler.reset()
        result = self.run(label, lambda model: torch.compile(
            model, backend=weir.torch.backend, options=options))
        torch.compiler.reset()
        return result


def compare(args: argparse.Namespace) -> list[Result]:
    """The results of the ways that are asked for."""
    compared, results = Comparison(args), []
    if "eager" in args.ways:
        results.append(compared.run("eager", lambda model: model))
    if "inductor" in args.ways and shutil.which("g++"):
        results.append(compared.run("inductor", torch.compile))
    elif "inductor" in args.ways:
        print("inductor: left out, there is no g++")
    if "weir" in args.ways:
        results.append(compared.by_weir("weir"))
        results.append(compared.by_weir("weir budget", budget=args.budget))
        same = "equal bits" if results[-1].losses == results[-2].losses else "DIFFERENT"
        print(f"weir with and without the budget: {same}")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, value, text in (("steps", 4, "steps of training"),
                              ("batch", 8, "sequences of a step"),
                              ("length", 64, "tokens of a sequence"), ("layers", 2, "blocks"),
                              ("width", 128, "of the embedding"), ("heads", 4, "of attention"),
                              ("vocabulary", 512, "tokens"), ("seed", 1, "of weights and tokens")):
        parser.add_argument(f"--{name}", type=int, default=value, help=text)
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--budget", metavar="SIZE", default="90%",
                        help="most that forward and backward pass may take in Weir")
    parser.add_argument("--ways", nargs="+", default=["eager", "inductor", "weir"],
                        choices=["eager", "inductor", "weir"], help="which to run")
    args = parser.parse_args()
    try:
        results = compare(args)
    except weir.BudgetError as error:
        sys.exit(str(error))
    print(f"\n{'':11}  {'ms/step':>9}  {'peak MB':>9}  last loss")
    for r in results:
        print(f"{r.label:11}  {r.ms:9.1f}  {r.peak / 1e6:9.1f}  {r.losses[-1]:.9g}")


if __name__ == "__main__":
    main()
