# statuses.py - public headers name the statuses with which each function fails.
"""Which statuses a function can give is read from the sources: those that its definition and the
functions of the same file that it calls, and so on, pass to weir_fail and its like. Each must
stand as ERR_... in the function's comment, in that of its group or section, or in the first comment
of its header. Statuses that functions of other files return are left to that comment: nearly every
function can run out of memory or meet a closed device. Run as a program, this file prints how many
functions fail, and how many statuses of their own files they must name.
"""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "docs"), os.path.join(ROOT, "test")]

import public_headers                                   # noqa: E402
from tree.public import headers_of, is_public           # noqa: E402
from tree.source import Plant, Rule, Tree               # noqa: E402

DEFINITION = re.compile(r"^[A-Za-z_][\w *]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
FAILS = re.compile(r"(?<![=!]= )\bWEIR_(ERR_[A-Z]+)\b")     # not where one is compared with
INVALID = re.compile(r"\bweir_fail_(null|unknown)\(")
CALL = re.compile(r"\b([a-z_]\w*)\(")
NAMED = re.compile(r"\b(?:WEIR_)?(ERR_[A-Z]+)\b")


def is_source(path):
    """Files of the library; a back end's plugin is another one, which fails by its caller."""
    return path.startswith("src/") and path.endswith(".c") and "/cuda/" not in path


def definitions(tree):
    """{function: [(path, body)]} of the sources."""
    found = {}
    for path in filter(is_source, tree.text):
        for name, body in DEFINITION.findall(tree.text[path]):
            found.setdefault(name, []).append((path, body))
    return found


def given(known, name, path=None, seen=None):
    """Statuses of a function of this file, or of the public one with this name."""
    seen = set() if seen is None else seen
    found = set()
    for where, body in known.get(name, []):
        if path not in (None, where) or (where, name) in seen:
            continue
        seen.add((where, name))
        found.update(FAILS.findall(body))
        if INVALID.search(body):
            found.add("ERR_INVALID")
        for callee in set(CALL.findall(body)):
            found |= given(known, callee, where, seen)
    return found


def fails(item):
    """Does the function report a failure: by a weir_status, or by NULL?"""
    return item.result() == "weir_status" or "*" in item.result()


def said(header, item):
    text = [public_headers.own_text(item), public_headers.section_text(item),
            header.text]
    return set(NAMED.findall("\n".join(text)))


def rule_statuses(tree):
    known = tree.kept("definitions", lambda: definitions(tree))
    for path, header in headers_of(tree):
        for item in header.items("function"):
            missing = given(known, item.name) - said(header, item) if fails(item) else set()
            if missing:
                yield path, item.line, (f"{item.name} fails with {', '.join(sorted(missing))}, "
                                        "which neither its comment nor that of its "
                                        "header names")


def counts(tree):
    """One line: functions that fail, and statuses that they must name."""
    known = definitions(tree)
    every = [given(known, item.name) for _, header in headers_of(tree)
             for item in header.items("function") if fails(item)]
    return (f"functions that fail: {len(every)}; {sum(map(len, every))} statuses from their own "
            "files")


RULES = [Rule("statuses", is_public, rule_statuses)]
PLANTS = [
    Plant("statuses", {
        "include/weir/a.h": "/* a.h - x.\n *\n * Errors. ERR_IO. */\n\n/* ERR_SHAPE: y. */\n"
                            "weir_status f(int n);\n\n/* Reads. */\nweir_status g(int n);\n"
                            "/* You own it. */\nchar *h(int n);\n/* A number. */\nint k(int n);\n",
        "src/core/a.c": "static weir_status deep(int n)\n{\n    return weir_fail(WEIR_ERR_SHAPE, "
                        "\"f\");\n}\n\nweir_status f(int n)\n{\n    return deep(n);\n}\n\n"
                        "weir_status g(int n)\n{\n    if (f(n) == WEIR_ERR_DTYPE)\n"
                        "        return WEIR_ERR_IO;\n    return deep(n);\n}\n\n"
                        "char *h(int n)\n{\n    return (void)weir_fail_null(\"h\", \"n\"), NULL;\n"
                        "}\n\nint k(int n)\n{\n    return weir_fail(WEIR_ERR_INDEX, \"k\");\n}\n",
    }, {("include/weir/a.h", 9), ("include/weir/a.h", 11)}),
]


if __name__ == "__main__":
    print(counts(Tree(root=ROOT)))
