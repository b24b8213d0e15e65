#!/usr/bin/env python3
# graph_mode.py - trains models with the graph off and on: table, CSV, JSON, pictures.
"""Trains models with the graph off and on, side by side in one process each, and shows what the
graph saves: time, memory, and whether the memory that was planned is the memory that was measured.

Every model is one run of `weir bench graph` (off and on take turns, so a busy machine slows both)
and one of `weir dump --what profile` (where the time goes, by operation). Nothing but Python is
needed; with matplotlib there are pictures as well. Results go to one folder:

  bench.csv, bench.json       a row per model and case, everything `weir bench graph` counts
  time.png, memory.png, operations.png, and the same as .svg
"""
import argparse
import csv
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from built import BUILD, add_tool
from machine import machine


# What is trained when nothing else is asked for: batch, image size, steps, rounds. The large ones
# have small batches and images, so that all models together take minutes; --batch and --image say
# otherwise.
MODELS = {
    "mlp": (128, None, 40, 10),
    "cnn": (64, None, 60, 10),
    "lenet": (64, None, 40, 10),
    "resnet18": (2, 96, 20, 5),
    "resnet50": (2, 96, 20, 5),
    "vgg16": (2, 96, 20, 5),
    "unet": (1, 64, 20, 5),
    "densenet121": (2, 96, 20, 5),
    "mobilenetv2": (2, 96, 20, 5),
    "gpt": (1, None, 20, 5),
    "lstm": (16, None, 20, 5),
    "tiny": (8, None, 2000, 10),
}
QUICK = ["mlp", "cnn", "lenet"]
ALL = [name for name in MODELS if name != "tiny"]
WARM_UP = 3             # steps that `weir bench graph` takes beside the timed ones
COLUMNS = ["model", "image", "batch", "case", "step_ms_median", "step_ms_min",
           "samples_per_second", "time_ratio_paired", "step_peak_bytes", "planned_peak_bytes",
           "measured_peak_bytes", "persistent_bytes", "arena_bytes", "lower_bound_bytes",
           "core_allocations_after_step_2", "bit_identical", "steps_compared"]


