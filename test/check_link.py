#!/usr/bin/env python3
# check_link.py - the rules of the tree at link level: which object needs which.
"""Usage: check_link.py BUILD [ROOT]. Needs nm; without it, or without objects, nothing is checked.

An object refers to symbols of its own folder and of those below it (tree/ranks.py), and no units
refer to one another in a circle. Two kinds of names are declared below and defined above by design,
and left out: those of headers.DEFINED_ABOVE (gradients are recorded operations), and the tables of
the back ends that device/back_ends.def lists (a device is opened by name).
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from tree import headers, ranks                             # noqa: E402
from tree.source import circles, unit_of, way_round         # noqa: E402

OBJECT = re.compile(r"CMakeFiles/weir_(?:objects|core|placement|planner|isa_\w+)\.dir/(src/.*)\.o$")
BACK_END = re.compile(r"^BACK_END\((\w+)\)", re.M)
BATCH = 200         # objects in one call of nm
# Rules that the tree does not keep yet; --all checks them, too.
NOT_YET = set()


def back_ends(text):
    """The tables of the back ends that the text of device/back_ends.def lists."""
    return {"weir_device_" + name for name in BACK_END.findall(text)}


def objects(build, root):
    """[(source file, object)] of the library; a source that was moved may leave its object."""
    found = []
    for base, dirs, names in os.walk(os.path.join(build, "CMakeFiles")):
        dirs.sort()
        for name in sorted(names):
            path = os.path.join(base, name)
            match = OBJECT.search(path)
            if match and os.path.exists(os.path.join(root, match.group(1))):
                found.append((match.group(1), path))
    return found


def symbols(paths):
    """{object: [(symbol, is it defined there)]} of the global symbols of objects."""
    found = {}
    for start in range(0, len(paths), BATCH):
        done = subprocess.run(["nm", "-g", "-A", "-P", *paths[start:start + BATCH]], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in done.stdout.split("\n"):
            match = re.match(r"(.*): (\S+) ([A-Za-z])\b", line)
            if match:
                found.setdefault(match.group(1), []).append((match.group(2), match.group(3) != "U"))
    return found


def references(found, source_of, above):
    """{(unit, unit): a symbol of the second that the first needs}; the names `above` and those of
    DEFINED_ABOVE left out."""
    home = {name: unit_of(source_of[path]) for path, names in found.items()
            for name, defined in names if defined}
    edges = {}
    for path, names in found.items():
        unit = unit_of(source_of[path])
        for name, defined in names:
            by_design = name in above or headers.DEFINED_ABOVE.match(name)
            if not defined and name in home and home[name] != unit and not by_design:
                edges.setdefault((unit, home[name]), name)
    return edges


def circle_rule(edges):
    graph = {}
    for source, target in edges:
        graph.setdefault(source, set()).add(target)
    for part in circles(graph):
        way = way_round(graph, part)
        yield part[0], f"circle of {len(part)} units: {way}: {', '.join(part)}"


def direction_rule(edges):
    for (source, target), name in sorted(edges.items()):
        a, b = ranks.folder_of(source), ranks.folder_of(target)
        why = ranks.why_not(a, b) if a and b else f"{source if not a else target} has no rank"
        if why:
            yield source, f"needs {name} of {target}: {why}"


def self_test():
    objects_of = {"x.o": "src/core/x.c", "y.o": "src/core/y_isa.c", "z.o": "src/graph/ir/z.c",
                  "r.o": "src/graph/frontend/r.c", "m.o": "src/graph/ops/m.c",
                  "o.o": "src/device/o.c", "b.o": "src/device/cpu/b.c"}
    found = {"x.o": [("f", True), ("g", False), ("puts", False)],
             "y.o": [("g", True), ("f", False)],
             "z.o": [("h", True), ("f", False), ("op", False)],
             "m.o": [("weir_record", False), ("op", True)],
             "r.o": [("weir_record", True), ("op", False)],
             "o.o": [("weir_device_b", False)],
             "b.o": [("weir_device_b", True)]}
    edges = references(found, objects_of, back_ends("/* . */\nBACK_END(b)\n"))
    ok = [[path for path, _ in circle_rule(edges)] == ["src/core/x"],
          [path for path, _ in direction_rule(edges)] == ["src/graph/ir/z"]]
    for i, good in enumerate(ok):
        if not good:
            print(f"self-test: {('circle', 'direction')[i]} is wrong")
    return sum(ok), len(ok) - sum(ok)


def main():
    places = [word for word in sys.argv[1:] if word != "--all"]
    if not places:
        print(__doc__.split(". ")[0])
        return 2
    root = places[1] if len(places) > 1 else os.path.dirname(HERE)
    passed, failed = self_test()
    pairs = objects(places[0], root)
    found = {}
    try:
        found = symbols([path for _, path in pairs])
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"check_link: left out: {error}")
    if not pairs:
        print(f"check_link: {places[0]} has no objects of the library")
    with open(os.path.join(root, "src/device/back_ends.def"), encoding="utf-8") as listed:
        above = back_ends(listed.read())
    edges = references(found, {path: source for source, path in pairs}, above)
    units = {unit_of(source) for source, _ in pairs}
    for name, rule in (("circle", circle_rule), ("direction", direction_rule)):
        if name in NOT_YET and "--all" not in sys.argv:
            continue
        wrong = list(rule(edges))
        for unit, sentence in wrong:
            print(f"{unit}:1: link-{name}: {sentence}")
        bad = len({unit for unit, _ in wrong})
        passed, failed = passed + len(units) - bad, failed + bad
    print(f"check_link: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
