#!/usr/bin/env python3
"""table.py - the rows that sweep.py wrote, as Markdown: python3 bench/zoo/table.py FILE..."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from machine import machine     # noqa: E402

HEAD = """\
| model | batch | parameters | loss | gradients | PyTorch, itself | losses | of | step peak, bytes |
|---|---|---:|---:|---:|---:|---:|---:|---:|"""


def number(x):
    return "-" if x is None else f"{x:.1e}"


def line(row):
    size = " x ".join(str(n) for n in [row["batch"], *row["shape"]])
    same = "" if row["planned"] == row["measured"] else f", measured {row['measured']:,}"
    itself = " / ".join(number(x) for x in row["self"])
    return (f"| {row['name']} | {size} | {row['parameters']:,} | {number(row['loss'])} | "
            f"{number(row['gradients'])} | {itself} | {number(row['losses'])} | {row['steps']} | "
            f"{row['planned']:,}{same} |")


def reason(row):
    """Why a model has no row, in one line: its operators, or its error."""
    text = row["error"].split("\n")
    lines = [part.strip() for part in text if part.startswith("  ") and part[2] != " "]
    return "; ".join(dict.fromkeys(lines)) or text[0]


def beside_f64(row):
    if "f64" not in row:
        return ""
    return "; from PyTorch's gradients in f64: PyTorch in f32 {}, Weir in f32 {}, Weir in f64 {}"\
        .format(*map(number, row["f64"]))


def differing(row):
    return (f"- {row['name']}: loss {number(row['loss'])}, gradients {number(row['gradients'])} "
            f"({row['worst']}), losses {number(row['losses'])} of {row['steps']}, PyTorch from "
            f"itself {' / '.join(number(x) for x in row['self'])}{beside_f64(row)}")


def show(package, own):
    good = [row for row in own if row["agrees"]]
    exact = [row for row in own if not row["agrees"] and row["in f64"]]
    bad = [row for row in own if not row["agrees"] and not row["in f64"]]
    print(f"## {package}: {len(good)} of {len(own)} agree in f32, {len(exact)} more in f64 alone\n")
    print(HEAD + "\n" + "\n".join(line(row) for row in good))
    if exact:
        print("\nIn f64 alone, within 1e-8:\n\n" + "\n".join(map(differing, exact)))
    if bad:
        print("\nNot:\n\n" + "\n".join(
            f"- {row['name']}: {reason(row)}" if "error" in row else differing(row) for row in bad))
    print()


def main():
    rows = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as lines:
            rows += [json.loads(each) for each in lines]
    for package in dict.fromkeys(row["package"] for row in rows):
        show(package, [row for row in rows if row["package"] == package])
    print(machine())


if __name__ == "__main__":
    main()
