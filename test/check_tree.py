#!/usr/bin/env python3
# check_tree.py - checks the rules of the tree: includes, sizes, words, documents, commits.
"""Usage: check_tree.py [ROOT] [--only RULE[,RULE]] [--count] [--list]

Prints each violation as path:line: rule: sentence; one check per file and rule. The rules are in
test/tree/, one group a module, each with planted violations, which are found first. Standard
library only.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

from tree import (circles_units, documents, headers, history, lists, mirror,    # noqa: E402
                  public, ranks, sizes, statuses, style, tools, top, words)
from tree.source import Tree                            # noqa: E402

GROUPS = [ranks, circles_units, sizes, headers, style, words, lists, top, documents, public,
          statuses, mirror, tools, history]


def rules():
    return {rule.name: rule for group in GROUPS for rule in group.RULES}


def check(rule, tree, say):
    """(passed, failed) of the rule: a check is a file that it looks at, or a folder that fails."""
    wrong = {}
    for path, line, sentence in rule.run(tree):
        wrong.setdefault(path, []).append((line, sentence))
    for path, found in wrong.items():
        for line, sentence in found:
            say(f"{path}:{line}: {rule.name}: {sentence}")
    looked_at = sum(1 for path in tree.size if path not in wrong and rule.selects(path))
    return looked_at, wrong


def self_test(chosen):
    """(passed, failed) over the planted trees."""
    passed = failed = 0
    for group in GROUPS:
        for plant in group.PLANTS:
            if plant.rule not in chosen:
                continue
            at = {(path, line) for path, line, _ in chosen[plant.rule].run(Tree(plant.files))}
            paths = {path for path, _ in at}
            expected = {e if isinstance(e, tuple) else (e, None) for e in plant.expected}
            missed = {e for e in expected if (e not in at if e[1] else e[0] not in paths)}
            extra = paths - {path for path, _ in expected}
            for path, line in sorted(missed, key=str):
                print(f"self-test: {plant.rule}: missed {path}" + (f":{line}" if line else ""))
            for path in sorted(extra):
                print(f"self-test: {plant.rule}: {path} reported, but it keeps the rule")
            passed += len(expected) - len(missed)
            failed += len(missed) + len(extra)
    planted = {plant.rule for group in GROUPS for plant in group.PLANTS}
    for name in sorted(set(chosen) - planted):
        if name not in UNPLANTED:
            print(f"self-test: {name} has no planted violation")
            failed += 1
    return passed, failed


# Rules that run other programs, which planted texts cannot show.
UNPLANTED = {"shellcheck"}


def main():
    parser = argparse.ArgumentParser(description="The rules of the tree.")
    parser.add_argument("root", nargs="?", default=os.path.dirname(HERE))
    parser.add_argument("--only", help="these rules alone, separated by commas")
    parser.add_argument("--count", action="store_true", help="numbers of violations alone")
    parser.add_argument("--list", action="store_true", help="the names of the rules")
    options = parser.parse_args()
    chosen = rules()
    if options.list:
        print("\n".join(chosen))
        return 0
    if options.only:
        names = options.only.split(",")
        unknown = [name for name in names if name not in chosen]
        if unknown:
            parser.error(f"unknown rule {', '.join(unknown)}; rules: {', '.join(chosen)}")
        chosen = {name: chosen[name] for name in names}
    passed, failed = self_test(chosen)
    tree = Tree(root=os.path.abspath(options.root))
    for name, rule in chosen.items():
        said = []
        good, wrong = check(rule, tree, said.append)
        if options.count:
            print(f"{name}: {len(said)} violations in {len(wrong)} places")
        else:
            print("\n".join(said) + "\n" if said else "", end="")
        passed, failed = passed + good, failed + len(wrong)
    print(f"check_tree: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
