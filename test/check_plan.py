#!/usr/bin/env python3
"""check_plan - replays a plan against the step it is for, byte by byte: check_plan.py GRAPH PLAN.

Nothing is read before it is there, no two live ranges share a byte, all lies within the budget,
every operation runs, updates once and after their readers, outputs are there at the end. Shares no
code with the planner. Prints one line; exit code 1 if the plan is wrong.
"""
import json
import sys

RESIDENT = ("param", "state", "input")


class Space:
    """Live byte ranges by owner."""

    def __init__(self, budget, alignment):
        self.budget, self.alignment, self.live = budget, alignment, {}

    def take(self, owner, offset, size):
        end = offset + size
        assert 0 <= offset and end <= self.budget, f"{owner} at {offset}..{end}: not in the budget"
        assert offset % self.alignment == 0, f"{owner} at {offset}: not aligned"
        for other, (begin, stop) in self.live.items():
            assert end <= begin or stop <= offset or size == 0, f"{owner} lies over {other}"
        self.live[owner] = (offset, end)

    def give(self, owner):
        return self.live.pop(owner)


def run(graph, plan):
    tensors = {t["id"]: t for t in graph["tensors"]}
    ops = {o["id"]: o for o in graph["ops"]}
    space = Space(plan["budget_bytes"], plan.get("alignment", 1))
    version = {}
    for t in tensors.values():
        if t["kind"] in RESIDENT:
            space.take(t["id"], plan["resident"][str(t["id"])], t["bytes"])
            version[t["id"]] = 0
    seen, peak, again = {}, 0, 0
    for action in plan["actions"]:
        if action["a"] == "free":
            assert tensors[action["t"]]["kind"] not in RESIDENT, "frees what is resident"
            space.give(action["t"])
            continue
        op = ops[action["op"]]
        first = op["id"] not in seen
        reads = {k: version[k] for k in op["inputs"] if k in version}
        for k in op["inputs"]:
            assert k in space.live, f"operation {op['id']} reads {k}, which is not there"
        assert first or (op["outputs"] and seen[op["id"]] == reads), \
            f"operation {op['id']} runs again too late"
        if op["workspace_bytes"]:
            space.take("workspace", action["ws"], op["workspace_bytes"])
        taken = {made: read for read, made in action.get("inplace", [])}
        for k in op["outputs"]:
            size = tensors[k]["bytes"]
            if str(k) in action.get("scratch", {}):
                space.take(f"scratch {k}", action["scratch"][str(k)], size)
                continue
            if k in taken:
                assert [taken[k], k] in op["inplace"], f"{taken[k]} may not become {k}"
                assert space.give(taken[k])[0] == action["out"][str(k)], "in place, elsewhere"
            space.take(k, action["out"][str(k)], size)
        peak = max(peak, max(end for _, end in space.live.values()))
        for owner in [o for o in space.live if isinstance(o, str)]:
            space.give(owner)
        if first and not op["outputs"]:
            for k in op.get("mutates", []):
                version[k] += 1
        again += not first
        seen.setdefault(op["id"], reads)
    assert len(seen) == len(ops), "an operation never ran"
    for t in tensors.values():
        assert not t.get("output") or t["id"] in space.live, f"output {t['id']} is gone"
    return f"peak {peak} of {plan['budget_bytes']} bytes, {again} operations run again"


def main():
    with open(sys.argv[1]) as graph, open(sys.argv[2]) as plan:
        try:
            print(run(json.load(graph), json.load(plan)))
        except (AssertionError, KeyError) as wrong:
            print("wrong plan:", wrong)
            sys.exit(1)


if __name__ == "__main__":
    main()
