#!/usr/bin/env python3
"""check_plan - replays a plan against the step it is for: check_plan.py GRAPH PLAN [OUT,IN [TOLD]].

Nothing is read before it is there, no two live ranges share a byte, all lies within the budget,
every update runs once and after its readers, everything is where it belongs at the end. Time: one
compute and two copy streams of OUT and IN GB/s (12). Shares no code with the planner. Prints one
line of JSON; exit code 1 if the plan is wrong, or if the numbers in the file TOLD (of `weir plan
--check`) are others.
"""
import json
import sys

RESIDENT = ("param", "state", "input")
CODEC = 600e3                                   # bytes per microsecond, read and written


class Space:
    """Live byte ranges by owner, and when ranges that are free become quiet."""

    def __init__(self, budget, alignment):
        self.budget, self.alignment, self.live, self.quiet = budget, alignment, {}, []
        self.bytes = self.most = self.height = 0

    def take(self, owner, offset, size):
        """Returns when the last owner of any of the bytes is done with them."""
        end = offset + size
        assert 0 <= offset and end <= self.budget, f"{owner} at {offset}..{end}: not in the budget"
        assert offset % self.alignment == 0, f"{owner} at {offset}: not aligned"
        for other, (begin, stop) in self.live.items():
            assert end <= begin or stop <= offset or size == 0 or begin == stop, \
                f"{owner} overlaps {other}"
        self.live[owner] = (offset, end)
        self.bytes += size
        self.most = max(self.most, self.bytes)
        self.height = max(self.height, end if size else 0)
        return max([t for begin, stop, t in self.quiet if begin < end and offset < stop] + [0])

    def give(self, owner, time):
        offset, end = self.live.pop(owner)
        self.bytes -= end - offset
        self.quiet.append((offset, end, time))
        return offset


