#!/usr/bin/env python3
# upgrade_0_2.py - renames the public names of Weir 0.1 in a program to those of 0.2.
"""Usage: upgrade_0_2.py FILE... Rewrites the files in place by the table of upgrade-0.2.md and prints
how many names changed in each."""
import os
import re
import sys

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "upgrade-0.2.md")
ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \|", re.M)


def table(text):
    """{old: new} of the rows of the page."""
    return dict(ROW.findall(text))


def upgraded(text, names):
    """(text in the new names, how many changed). Fields change only behind `.` or `->`."""
    count = 0

    def new(match):
        nonlocal count
        access, old = match.groups()
        if old not in names or (not old.upper().startswith("WEIR_") and not access):
            return match.group(0)
        count += 1
        return (access or "") + names[old]

    return re.sub(r"((?:\.|->)\s*)?\b([A-Za-z_]\w*)", new, text), count


def main(paths):
    with open(TABLE, encoding="utf-8") as f:
        names = table(f.read())
    for path in paths:
        with open(path, encoding="utf-8") as f:
            text, count = upgraded(f.read(), names)
        if count:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        print(f"{path}: {count} names")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
