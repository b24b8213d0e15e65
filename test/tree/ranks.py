# ranks.py - checks the direction of includes: a folder includes only folders that rank below it.
"""docs/internals/decisions/0001-tree.md gives the order of the folders. No file is exempt."""
import os
import re

from tree.source import Plant, Rule, is_c

# From the bottom layer to the top: a folder may include itself, every folder of the lines above it
# in this table, and the other folders of its own line if they form a group. The longest matching
# name gives a file's folder.
RANKS = [
    ["include"],
    ["src/core"],
    ["src/device", "src/device/memory", "src/device/offload", "src/device/common"],
    ["src/device/cpu", "src/device/cuda", "src/device/sim", "src/device/comm"],
    ["src/graph/ir", "src/graph/placement"],
    ["src/graph/ops", "src/graph/memory/problem"],
    ["src/graph/passes", "src/graph/plan", "src/graph/memory/verify", "src/graph/memory/bounds"],
    ["src/graph/runtime", "src/graph/memory/search"],
    ["src/graph/eager", "src/graph/memory/policies", "src/graph/report"],
    ["src/graph/memory/budget", "src/graph/autodiff"],
    ["src/graph/frontend", "src/graph/memory/explain"],
    ["src/graph/memory/stepfile", "src/graph/compile", "src/graph/export"],
    ["src/graph/saved"],
    ["src/model"],
    ["src/tool"],
]
# Folders that count as one and may include one another.
GROUPS = [("src/device", "src/device/memory", "src/device/offload", "src/device/common")]
RANK = {folder: rank for rank, folders in enumerate(RANKS) for folder in folders}
# The memory planner is a separate library: these include only one another, core and placement.
PLANNER = ["src/graph/placement"] + [f"src/graph/memory/{name}" for name in
                                     ("problem", "verify", "bounds", "search", "policies")]
PUBLIC_OF_PLANNER = ("include/weir/base.h", "include/weir/plan.h")
DEVICES = ("src/device/cpu", "src/device/cuda", "src/device/sim", "src/device/comm")
# Folders that use the library only through its public headers.
OUTSIDE = ("src/model", "src/tool", "examples", "bench", "test/programs", "test/consumer")
CUDA = ("src/device/cuda", "test/device/cuda", "test/emulator")
# What tests include: public headers and these folders of src with their subfolders. The longest
# matching name decides.
PLANNER_TESTS = ["test/graph/placement"] + ["test" + name[3:] for name in PLANNER[1:]]
TESTS = {
    "test": ("src/core",),
    "test/device": ("src/core", "src/device"),
    "test/graph": ("src/core", "src/device", "src/graph"),
    "test/model": ("src/core", "src/model"),
    "test/emulator": ("src/core", "src/device"),
    "test/device/cuda": ("src/core", "src/device", "src/graph"),    # runs graphs on the card
    **{name: ("src/core", *PLANNER) for name in PLANNER_TESTS},
}


def folder_of(path):
    """The folder of the table that a source file is in: the longest that fits, or None."""
    folder = os.path.dirname(path)
    while folder and folder not in RANK:
        folder = os.path.dirname(folder)
    return folder or None


def same_room(a, b):
    return a == b or any(a in group and b in group for group in GROUPS)


def why_not(source, target):
    """Why a file of folder `source` may not include or call one of folder `target`, or None."""
    if same_room(source, target):
        return None
    if RANK[target] >= RANK[source]:
        beside = RANK[target] == RANK[source]
        return f"{source} may not see {target}, which is {'beside' if beside else 'above'} it"
    if source in PLANNER and target not in PLANNER and target not in ("src/core", "include"):
        return f"{source} is the memory planner's: it sees core and placement, not {target}"
    if source.startswith("src/graph/") and target in DEVICES:
        return f"{source} may not see {target}: the graph knows devices through src/device alone"
    return None


def why_not_public(source, target):
    """The same for the public headers."""
    if source in PLANNER and target not in PUBLIC_OF_PLANNER:
        return f"{source} is the memory planner's: it sees core and placement, not {target}"
    return None


def outside(path):
    return next((room for room in OUTSIDE if path.startswith(room + "/")), None)


def forbidden(path, target):
    """Why file `path` may not include file `target`, or None."""
    room = outside(path)
    if room:
        if target == "include/weir.h" or target.startswith(room + "/"):
            return None
        if room.startswith("test/") and os.path.dirname(target) == "test":
            return None
        return f"{room} may include weir.h and its own headers alone, not {target}"
    if path.startswith("test/"):
        return forbidden_in_test(path, target)
    source, room = folder_of(path), folder_of(target)
    if source is None:
        return None                 # said once, by rule_include
    if target.startswith("include/"):
        return why_not_public(source, target) if source != "include" else None
    if room is None:
        return f"{target} is in no folder of the rank table"
    return why_not(source, room)


