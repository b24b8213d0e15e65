# circles_units.py - no circle of units: x.c, x.h, x_isa.c, x_type.h, x.cu and x.cuh count as one.
from tree.source import Plant, Rule, circles, is_c, unit_of, way_round


def selects(path):
    return is_c(path) and path.startswith(("include/", "src/", "examples/", "test/"))


def units(tree):
    """({unit: {units it includes}}, {unit: its first file})."""
    edges, first = {}, {}
    for path in filter(selects, tree.text):
        unit = unit_of(path)
        first.setdefault(unit, path)
        for _, _, target, _ in tree.includes(path):
            if target and unit_of(target) != unit:
                edges.setdefault(unit, set()).add(unit_of(target))
    return edges, first


def rule_circle(tree):
    edges, first = units(tree)
    for part in circles(edges):
        way = way_round(edges, part)
        more = "" if way.count(" -> ") == len(part) else f" ({len(part)} units in all)"
        for unit in part:
            yield first[unit], 1, f"circle of units: {way}{more}"


RULES = [Rule("circle", selects, rule_circle)]
PLANTS = [
    Plant("circle", {
        "src/core/a.h": "", "src/core/a.c": '#include "core/b.h"\n',
        "src/core/b.h": '#include "core/c.h"\n', "src/core/c.h": "",
        "src/core/c_isa.c": '#include "core/a.h"\n',
        "src/core/d.c": '#include "core/d.h"\n#include "core/a.h"\n',
        "src/core/d.h": '#include "core/d_type.h"\n',
        "src/core/d_type.h": '#include "core/d.h"\n',
        "src/core/far.c": '#include "core/d.h"\n',
    }, {"src/core/a.h", "src/core/b.h", "src/core/c.h"}),
]
