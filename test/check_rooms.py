#!/usr/bin/env python3
# check_rooms.py - the rules of the rooms as a test: who includes whom, how long things may be.
"""Usage: check_rooms.py [ROOT]. Prints each violation; one check per file and rule.

Rules: include (direction), cycle, file-length, function-length, first-line, tabs, columns, quiet
(the library neither prints nor exits), listed (each .c file is built), elements (Python computes
with none: element_rules.py). Standard library only.
Begins by testing its own parser.
"""
import os
import re
import sys
import tempfile

import element_rules

MAX_FILE = 600
MAX_FUNCTION = 80
MAX_KERNEL = 120
MAX_COLUMNS = 100
C_SUFFIXES = (".c", ".h", ".def", ".cu", ".cuh", ".cpp")
SCRIPT_SUFFIXES = (".py", ".sh")
FOLDERS = ("include", "src", "examples", "test", "python/weir")

# Whose headers each room may include: a name of this table (its whole folder) or a single file. The
# room of a file is its folder; "include" is the public headers.
MAY_INCLUDE = {
    "include": ("include",),
    "src/core": ("include", "src/core"),
    "src/device": ("include", "src/core", "src/device"),
    "src/device/cpu": ("include", "src/core", "src/device", "src/device/cpu"),
    "src/device/sim": ("include", "src/core", "src/device", "src/device/sim"),
    "src/device/cuda": ("include", "src/core", "src/device", "src/device/cuda"),
    "src/graph": ("include", "src/core", "src/device", "src/graph"),
    "src/model": ("include/weir.h", "src/model"),
    "src/tool": ("include/weir.h", "src/tool"),
    "examples": ("include/weir.h", "examples"),
    "test": ("include", "src/core", "src/device", "src/device/cpu", "src/device/sim",
             "src/graph", "test"),
    "test/consumer": ("include/weir.h",),
    "test/programs": ("include/weir.h", "test/programs"),
    "test/device/cuda": ("include", "src/core", "src/device", "src/device/cuda", "src/graph",
                         "test", "test/device/cuda", "test/emulator"),
    "test/emulator": ("include", "src/core", "src/device", "src/device/cuda", "test",
                      "test/device/cuda", "test/emulator"),
}
CUDA_ROOMS = ("src/device/cuda", "test/device/cuda", "test/emulator")
# Words that may not be called in the library, which returns text and statuses.
LOUD = re.compile(r"\b(?:printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|perror|abort|_?exit|"
                  r"quick_exit)\s*\(")
LOUD_ROOMS = ("src/tool", "examples", "test", "test/consumer", "test/programs", "test/device/cuda",
              "test/emulator")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(match):
    """A comment or literal replaced by as many lines of nothing."""
    text = match.group(0)
    if text[0] in "\"'":
        return text[0] + text[0]
    return " " + "\n" * text.count("\n")


def functions(text):
    """Yields (name, first line, last line) of each function defined in C source `text`.

    Braces are counted outside comments, literals and preprocessor lines. Both branches of an #if
    are read, each starting with the braces that were open at the #if.
    """
    open_braces = []    # per open brace: None, or (name, first line) of a function
    saved = []          # per open #if: (open_braces, head)
    head = []           # (line number, text) since the last ; or } of the file level
    continued = False
    for number, line in enumerate(TOKENS.sub(blank, text).split("\n"), 1):
        directive = line.lstrip().startswith("#")
        if directive or continued:
            continued = line.rstrip().endswith("\\")
            if directive:
                word = re.match(r"\s*#\s*(\w*)", line).group(1)
                if word in ("if", "ifdef", "ifndef"):
                    saved.append((list(open_braces), list(head)))
                elif word in ("else", "elif") and saved:
                    open_braces, head = list(saved[-1][0]), list(saved[-1][1])
                elif word == "endif" and saved:
                    saved.pop()
            continue
        for piece in re.findall(r"[{};]|[^{};]+", line):
            depth = sum(1 for b in open_braces if b != "transparent")
            if piece == "{":
                open_braces.append(opened(head) if depth == 0 else None)
                if depth == 0:
                    head = []
            elif piece == "}":
                closed = open_braces.pop() if open_braces else None
                if isinstance(closed, tuple):
                    yield closed[0], closed[1], number
                if depth <= 1:
                    head = []
            elif piece == ";":
                if depth == 0:
                    head = []
            elif depth == 0 and piece.strip():
                head.append((number, piece))


