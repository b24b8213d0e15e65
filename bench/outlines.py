#!/usr/bin/env python3
"""outlines.py - records whole training steps as graphs in the exchange format, and tells of them.

Each is written into the folder given: FOLDER/NAME.json, forward, backward and update, times from a
roofline of 10 TFLOP/s and 600 GB/s. Recording needs memory for parameters and optimiser state
only (2 GB for GPT-2), planning what the search needs. The table is markdown: --table writes it.
"""
import argparse
import datetime
import json
import re
import subprocess
import sys
from pathlib import Path

from built import add_tool, need_tool

SET = {
    "mlp_b4096": "--model mlp --batch 4096",
    "lenet_b64": "--model lenet",
    "cnn_b64": "--model cnn",
    "resnet18_b16": "--model resnet18",
    "resnet50_b32": "--model resnet50 --batch 32",
    "vgg16_b32": "--model vgg16 --batch 32",
    "mobilenetv2_b32": "--model mobilenetv2 --batch 32",
    "densenet121_b32": "--model densenet121 --batch 32",
    "unet_b8": "--model unet --batch 8",
    "resnet_b128_l20": "--model resnet --depth 20",
    "resnet_b128_l110": "--model resnet --depth 110",
    "resnet_b128_l398": "--model resnet --depth 398",
    "gpt_b8": "--model gpt",
    "gpt2_b4": "--model gpt2",
    "lstm_b16": "--model lstm",
    "chainlstm_b25_t64": "--model chainlstm --length 64",
    "treelstm_b25_t32": "--model treelstm",
    "treelstm_b25_t96": "--model treelstm --length 96",
    "randomtree_b25_t64": "--model randomtree --length 64",
}
HEAD = ("| graph | operations | tensors | persistent, MB | peak without a budget, MB | step, ms |\n"
        "|---|---:|---:|---:|---:|---:|")


def record(weir, folder, name):
    """Writes the graph; returns its path, or says why not."""
    path = folder / f"{name}.json"
    command = [weir, "dump", *SET[name].split(), "--what", "outline", "--out", path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"outlines.py: {name}: {done.stderr.strip()}")
    return path


def describe(weir, path):
    """A row of the table: what `weir plan` says of the graph without a budget."""
    done = subprocess.run([weir, "plan", path, "--moves", "1", "--out", "/dev/null"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"outlines.py: {path}: {done.stderr.strip()}")
    graph = json.loads(path.read_text())
    peak = int(re.search(r"without a budget +(\d+)", done.stderr).group(1))
    persistent = sum(t["bytes"] for t in graph["tensors"]
                     if t["kind"] in ("param", "state", "input"))
    return (f"| {path.stem} | {len(graph['ops'])} | {len(graph['tensors'])} "
            f"| {persistent / 1e6:.3f} | {peak / 1e6:.3f} "
            f"| {sum(o['time_us'] for o in graph['ops']) / 1e3:.3f} |")


def table(rows, names):
    """The whole page."""
    return "\n".join([
        "# Graphs recorded by Weir", "",
        "`bench/outlines.py FOLDER` writes them: whole training steps at level 1, in the exchange",
        "format. SGD with momentum, GPT-2 with Adam. Peak: planned without a budget, addresses",
        "included, results in place of inputs that end; step: sum of flops / 10 TFLOP/s + bytes / "
        "600 GB/s. Nothing here",
        f"depends on a machine. {datetime.date.today().isoformat()}.", "", HEAD, *rows, "",
        "| graph | recorded by `weir dump --what outline` with |", "|---|---|",
        *(f"| {n} | `{SET[n]}` |" for n in names), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"of these, or all: {', '.join(SET)}")
    add_tool(parser)
    parser.add_argument("--table", type=Path, help="write the table there, too")
    args = parser.parse_args()
    wrong = set(args.names) - set(SET)
    if wrong:
        parser.error(f"'{sorted(wrong)[0]}' is none of {', '.join(SET)}")
    need_tool(args.weir)
    args.folder.mkdir(parents=True, exist_ok=True)
    names = args.names or list(SET)
    rows = []
    print(HEAD)
    for name in names:
        rows.append(describe(args.weir, record(args.weir, args.folder, name)))
        print(rows[-1], flush=True)
    if args.table:
        args.table.write_text(table(rows, names))


if __name__ == "__main__":
    main()
