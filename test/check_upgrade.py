#!/usr/bin/env python3
# check_upgrade.py - renamed public names: the table against the headers, and the script.
"""Prints each failure and "check_upgrade: N passed, N failed". Standard library only."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "docs"))
import upgrade_0_2 as upgrade  # noqa: E402

PROGRAM = """weir_spoil(d); // again
s.guided = 3; p->again++; int again = guided; weir_spoiler(); x.queues_left = 1;
"weir_outline";
"""
UPGRADED = """weir_poison(d); // again
s.profile_steps = 3; p->recomputed++; int again = guided; weir_spoiler(); x.queues_left = 1;
"weir_stepfile";
"""


def main():
    with open(upgrade.TABLE, encoding="utf-8") as f:
        names = upgrade.table(f.read())
    headers = ""
    folder = os.path.join(ROOT, "include", "weir")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            headers += f.read()
    code = re.sub(r"/\*.*?\*/", " ", headers, flags=re.S)
    words = set(re.findall(r"\w+", code))
    failures = [f"{new} is declared nowhere" for new in names.values() if new not in words]
    failures += [f"{old} is still declared" for old in names if old in words]
    checks = 2 * len(names) + 2
    if len(names) < 20:
        failures.append(f"only {len(names)} names in the table")
    if upgrade.upgraded(PROGRAM, names)[0] != UPGRADED:
        failures.append("the program became " + upgrade.upgraded(PROGRAM, names)[0])
    for failure in failures:
        print(failure)
    print(f"check_upgrade: {checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