def opened(head):
    """What a brace at file level opens, given the text before it."""
    text = " ".join(piece for _, piece in head).strip()
    if re.match(r'extern\s+""$', text):
        return "transparent"
    name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)\s*", "", text))
    if name and "=" not in text and text.endswith(")"):
        return name.group(1), head[0][0]
    return None


def listed_in(cmake):
    """The files that the text of CMakeLists.txt and cmake/cuda.cmake names: in the calls of its own
    functions, in loops over names, or whole."""
    calls = re.findall(r"^\s*(weir_\w+)\(([^()]*)\)", re.sub(r"#[^\n]*", "", cmake), re.M)
    files = {"test/main.c", "test/consumer/consumer.c"}     # the latter by test/install.sh
    for function, words in calls:
        words = words.split()
        if function == "weir_sources":
            files.update(f"{words[1]}/{name}.c" for name in words[2:])
        elif function == "weir_cuda_fake":
            files.update(f"test/emulator/{name}" for name in words[2:])
        elif function == "weir_example":
            files.update(f"examples/{name}.c" for name in words)
    for names, body in re.findall(r"foreach\(name IN ITEMS\s([^)]*)\)(.*?)endforeach", cmake, re.S):
        for before, after in re.findall(r"((?:src|test)/[\w/]*)\$\{name\}(\.\w+)", body):
            files.update(before + name + after for name in names.split())
    files.update(re.findall(r"(?:src|test)/[\w/]*\w\.(?:c|cu|cpp)\b", cmake))
    return files


class Tree:
    """The files of a repository by path, what they include, and what is built."""

    def __init__(self, root):
        self.root = root
        self.text = {}
        self.listed = set()
        for name in ("CMakeLists.txt", *(f"cmake/{part}.cmake"
                     for part in ("sources", "tests", "cuda"))):
            if os.path.exists(os.path.join(root, name)):
                with open(os.path.join(root, name), encoding="utf-8") as f:
                    self.listed |= listed_in(f.read())
        for folder in FOLDERS:
            for base, dirs, names in os.walk(os.path.join(root, folder)):
                dirs[:] = sorted(d for d in dirs if d != "__pycache__")
                for name in sorted(names):
                    if name.endswith(C_SUFFIXES + SCRIPT_SUFFIXES):
                        path = os.path.join(base, name)
                        with open(path, encoding="utf-8") as f:
                            self.text[os.path.relpath(path, root)] = f.read()
        self.elements = element_rules.Elements({path: text for path, text in self.text.items()
                                                if path.startswith("python/weir/")})

    def includes(self, path):
        """Yields (line, name, file it means or None, in quotes) for each #include."""
        text = self.text[path]
        for match in INCLUDE.finditer(text):
            name = match.group(2)
            places = ["include", "src"] + (["test"] if path.startswith("test/") else [])
            if match.group(1) == '"':
                places.insert(0, os.path.dirname(path))
            found = (os.path.normpath(os.path.join(place, name)) for place in places)
            target = next((f for f in found if f in self.text), None)
            yield text.count("\n", 0, match.start(1)) + 1, name, target, match.group(1) == '"'


def room_of(path):
    """The innermost room that a path is in."""
    folder = os.path.dirname(path)
    while folder and folder not in MAY_INCLUDE:
        folder = os.path.dirname(folder)
    return folder


def rule_include(tree, path):
    room = room_of(path)
    if not room:
        yield 1, "no room has this folder: add it to MAY_INCLUDE"
        return
    for line, name, target, quoted in tree.includes(path):
        if target is None:
            if quoted:
                yield line, f'"{name}" is no file of the tree'
            elif re.match(r"(cuda|cublas|cudnn|nvrtc)", name) and room not in CUDA_ROOMS:
                yield line, f"<{name}> belongs to src/device/cuda"
        elif target not in MAY_INCLUDE[room] and room_of(target) not in MAY_INCLUDE[room]:
            yield line, f"{room} may not include {target}"


