#!/usr/bin/env python3
"""step_peaks.py - the step peak of every bundled model, and what ordering its nodes saves.

Usage: step_peaks.py [--weir build/weir] [--before OTHER/weir] [--out TABLE.md] [MODEL ...]. A step
peak is the arena of the plan: everything beyond parameters, state and inputs. "In recorded order"
is the plan without the pass `order`; --before adds the plan of another build. Bytes depend on the
workspaces of the kernels chosen, thus on processor and libraries, never on time.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ["mlp", "cnn", "lenet", "resnet18 --batch 32 --image 32", "resnet18 --batch 16",
          "resnet50 --batch 16", "resnet --depth 110", "vgg16 --batch 8",
          "densenet121 --batch 8", "mobilenetv2 --batch 16", "unet --batch 2", "tiny", "gpt",
          "gpt2 --batch 2", "lstm", "treelstm", "randomtree", "chainlstm",
          "mlp --precision bf16", "resnet50 --batch 16 --precision bf16", "gpt --precision bf16"]


def plan(weir, model, *more):
    """(arena, lower bound) in bytes."""
    command = [str(weir), "dump", "--model", *model.split(), "--threads", "2", "--what", "json"]
    environment = dict(os.environ, LD_LIBRARY_PATH=str(Path(weir).parent))
    done = subprocess.run([*command, *more], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"step_peaks.py: {model}: {done.stderr.strip()}")
    made = json.loads(done.stdout)["plan"]
    return made["arena_bytes"], made["lower_bound_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--weir", type=Path, default=ROOT / "build" / "weir")
    parser.add_argument("--before", type=Path, help="weir of another build, to compare with")
    parser.add_argument("--out", type=Path, help="also write the table there")
    options = parser.parse_args()
    names = ["in recorded order, MB", *(["before, MB"] if options.before else []),
             "planned, MB", "planned / bound"]
    lines = ["| step | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    print(*lines, sep="\n", flush=True)
    for model in options.models:
        recorded, _ = plan(options.weir, model, "--disable", "order")
        arena, bound = plan(options.weir, model)
        cells = [model, f"{recorded / 1e6:.3f}"]
        if options.before:
            cells.append(f"{plan(options.before, model)[0] / 1e6:.3f}")
        cells += [f"{arena / 1e6:.3f}", f"{arena / bound if bound else 1:.4f}"]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if options.out:
        head = ["# Step peaks", "",
                "`python3 bench/step_peaks.py`: bytes that a planned step needs beyond parameters,",
                f"state and inputs, nothing recomputed, 2 threads. {datetime.date.today()}.", ""]
        text = "\n".join(head + lines) + "\n"
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
