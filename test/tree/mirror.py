# mirror.py - test/ mirrors src/, and every test is run by ctest and by run.sh.
import os
import re

from tree.source import Plant, Rule, is_c, unit_of

# Tests of the whole: programs, packages, Python, documents; the emulated driver; data, these rules.
APART = ("test/programs/", "test/consumer/", "test/systems/", "test/python/",
         "test/emulator/", "test/data/", "test/docs/", "test/golden/",
         "test/pages/", "test/tree/", "test/tool/")
HARNESS = ("test/main.c", "test/test.h")


def mirrors(path):
    return is_c(path) and path.startswith("test/") and not path.startswith(APART) \
        and os.path.dirname(path) != "test"


def rule_mirror(tree):
    folders, homes = set(), {}
    for path in tree.paths("src/"):
        folder = os.path.dirname(path)
        while folder != "src":
            folders.add(folder)
            folder = os.path.dirname(folder)
        if is_c(path):
            unit = unit_of(path)
            homes.setdefault(os.path.basename(unit), set()).add(os.path.dirname(unit))
    for path in filter(mirrors, tree.text):
        folder = "src" + os.path.dirname(path)[4:]
        room = "/".join(folder.split("/")[:2]) + "/"
        if folder not in folders:
            yield path, 1, f"there is no folder {folder} that it could test"
            continue
        if not path.endswith((".c", ".cpp", ".cu")):
            continue
        places = {home for home in homes.get(os.path.basename(unit_of(path)), ())
                  if (home + "/").startswith(room)}
        if places and not any((home + "/").startswith(folder + "/") for home in places):
            first = sorted(places)[0]
            name = os.path.basename(path)
            yield path, 1, f"should lie in test{first[3:]}, as {name} is in {first}"


def is_part(path):
    """Is it a script that tests?"""
    return path.startswith("test/") and path.endswith((".py", ".sh")) \
        and not path.startswith(("test/pages/", "test/python/", "test/tree/"))


def cmake(tree):
    return "\n".join(re.sub(r"#[^\n]*", "", tree.text[path]) for path in tree.text
                     if path.endswith((".cmake", "CMakeLists.txt")))


def rule_run(tree):
    """Each program and script of tests is an entry of ctest and part of run.sh, or used by one."""
    build, run = cmake(tree), tree.text.get("test/run.sh", "")
    run_by_cmake = set(re.findall(r"^\s*weir_test\((\w+)", build, re.M))
    run_by_cmake |= set(re.findall(r"add_test\(NAME (\w+)", build))
    for loop, names in re.findall(r"foreach\((\w+) IN ITEMS\s([^)]*)\)\s*add_test\(NAME \$\{\1\}",
                                  build):
        run_by_cmake.update(names.split())
    words = set(re.findall(r"[\w-]+", re.sub(r"(?m)#.*$", "", run)))
    for name in sorted(run_by_cmake - words):
        yield "test/run.sh", 1, f"does not run {name}, which is an entry of ctest"
    scripts = "\n".join(tree.text[path] for path in tree.text
                        if path.endswith((".sh", ".py")) and path.startswith("test/")
                        or path.startswith((".ci/", "cmake/")))
    for path in filter(is_part, tree.text):
        name = os.path.basename(path)
        in_cmake = name in build or name[:-3] in run_by_cmake
        used = re.search(rf"\b(?:import|from) {re.escape(name[:-3])}\b", scripts) \
            or scripts.replace(f"# {name} - ", "").count(name) > (name in run)
        if name != "run.sh" and not (in_cmake and (name in run or name[:-3] in words)) \
                and not used:
            yield path, 1, "is no entry of ctest and no part of test/run.sh, and no test uses it"


RULES = [Rule("mirror", mirrors, rule_mirror), Rule("run", is_part, rule_run)]
PLANTS = [
    Plant("mirror", {
        "src/graph/ir/graph.c": "", "src/device/cpu/kernels/pack.c": "", "src/graph/ops/pack.c": "",
        "test/graph/ir/graph.c": "", "test/graph/ir/other.c": "", "test/device/cpu/pack.c": "",
        "test/graph/ops/graph.c": "", "test/graph/old/x.c": "", "test/graph/fixture.h": "",
        "test/programs/graph.c": "", "test/graph/ir/pack.c": "",
    }, {"test/graph/ops/graph.c", "test/graph/old/x.c", "test/graph/ir/pack.c"}),
    Plant("run", {
        "CMakeLists.txt": "weir_test(core a)\nweir_test(op b)\nforeach(script IN ITEMS tool x)\n"
                          "    add_test(NAME ${script}\n",
        "test/run.sh": "# run.sh - x. op\nset -- core tool x\nsh test/$1.sh\n",
        "test/tool.sh": "", "test/x.sh": "python3 helper.py\n", "test/helper.py": "",
        "test/odd.py": "# odd.py - x.\n",
    }, {"test/run.sh", "test/odd.py"}),
]