def rule_cycle(tree, path):
    """An include chain from path back to itself."""
    stack, seen = [(path, [path])], set()
    while stack:
        at, chain = stack.pop()
        for _, _, target, _ in tree.includes(at):
            if target == path:
                yield 1, "include cycle: " + " -> ".join(chain + [path])
                return
            if target and target not in seen:
                seen.add(target)
                stack.append((target, chain + [target]))


def rule_file_length(tree, path):
    lines = tree.text[path].count("\n")
    if lines > MAX_FILE:
        yield lines, f"{lines} lines, at most {MAX_FILE}"


def rule_function_length(tree, path):
    limit = MAX_KERNEL if path.startswith(("src/device/cpu/", "src/device/cuda/")) else MAX_FUNCTION
    for name, first, last in functions(tree.text[path]):
        if last - first + 1 > limit:
            yield first, f"{name} has {last - first + 1} lines, at most {limit}"


def rule_first_line(tree, path):
    lines = tree.text[path].split("\n")
    mark = "/*" if path.endswith(C_SUFFIXES) else "#"
    line = 1 if lines[0].startswith("#!") else 0
    wanted = f"{mark} {os.path.basename(path)} - "
    job = lines[line] if line < len(lines) else ""
    module = os.path.basename(os.path.dirname(path) if path.endswith("__init__.py") else path[:-3])
    docstring = f'"""{module} - '       # what a Python module may have instead
    if path.endswith(".py") and job.startswith(docstring) and job != docstring:
        return
    if not job.startswith(wanted) or job == wanted:
        yield line + 1, f'should begin "{wanted}" and say the job of the file'


def rule_tabs(tree, path):
    for number, line in enumerate(tree.text[path].split("\n"), 1):
        if "\t" in line:
            yield number, "a tab"