def weir(args, *words):
    """Runs the tool and returns its output; if it fails, exits with the tool's sentence."""
    command = [str(args.weir), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"graph_mode.py: cannot run '{args.weir}' ({error.strerror}); build Weir first, "
                 "or say where the tool is with --weir")
    if done.returncode != 0:
        sys.exit(f"graph_mode.py: {' '.join(command)} ended with code {done.returncode}:\n"
                 f"{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def settings(args, model):
    """Batch, image, steps and rounds of a model: its own, or what the options say."""
    batch, image, steps, rounds = MODELS[model]
    return (args.batch or batch, image and (args.image or image), args.steps or steps,
            args.rounds or rounds)


def common_words(args, model):
    batch, image, _, _ = settings(args, model)
    words = ["--model", model, "--batch", str(batch)]
    if image:
        words += ["--image", str(image)]
    if args.threads:
        words += ["--threads", str(args.threads)]
    return words


def measure(args, model):
    """The two rows, graph off and on, of one model."""
    _, image, steps, rounds = settings(args, model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        weir(args, "bench", "graph", *common_words(args, model), "--steps", str(steps), "--rounds",
             str(rounds), "--json", str(path))
        rows = json.loads(path.read_text())
    for row in rows:
        row["image"] = image
        row["steps_compared"] = steps + WARM_UP
        row["samples_per_second"] = round(1000 * row["batch"] / row["step_ms_median"], 3)
    return rows


def read_profile(text):
    """{"phases": {name: ms}, "operations": [{operation, kernel, count, ms, share}]}, both of a run.

    `text` is a profile at verbosity 2: level 1's phases, then a table by operation, by instruction.
    """
    head, table = text.split("\n\n")[:2]
    phases = {}
    for line in head.splitlines():
        words = line.split()
        if len(words) == 5 and words[2] == "ms":
            phases[words[0]] = float(words[1])
    operations = []
    for line in table.splitlines()[1:]:
        count, ms, share, size, _, _, rest = line.split(None, 6)
        kernel, operation = rest.rsplit(None, 1)
        operations.append({"operation": operation, "kernel": kernel.strip(), "count": int(count),
                           "ms": float(ms), "share": float(share), "bytes": int(size)})
    return {"phases": phases, "operations": operations}


def profile(args, model):
    return read_profile(weir(args, "dump", *common_words(args, model), "--what", "profile"))


# ---- tables ----

def pairs(rows):
    """(off, on) of each model."""
    return list(zip(rows[::2], rows[1::2]))


def title(row):
    return f"{row['model']}, {row['image']} px" if row["image"] else row["model"]


def markdown(head, lines):
    """A table; the first column is text, the others are numbers."""
    width = len(head)
    return "\n".join(["| " + " | ".join(head) + " |", "|---" + "|---:" * (width - 1) + "|",
                      *("| " + " | ".join(line) + " |" for line in lines)])


def megabytes(size):
    return f"{size / 1e6:.4g}"


def off_on_table(rows):
    """SINGA's table: throughput and memory with the graph off and on, and what on saves."""
    lines = []
    for off, on in pairs(rows):
        saved = 1 - on["measured_peak_bytes"] / off["measured_peak_bytes"]
        faster = 1 / on["time_ratio_paired"]
        for row in off, on:
            last = row is on
            lines.append([title(row), str(row["batch"]), row["case"],
                          megabytes(row["measured_peak_bytes"]),
                          megabytes(row["step_peak_bytes"]), f"{row['step_ms_median']:.4g}",
                          f"{row['samples_per_second']:.4g}", f"{saved:.1%}" if last else "",
                          f"{faster:.2f}" if last else ""])
    return markdown(["model", "batch", "graph", "memory MB", "of it beyond persistent MB",
                     "ms a step", "samples/s", "memory saved", "speed-up"], lines)


def promise_table(rows):
    """What a plan promises, and whether it was kept, by model."""
    def yes(value):
        return "yes" if value else "NO"

    lines = []
    for off, on in pairs(rows):
        same = on["planned_peak_bytes"] == on["measured_peak_bytes"]
        lines.append([title(on), str(on["batch"]), str(on["arena_bytes"]),
                      str(on["lower_bound_bytes"]),
                      f"{on['arena_bytes'] / max(1, on['lower_bound_bytes']):.4f}",
                      str(on["planned_peak_bytes"]), yes(same),
                      str(off["step_peak_bytes"]),
                      f"{on['step_peak_bytes'] / max(1, off['step_peak_bytes']):.3f}",
                      f"{yes(on['bit_identical'])}, {on['steps_compared']} steps",
                      str(on["core_allocations_after_step_2"])])
    return markdown(["model", "batch", "arena B", "lower bound B", "arena / bound",
                     "planned peak B", "= measured", "step peak off B", "on / off",
                     "bits on = off", "core allocations, steady"], lines)


def broken_promises(rows):
    """Sentences about models whose plan did not keep what it promises."""
    for _, on in pairs(rows):
        if on["planned_peak_bytes"] != on["measured_peak_bytes"]:
            yield (f"{on['model']}: planned {on['planned_peak_bytes']} bytes, measured "
                   f"{on['measured_peak_bytes']}")
        if not on["bit_identical"]:
            yield f"{on['model']}: graph on and off differ"
        if on["core_allocations_after_step_2"]:
            yield f"{on['model']}: {on['core_allocations_after_step_2']} allocations in steady runs"


def where_measured(facts):
    threads = f"{facts['threads']} threads" if facts["threads"] else "a thread per core"
    return f"{facts['machine']}; {threads}; {facts['library']}; {facts['date']}."


def write_promises(path, facts, rows, command):
    text = f"""# Every model: what its plan promises, what was measured

{where_measured(facts)}
Made by `{command}`.
A step is forward, cross entropy, backward, SGD with momentum 0.9; f32. Images and batches of the
large networks are small, so that the table takes minutes. *Arena*: all intermediates, gradients and
workspaces of a step; *lower bound*: the largest sum of bytes that live at once, below which no
placement gets. *Planned peak*: arena + parameters, momentum, statistics, inputs. *Measured*: live
blocks + the highest arena byte whose canary changed. *Bits*: parameters, states, momentum and loss
are equal after the same steps in both modes. *Core allocations*: of the library's own, in all timed
steps.

{promise_table(rows)}
"""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# ---- files ----

def write_csv(path, rows):
    names = COLUMNS + [name for name in rows[0] if name not in COLUMNS]
    with path.open("w", newline="") as to:
        writer = csv.DictWriter(to, names)
        writer.writeheader()
        writer.writerows(rows)


def facts_of(args):
    lines = weir(args, "info").splitlines()
    return {"machine": machine(), "threads": args.threads, "library": lines[0],
            "date": str(datetime.date.today())}


def draw(folder, rows, profiles):
    """The pictures' paths; none, and a sentence, where matplotlib is missing."""
    try:
        import plots
    except ImportError as error:
        print(f"graph_mode.py: no pictures, matplotlib cannot be imported ({error}); with it "
              "(pip install matplotlib) there are: time, memory, operations", file=sys.stderr)
        return []
    return plots.draw(folder, pairs(rows), profiles, title)


def model_list(text):
    names = {"quick": QUICK, "all": ALL}.get(text) or [n for n in text.split(",") if n]
    wrong = [n for n in names if n not in MODELS]
    if wrong or not names:
        raise argparse.ArgumentTypeError(
            f"'{wrong[0] if wrong else text}' is no model; there are {', '.join(MODELS)}, or the "
            "sets quick and all")
    return list(dict.fromkeys(names))


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of 1 or more")
    return int(text)


def options():
    parser = argparse.ArgumentParser(
        prog="graph_mode.py", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  bench/graph_mode.py\n"
               "  bench/graph_mode.py --models all --out results\n"
               "  bench/graph_mode.py --models resnet18,gpt --batch 8 --steps 10")
    parser.add_argument("--models", type=model_list, default=QUICK, metavar="LIST",
                        help="names with commas between, or quick (%s; the default), or all (%s)"
                        % (" ".join(QUICK), " ".join(ALL)))
    parser.add_argument("--out", type=Path, default=BUILD / "bench", metavar="FOLDER",
                        help="where results go (default: %(default)s)")
    parser.add_argument("--batch", type=positive, metavar="N", help="samples of a step, all models")
    parser.add_argument("--image", type=positive, metavar="PX",
                        help="size of images, for networks that take any")
    parser.add_argument("--steps", type=positive, metavar="K", help="timed steps of each case")
    parser.add_argument("--rounds", type=positive, metavar="R",
                        help="rounds they are spread over; times are compared within a round")
    parser.add_argument("--threads", type=positive, metavar="T",
                        help="worker threads (default: one per core)")
    parser.add_argument("--promises", type=Path, metavar="FILE",
                        help="also write, as markdown, what each model's plan promises: arena and "
                        "its lower bound, planned and measured peak, bits, allocations")
    parser.add_argument("--no-pictures", action="store_true")
    add_tool(parser)
    return parser.parse_args()


def run(args):
    """Rows and profiles; of the models so far when the user has had enough (Ctrl-C)."""
    rows, profiles = [], {}
    for i, model in enumerate(args.models, 1):
        print(f"[{i}/{len(args.models)}] {model} ...", end=" ", file=sys.stderr, flush=True)
        try:
            off, on = measure(args, model)
            profiles[model] = profile(args, model)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            if not rows:
                sys.exit(130)
            break
        rows += [off, on]
        print(f"off {off['step_ms_median']:.4g} ms, on {on['step_ms_median']:.4g} ms",
              file=sys.stderr)
    return rows, profiles


def main():
    args = options()
    facts = facts_of(args)
    rows, profiles = run(args)
    args.out.mkdir(parents=True, exist_ok=True)
    written = [args.out / "bench.csv", args.out / "bench.json"]
    write_csv(written[0], rows)
    written[1].write_text(json.dumps({**facts, "rows": rows, "profiles": profiles}, indent=1))
    if args.promises:
        command = "python3 bench/graph_mode.py " + " ".join(sys.argv[1:])
        write_promises(args.promises, facts, rows, command)
        written.append(args.promises)
    if not args.no_pictures:
        written += draw(args.out, rows, profiles)

    print(f"{where_measured(facts)}\n\n{off_on_table(rows)}\n\nwritten: "
          + " ".join(str(path) for path in written))
    broken = list(broken_promises(rows))
    for sentence in broken:
        print(f"graph_mode.py: {sentence}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