def forbidden_in_test(path, target):
    """A test sees what its line of TESTS says, and the tests' headers of folders around it. Only
    the plugin's tests see the plugin; the planner's see the planner alone, a library by itself."""
    folder = os.path.dirname(path)
    if target.startswith("include/"):
        return None
    if target.startswith("test/"):
        home = os.path.dirname(target)
        if (folder + "/").startswith(home + "/") \
                or path.startswith(CUDA) and target.startswith(CUDA):
            return None
        return f"{folder} may not include {target}: it is in no folder around it"
    if target.startswith("src/device/cuda/") and not path.startswith(CUDA):
        return f"{target} is seen by the plugin's tests alone"
    room = folder
    while room not in TESTS:
        room = os.path.dirname(room)
    if any((os.path.dirname(target) + "/").startswith(name + "/") for name in TESTS[room]):
        return None
    return f"{room} may see {', '.join(TESTS[room])} alone, not {target}"


def rule_include(tree):
    for path in tree.paths(suffixes=None):
        if not selects(path):
            continue
        if path.startswith("src/") and folder_of(path) is None:
            yield path, 1, f"{os.path.dirname(path)} is in no line of the rank table"
        for line, name, target, quoted in tree.includes(path):
            if target is None:
                if quoted and not name.endswith(".inc"):
                    yield path, line, f'"{name}" is no file of the tree'
                elif re.match(r"(cuda|cublas|cudnn|nvrtc)", name) and not path.startswith(CUDA):
                    yield path, line, f"<{name}> belongs to src/device/cuda"
                continue
            why = forbidden(path, target)
            if why:
                yield path, line, why


def selects(path):
    return is_c(path) and path.startswith(("include/", "src/", "examples/", "bench/", "test/"))


RULES = [Rule("include", selects, rule_include)]

LINE = '#include "%s"\n'
PLANTS = [
    Plant("include", {
        "include/weir.h": "", "include/weir/base.h": "", "include/weir/graph.h": "",
        "src/core/mem.h": "", "src/device/device.h": "", "src/device/memory/pool.h": "",
        "src/device/cpu/cpu.h": "", "src/device/cuda/runtime/cuda.h": "",
        "src/graph/ir/graph.h": LINE % "device/memory/pool.h",
        "src/graph/placement/placement.h": LINE % "weir/base.h",
        "src/graph/memory/problem/problem.h": LINE % "graph/placement/placement.h",
        "src/graph/memory/search/search.h": LINE % "graph/memory/problem/problem.h",
        "src/graph/memory/budget/budget.h": LINE % "graph/ir/graph.h",
        "src/model/layer.h": "#include <weir.h>\n",
        "include/weir/up.h": LINE % "core/mem.h",
        "src/core/up.c": LINE % "device/device.h",
        "src/core/missing.c": LINE % "core/nowhere.h",
        "src/device/side.c": LINE % "device/cpu/cpu.h",
        "src/device/memory/room.c": LINE % "device/device.h",
        "src/device/cpu/gpu.c": "#include <cuda_runtime.h>\n",
        "src/device/cpu/beside.c": LINE % "device/cuda/runtime/cuda.h",
        "src/graph/ir/deep.c": LINE % "device/cpu/cpu.h",
        "src/graph/ir/beside.c": LINE % "graph/placement/placement.h",
        "src/graph/memory/problem/graph.c": LINE % "graph/ir/graph.h",
        "src/graph/memory/problem/public.c": LINE % "weir/graph.h",
        "src/graph/memory/policies/core.c": LINE % "core/mem.h" + LINE % "weir/base.h",
        "src/graph/memory/policies/device.c": LINE % "device/device.h",
        "src/graph/odd/odd.c": "",
        "src/model/ok.c": LINE % "model/layer.h" + LINE % "weir.h",
        "src/model/deep.c": LINE % "core/mem.h",
        "src/tool/main.c": LINE % "model/layer.h",
        "examples/net.c": "#include <stdio.h>\n" + LINE % "weir/base.h",
        "test/test.h": "", "test/graph/fixture.h": "",
        "test/graph/ir/graph.c": LINE % "graph/ir/graph.h" + LINE % "graph/fixture.h"
                                 + LINE % "test.h",
        "test/core/up.c": LINE % "device/device.h",
        "test/graph/ir/plugin.c": LINE % "device/cuda/runtime/cuda.h",
        "test/device/cuda/plugin.c": LINE % "device/cuda/runtime/cuda.h",
        "test/graph/memory/search/search.c": LINE % "graph/ir/graph.h",
        "test/graph/memory/budget/budget.c": LINE % "graph/ir/graph.h",
        "test/core/fixture.c": LINE % "../graph/fixture.h",
    }, {"include/weir/up.h", "src/core/up.c", "src/core/missing.c", "src/device/side.c",
        "src/device/cpu/gpu.c", "src/device/cpu/beside.c", "src/graph/ir/deep.c",
        "src/graph/ir/beside.c", "src/graph/memory/problem/graph.c",
        "src/graph/memory/problem/public.c", "src/graph/memory/policies/device.c",
        "src/graph/odd/odd.c", "src/model/deep.c", "src/tool/main.c", "examples/net.c",
        "test/core/up.c", "test/core/fixture.c",
        "test/graph/ir/plugin.c", "test/graph/memory/search/search.c"}),
]