def rule_columns(tree, path):
    for number, line in enumerate(tree.text[path].split("\n"), 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns, at most {MAX_COLUMNS}"


def rule_quiet(tree, path):
    if room_of(path) in LOUD_ROOMS:
        return
    for number, line in enumerate(TOKENS.sub(blank, tree.text[path]).split("\n"), 1):
        if LOUD.search(line):
            yield number, "the library neither prints nor exits"


def rule_listed(tree, path):
    if path.endswith((".c", ".cu", ".cpp")) and path not in tree.listed:
        yield 1, "CMakeLists.txt does not build it"


def rule_elements(tree, path):
    yield from tree.elements.violations(path)


RULES_ALL = {"file-length": rule_file_length, "first-line": rule_first_line, "tabs": rule_tabs,
             "columns": rule_columns}
RULES_C = {"include": rule_include, "cycle": rule_cycle, "function-length": rule_function_length,
           "quiet": rule_quiet, "listed": rule_listed}
RULES_PACKAGE = {"elements": rule_elements}


def check(tree, say):
    """Returns (passed, [(path, rule)] of what failed); say(text) is told each violation."""
    passed, failed = 0, []
    for path in tree.text:
        rules = dict(RULES_ALL, **(RULES_C if path.endswith(C_SUFFIXES) else {}),
                     **(RULES_PACKAGE if path.startswith("python/weir/") else {}))
        for name, rule in rules.items():
            found = list(rule(tree, path))
            for line, what in found:
                say(f"{path}:{line}: {name}: {what}")
            if found:
                failed.append((path, name))
            else:
                passed += 1
    return passed, failed


# ---- self-test: planted violations, and what must not be taken for one ----

def guarded(name, body):
    return f"/* {name} - x. */\n#ifndef WEIR_X_H\n#define WEIR_X_H\n{body}\n#endif\n"


def long_function(signature, lines):
    return signature + "\n{\n" + "    x();\n" * (lines - 3) + "}\n"


CMAKE = """# weir_sources(a src/core commented)
weir_sources(core src/core up missing
    comment loud) # x
weir_sources(device src/device side inner)
weir_sources(cpu src/device/cpu gpu kernel kernel2)
weir_sources(graph src/graph ok inner)
weir_sources(model src/model ok deep)
weir_sources(tool src/tool main)
weir_example(net)
    weir_sources(test_core test/core fits long table big tab wide name)
"""
PLANTED = {
    "CMakeLists.txt": CMAKE,
    "include/weir.h": guarded("weir.h", '#include "weir/base.h"'),
    "include/weir/base.h": guarded("base.h", 'extern "C" {\nint f(void);\n}'),
    "include/weir/bad.h": guarded("bad.h", '#include "core/mem.h"'),
    "src/core/mem.h": guarded("mem.h", ""),
    "src/core/up.c": '/* up.c - x. */\n#include "device/device.h"\n',
    "src/core/missing.c": '/* missing.c - x. */\n#include "core/nowhere.h"\n',
    "src/core/a.h": guarded("a.h", '#include "core/b.h"'),
    "src/core/b.h": guarded("b.h", '#include "core/a.h"'),
    "src/core/comment.c": '/* comment.c - #include "x.h" printf(1) */\n// exit(1)\n'
                          'char *s = "printf(\\"{\\")";\n',
    "src/core/commented.c": "/* commented.c - x. */\n",
    "src/core/loud.c": "/* loud.c - x. */\nint f(void)\n{\n    return printf(0);\n}\n",
    "src/device/device.h": guarded("device.h", '#include "core/mem.h"'),
    "src/device/side.c": '/* side.c - x. */\n#include "graph/ir/graph.h"\n',
    "src/device/inner.c": '/* inner.c - x. */\n#include "device/cpu/cpu.h"\n',
    "src/device/cpu/cpu.h": guarded("cpu.h", '#include "device/device.h"'),
    "src/device/cpu/gpu.c": "/* gpu.c - x. */\n#include <cuda_runtime.h>\n",
    "src/device/cpu/kernel.c": "/* kernel.c - x. */\n" + long_function("void k(void)", 120),
    "src/device/cpu/kernel2.c": "/* kernel2.c - x. */\n" + long_function("void k(void)", 121),
    "src/graph/ir/graph.h": guarded("graph.h", '#include "device/device.h"'),
    "src/graph/ok.c": '/* ok.c - x. */\n#include "graph/ops/op.h"\n#include "graph/ir/graph.h"\n',
    "src/graph/inner.c": '/* inner.c - x. */\n#include "device/cpu/cpu.h"\n',
    "src/graph/ops/op.h": guarded("op.h", '#include "core/mem.h"'),
    "src/model/layer.h": guarded("layer.h", "#include <weir.h>"),
    "src/model/ok.c": '/* ok.c - x. */\n#include "model/layer.h"\n#include "weir.h"\n',
    "src/model/deep.c": '/* deep.c - x. */\n#include "core/mem.h"\n',
    "src/tool/main.c": '/* main.c - x. */\n#include "model/layer.h"\n',
    "examples/net.c": '/* net.c - x. */\n#include <stdio.h>\n#include "weir/base.h"\n',
    "examples/run.sh": "#!/bin/sh\n# run.sh - x.\n",
    "examples/bad.sh": "#!/bin/sh\n# something\n",
    "examples/good.py": '"""good - a module."""\n',
    "examples/bad.py": '"""good - a module."""\n',
    "test/core/fits.c": "/* fits.c - x. */\n" + long_function("int f(int a,\n      int b)", 79)
                        + long_function("int g(void)", 80),
    "test/core/long.c": "/* long.c - x. */\n#define M(x) \\\n    {{{ x\n"
                        + "static const int t[] = {1, 2};\nstruct s {\n    int (*f)(void);\n};\n"
                        + "#if A\nint f(void)\n{\n#else\nint f(int x)\n{\n#endif\n    g();\n}\n"
                        + long_function("__attribute__((cold)) CASE(deep)", 81),
    "test/core/table.c": "/* table.c - x. */\nconst row t[] = {\n"
                         + "    {F(1), {2}},\n" * 100 + "};\n",
    "test/core/big.c": "/* big.c - x. */\n" + "int x;\n" * 600,
    "test/core/tab.c": "/* tab.c - x. */\n\tint x;\n",
    "test/core/wide.c": "/* wide.c - x. */\n// " + "x" * 98 + "\n",
    "test/core/name.c": "/* other.c - x. */\n",
}
PLANTED.update({f"python/weir/{name}.py": f'"""{name} - x."""\n' + text for name, text in {
    "there": "def f(a, n):\n    return weir_cast(op(cast(a, kDouble)), core_dtype(n))\n",
    "named": "def f(a, n):\n    wide = kDouble if n else kFloat32\n    y = op(cast(a, wide))\n"
             "    return arith.to(y, n)\n",
    "back": "def f(a):\n    return op(helper(a).as_type(kInt))\n",
    "helper": "def helper(a):\n    return cast(a, kDouble)\n",
    "floor": "def f(a, b):\n    q = capi.weir_div(a, b)\n    return capi.weir_floor(q)\n",
    "read": "def f(t):\n    x = t.data.to_numpy()\n    return x[0] / t.size()\n",
    "ufunc": "def f(t):\n    return np.exp(np.asarray(t.numpy()))\n",
    "added": "def f(t, h):\n    out = np.empty(3)\n    capi.read(h, out)\n    out += 1\n",
    "floats": "def f(t):\n    return t.to_numpy().astype(np.float64)\n",
    "operand": "def f(op):\n    def method(self, other):\n        return op(self, float(other))\n"
               "    return method\n",
    "fine": "def f(t, n, x):\n    y = cast(op(cast(t, kDouble)), kFloat32)\n    a = t.numpy()\n"
            "    kind = kDouble if n else kFloat32\n    size = a.size * 2\n"
            "    z = to(helper(t), n if is_float(n) else kFloat32)\n"
            "    return cast(helper(y), kind), np.asarray(a), size, 'a' + ', '.join(a), z\n"
            "def g(values):\n    return np.sqrt(host(values)) * 2, np.eye(3) * 2\n",
}.items()})
PLANTED["python/weir/__init__.py"] = '"""weir - x."""\n'
EXPECTED = {
    *((f"python/weir/{name}.py", "elements") for name in
      ("there", "named", "back", "floor", "read", "ufunc", "added", "floats", "operand")),
    ("include/weir/bad.h", "include"), ("src/core/up.c", "include"),
    ("src/core/missing.c", "include"), ("src/core/a.h", "cycle"), ("src/core/b.h", "cycle"),
    ("src/core/commented.c", "listed"), ("src/core/loud.c", "quiet"),
    ("src/device/side.c", "include"), ("src/device/inner.c", "include"),
    ("src/device/cpu/gpu.c", "include"), ("src/device/cpu/kernel2.c", "function-length"),
    ("src/graph/inner.c", "include"),
    ("src/model/deep.c", "include"), ("src/tool/main.c", "include"), ("examples/net.c", "include"),
    ("examples/bad.sh", "first-line"), ("examples/bad.py", "first-line"),
    ("test/core/long.c", "function-length"),
    ("test/core/big.c", "file-length"), ("test/core/tab.c", "tabs"),
    ("test/core/wide.c", "columns"), ("test/core/name.c", "first-line"),
}


def self_test():
    """Returns (passed, failed) over the planted files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in PLANTED.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
        tree = Tree(root)
        found = set(check(tree, lambda text: None)[1])
    wrong = found ^ EXPECTED
    for path, rule in sorted(wrong):
        verb = "missed" if (path, rule) in EXPECTED else "seen where there is none"
        print(f"self-test: {path}: {rule} {verb}")
    names = [f[0] for f in functions(PLANTED["test/core/long.c"])]
    if names != ["f", "CASE"]:
        print(f"self-test: functions of long.c are {names}")
    return len(EXPECTED - wrong) + (names == ["f", "CASE"]), len(wrong) + (names != ["f", "CASE"])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    self_passed, self_failed = self_test()
    passed, failed = check(Tree(root), print)
    passed += self_passed
    bad = len(failed) + self_failed
    print(f"check_rooms: {passed} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