class Replay:
    """A plan being run. Copies on the device by key (a tensor, or text such as "7#pack"): when they
    are ready, when their last access ends, which version they hold."""

    def __init__(self, graph, plan, link):
        self.tensors = {t["id"]: t for t in graph["tensors"]}
        self.ops = {o["id"]: o for o in graph["ops"]}
        self.plan, self.link = plan, link
        self.space = Space(plan["budget_bytes"], plan.get("alignment", 1))
        self.ready, self.quiet, self.of, self.host, self.seen = {}, {}, {}, {}, set()
        self.clock = {"compute": 0.0, "out": 0.0, "in": 0.0}
        self.sum = dict.fromkeys(("compute_us", "stall_us", "codec_us", "recomputed_ops",
                                  "swapped_out_bytes", "swapped_in_bytes", "host_peak_bytes"), 0)
        self.version = {k: 0 for k, t in self.tensors.items() if t["kind"] in RESIDENT}
        self.wanted, count = {}, dict(self.version)
        for op in graph["ops"]:
            self.wanted[op["id"]] = {k: count[k] for k in op["inputs"] if k in count}
            for k in [] if op["outputs"] else op.get("mutates", []):
                count[k] += 1
        for k in self.version:
            if str(k) in plan["resident"]:
                self.make(k, plan["resident"][str(k)], 0)
            else:
                assert k in plan.get("host_resident", []), f"{k} is nowhere before the step"
                self.at_home(k, 0)

    def size(self, key):
        if isinstance(key, int):
            return self.tensors[key]["bytes"]
        number, form = key.split("#")
        tensor = self.tensors[int(number)]
        return tensor["enc_bytes"] if form == "pack" else (tensor["bytes"] // 4 + 7) // 8

    def version_of(self, key):
        return self.version.get(int(str(key).split("#")[0]), 0)

    def make(self, key, offset, time):
        """Creates the key; `time`: when it is ready, if that is known already."""
        assert key not in self.ready, f"{key} exists already"
        quiet = self.space.take(key, offset, self.size(key))
        self.ready[key] = self.quiet[key] = time
        self.of[key] = self.version_of(key)
        return quiet

    def done(self, key, time):
        self.ready[key] = self.quiet[key] = time

    def at_home(self, key, time):
        self.host[key] = (time, self.version_of(key))
        held = sum(self.size(k) for k in self.host)
        self.sum["host_peak_bytes"] = max(self.sum["host_peak_bytes"], held)

    def use(self, key):
        assert key in self.ready, f"{key} does not exist"
        assert self.of[key] == self.version_of(key), f"{key} is stale"
        return self.ready[key]

    def compute(self, begin, seconds):
        self.sum["stall_us"] += begin - self.clock["compute"]
        self.clock["compute"] = begin + seconds
        return begin + seconds

    def run(self, action):
        op = self.ops[action["op"]]
        first = op["id"] not in self.seen
        changed = op.get("mutates", []) if first else []
        assert first or op["outputs"], f"update {op['id']} runs twice"
        masked = action.get("use_mask", [])
        assert set(masked) <= set(op.get("mask_inputs", [])), "a mask is not enough"
        keys = [f"{k}#mask" if k in masked else k for k in op["inputs"]] + list(changed)
        begin = max([self.clock["compute"]] + [self.use(k) for k in keys] +
                    [self.quiet[k] for k in changed])
        for k, version in self.wanted[op["id"]].items():
            assert self.version[k] == version, f"operation {op['id']} reads a wrong version of {k}"
        if op.get("workspace_bytes", 0):
            begin = max(begin, self.space.take("ws", action["ws"], op["workspace_bytes"]))
        taken = {made: read for read, made in action.get("inplace", [])}
        scratch = action.get("scratch", {})
        for k in op["outputs"]:
            if str(k) in scratch:
                begin = max(begin, self.space.take(f"scratch {k}", scratch[str(k)], self.size(k)))
                continue
            if k in taken:
                read = taken[k]
                assert [read, k] in op.get("inplace", []), f"{read} may not become {k}"
                assert self.size(read) == self.size(k), "in place, of another size"
                begin = max(begin, self.quiet.pop(read))
                del self.ready[read]
                assert self.space.give(read, 0) == action["out"][str(k)], "in place, elsewhere"
            begin = max(begin, self.make(k, action["out"][str(k)], 0))
        end = self.compute(begin, op["time_us"])
        self.sum["compute_us"] += op["time_us"]
        self.sum["recomputed_ops"] += not first
        for k in keys:
            if k in self.quiet:
                self.quiet[k] = max(self.quiet[k], end)
        for k in changed:
            self.version[k] += not op["outputs"]
            self.of[k] = self.version[k]
            self.host.pop(k, None)
        for k in list(changed) + [k for k in op["outputs"] if str(k) not in scratch]:
            self.done(k, end)
        for owner in [o for o in self.space.live if o == "ws" or str(o).startswith("scratch ")]:
            self.space.give(owner, end)
        self.seen.add(op["id"])

    def free(self, action):
        self.space.give(action["t"], max(self.ready.pop(action["t"]), self.quiet.pop(action["t"])))

    def swap_out(self, action):
        key = action["t"]
        end = max(self.clock["out"], self.use(key)) + self.size(key) / (self.link[0] * 1e3)
        self.clock["out"] = end
        self.quiet[key] = max(self.quiet[key], end)
        self.sum["swapped_out_bytes"] += self.size(key)
        self.at_home(key, end)

    def swap_in(self, action):
        key = action["t"]
        home, version = self.host[key]
        assert version == self.version_of(key), f"{key} on the host is stale"
        quiet = self.make(key, action["off"], 0)
        end = max(self.clock["in"], home, quiet) + self.size(key) / (self.link[1] * 1e3)
        self.clock["in"] = end
        self.done(key, end)
        self.sum["swapped_in_bytes"] += self.size(key)
        if action.get("drop_host", True):
            del self.host[key]

    def host_free(self, action):
        del self.host[action["t"]]

    def code(self, action):
        plain, coded = action["t"], f"{action['t']}#{action['kind']}"
        read, made = (plain, coded) if action["a"] == "encode" else (coded, plain)
        assert action["kind"] == "pack" or made == coded, "a mask cannot be decoded"
        begin = max(self.clock["compute"], self.use(read), self.make(made, action["off"], 0))
        seconds = (self.size(plain) + self.size(coded)) / CODEC
        self.sum["codec_us"] += seconds
        end = self.compute(begin, seconds)
        self.quiet[read] = max(self.quiet[read], end)
        self.done(made, end)

    def finish(self):
        for op in self.ops.values():
            assert op["id"] in self.seen or not (op.get("mutates") or any(
                self.tensors[k].get("output") for k in op["outputs"])), f"{op['id']} never ran"
        for k, t in self.tensors.items():
            assert not t.get("output") or k in self.ready or k in self.host, f"output {k} was freed"
        for k, version in self.version.items():
            place = self.plan["resident"].get(str(k))
            if place is None:
                assert self.host.get(k, (0, -1))[1] == version, f"{k} is not on the host"
            else:
                assert k in self.ready and self.space.live[k][0] == place, f"{k} is not back"
                assert self.of[k] == version, f"{k} is stale at the end"

    def result(self):
        base, time = sum(o["time_us"] for o in self.ops.values()), max(self.clock.values())
        return dict(self.sum, ok=True, time_us=time, base_us=base, peak_addr=self.space.height,
                    peak_live_bytes=self.space.most)


def run(graph, plan, link):
    replay = Replay(graph, plan, link)
    acts = {"compute": replay.run, "free": replay.free, "swap_out": replay.swap_out,
            "swap_in": replay.swap_in, "host_free": replay.host_free, "encode": replay.code,
            "decode": replay.code}
    for action in plan["actions"]:
        acts[action["a"]](action)
    replay.finish()
    return replay.result()


def main():
    link = [float(x) for x in (sys.argv[3] if len(sys.argv) > 3 else "12").split(",")]
    with open(sys.argv[1]) as graph, open(sys.argv[2]) as plan:
        try:
            found = run(json.load(graph), json.load(plan), [link[0], link[-1]])
        except (AssertionError, KeyError) as wrong:
            print("wrong plan:", wrong)
            sys.exit(1)
    print(json.dumps(found))
    if len(sys.argv) > 4:
        with open(sys.argv[4]) as file:
            told = json.load(file)
        for key, value in found.items():
            if abs(told[key] - value) > 1e-9 * max(1, abs(value)):
                print(f"{key}: {told[key]} was reported, {value} is right")
                sys.exit(1)


if __name__ == "__main__":
    main()
