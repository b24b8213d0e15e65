# style.py - first lines, tabs, what the library may not call, that files are built; elements.
import os
import re

from tree import elements
from tree.sizes import is_c_code, is_code, parsed
from tree.source import C_SUFFIXES, Plant, Rule, line_of

# Words that may not be called in the library, which returns text and statuses.
LOUD = re.compile(r"\b(?:printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|perror|abort|_?exit|"
                  r"quick_exit)\s*\(")
# Comments, and literals with those that follow them.
LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*', re.S)
# Functions and names of the GNU library that neither POSIX nor BSD has.
GNU = re.compile(r"\b(?:pipe2|memmem|memrchr|mempcpy|strchrnul|strcasestr|v?asprintf|accept4|"
                 r"qsort_r|dl(?:addr|mopen|info|vsym)|sched_[gs]etaffinity|mremap|memfd_create|"
                 r"fallocate|secure_getenv|program_invocation_\w*name|pthread_\w+_np|gettid|"
                 r"exp10f?|sincosf?)\s*\(")
GNU_ROOMS = ("src/device/cuda/", "test/device/cuda/", "test/emulator/")   # Linux alone has cards
LOUD_ROOMS = ("src/tool/", "examples/", "test/", "bench/")


def rule_first_line(tree):
    for path in filter(is_code, tree.text):
        lines = tree.text[path].split("\n")
        mark = "/*" if path.endswith(C_SUFFIXES) else "#"
        line = 1 if lines[0].startswith("#!") else 0
        wanted = f"{mark} {os.path.basename(path)} - "
        job = lines[line] if line < len(lines) else ""
        module = os.path.basename(os.path.dirname(path) if path.endswith("__init__.py")
                                  else path[:-3])
        docstring = re.match(rf'"""{module}(?:\.py)? - \S', job)     # what Python may have instead
        if path.endswith(".py") and docstring:
            continue
        if not job.startswith(wanted) or job == wanted:
            yield path, line + 1, f'should begin "{wanted}" and say the job of the file'


def rule_tabs(tree):
    for path in filter(is_code, tree.text):
        for number, line in enumerate(tree.text[path].split("\n"), 1):
            if "\t" in line:
                yield path, number, "a tab"


def is_quiet(path):
    return is_c_code(path) and not path.startswith(LOUD_ROOMS)


def rule_quiet(tree):
    for path in filter(is_quiet, tree.text):
        for number, line in enumerate(tree.code(path).split("\n"), 1):
            if LOUD.search(line):
                yield path, number, "the library neither prints nor exits"


def may_be_portable(path):
    return is_c_code(path) and path.startswith(("src/", "test/", "examples/")) and \
        not path.startswith(GNU_ROOMS)


def rule_gnu(tree):
    """A file that says _GNU_SOURCE is built on Linux alone; WEIR_PORTABLE shows a replacement."""
    for path in filter(may_be_portable, tree.text):
        if re.search(r"WEIR_PORTABLE|_GNU_SOURCE", tree.text[path]):
            continue
        for number, line in enumerate(tree.code(path).split("\n"), 1):
            if GNU.search(line):
                yield path, number, "a function of the GNU library alone, without a replacement"


def is_message(path):
    return is_c_code(path) and path.startswith("src/") and not path.startswith("src/tool/")


def rule_flags(tree):
    """A literal that begins with an option is one that is passed on, as to a compiler."""
    for path in filter(is_message, tree.text):
        for match in LITERALS.finditer(tree.text[path]):
            if match.group(0)[0] == '"' and \
                    re.search(r"[^\s-]\W*--[a-z]", re.sub(r'"\s*"', "", match.group(0))[1:-1]):
                yield path, line_of(tree.text[path], match.start()), \
                    "a message names an option of a command line; the library knows none"


def listed_in(cmake):
    """The files that the text of CMake's files names: in the calls of its own functions, in loops
    over names, or whole."""
    cmake = re.sub(r"#[^\n]*", "", cmake)
    files = {"test/main.c", "test/consumer/consumer.c"}     # the latter by test/install.sh
    files |= {"test/systems/memory_faults.c", "test/systems/memory_job.c"}  # by memory_faults.sh
    for function, words in re.findall(r"^\s*(weir_\w+)\(([^()]*)\)", cmake, re.M):
        words = words.split()
        if function == "weir_sources":
            files.update(f"{words[1]}/{name}.c" for name in words[2:])
        elif function == "weir_example":
            files.update(f"examples/{name}.c" for name in words)
        # other functions of folders: (target folder name...) or (folder name...)
        for at, word in enumerate(words[:2]):
            if word.startswith(("src/", "test/")):
                files.update(f"{word}/{name}{suffix}" for name in words[at + 1:]
                             for suffix in (".c", ".cu", ".cpp"))
    prepended = r"function\((\w+)[^()]*\)\s*list\(TRANSFORM ARGN PREPEND (\S+)\)"
    for function, folder in re.findall(prepended, cmake):
        for words in re.findall(rf"^\s*{function}\(([^()]*)\)", cmake, re.M):
            files.update(folder + word for word in words.split())
    for names, body in re.findall(r"foreach\(\w+ IN ITEMS\s([^)]*)\)(.*?)endforeach", cmake, re.S):
        for before, after in re.findall(r"((?:src|test)/[\w/]*)\$\{\w+\}(\.\w+)", body):
            files.update(before + name + after for name in names.split())
    files.update(re.findall(r"(?:src|test|bench|examples)/[\w/]*\w\.(?:c|cu|cpp)\b", cmake))
    return files


def listed(tree):
    return tree.kept("listed", lambda: set().union(*(
        listed_in(tree.text[path]) for path in tree.text
        if path.endswith((".cmake", "CMakeLists.txt")))))


def is_source(path):
    """Files under test/docs/ are compiled by test/docs.py, as their readers would."""
    return is_c_code(path) and path.endswith((".c", ".cu", ".cpp")) \
        and not path.startswith("test/docs/")


def rule_listed(tree):
    for path in filter(is_source, tree.text):
        # test/docs.py compiles the programs of the documents
        if path not in listed(tree) and not path.startswith("test/docs/"):
            yield path, 1, "no list of CMake builds it"


def in_package(path):
    return path.startswith("python/weir/") and path.endswith(".py")


def rule_elements(tree):
    found = elements.Elements({path: tree.text[path] for path in filter(in_package, tree.text)})
    for path in filter(in_package, tree.text):
        for line, what in found.violations(path):
            yield path, line, what


def rule_asserts(tree):
    """An assert vanishes under -O: what a user got wrong is an exception."""
    import ast
    for path in filter(in_package, tree.text):
        for node in ast.walk(parsed(tree, path)):
            if isinstance(node, ast.Assert):
                yield path, node.lineno, "an assert; raise an exception that says what is wrong"


def is_python(path):
    return path.endswith(".py")


def rule_private(tree):
    """The low-level module is private, and so is its name."""
    old = re.compile(r"^ *(?:from (?:weir|\.+) import (?:.*\W)?(?<!_capi as )capi\b"
                     r"|import weir\.capi)", re.M)
    for path in filter(is_python, tree.text):
        for match in old.finditer(tree.text[path]):
            yield path, line_of(tree.text[path], match.end()), \
                "the low-level module is private: from weir import _capi as capi"


RULES = [Rule("first-line", is_code, rule_first_line), Rule("tabs", is_code, rule_tabs),
         Rule("quiet", is_quiet, rule_quiet), Rule("gnu", may_be_portable, rule_gnu),
         Rule("flags", is_message, rule_flags), Rule("listed", is_source, rule_listed),
         Rule("elements", in_package, rule_elements), Rule("asserts", in_package, rule_asserts),
         Rule("private", is_python, rule_private)]

CMAKE = """# weir_sources(a src/core commented)
weir_sources(core src/core up missing
    comment loud) # x
weir_example(net)
    weir_sources(test_core test/core fits long)
weir_plugin_also(test_cuda test/device move)
function(weir_fake library)
    list(TRANSFORM ARGN PREPEND test/emulator/)
endfunction()
weir_fake(blas blas.cpp find.c)
"""
PLANTS = [
    Plant("first-line", {
        "src/core/good.c": "/* good.c - x. */\n", "src/core/name.c": "/* other.c - x. */\n",
        "examples/run.sh": "#!/bin/sh\n# run.sh - x.\n", "examples/bad.sh": "#!/bin/sh\n# x\n",
        "examples/good.py": '"""good - a module."""\n',
        "bench/good.py": '"""good.py - a module."""\n', "bench/none.py": '"""other.py - x."""\n',
        "examples/bad.py": '"""good - a module."""\n',
        "python/weir/__init__.py": '"""weir - x."""\n', "src/core/empty.c": "",
    }, {"src/core/name.c", "examples/bad.sh", "examples/bad.py", "bench/none.py",
        "src/core/empty.c"}),
    Plant("tabs", {"src/core/tab.c": "\tint x;\n", "src/core/no.c": "    int x;\n"},
          {"src/core/tab.c"}),
    Plant("gnu", {
        "src/core/gnu.c": "int f(int *p)\n{\n    return pipe2(p, 0);\n}\n",
        "test/core/gnu.c": "/* pipe2(p, 0) */\nvoid *p = memmem (a, 1, b, 1);\n",
        "src/core/both.c": "#ifndef WEIR_PORTABLE\nint n = dladdr(p, q);\n#endif\n",
        "src/core/own.c": "int my_pipe2(int *p);\nint pipe2_of;\n",
        "src/device/cuda/x.c": "int n = dladdr(p, q);\n",
    }, {("src/core/gnu.c", 3), ("test/core/gnu.c", 2)}),
    Plant("quiet", {
        "src/core/loud.c": "int f(void)\n{\n    return printf(0);\n}\n",
        "src/core/comment.c": '/* printf(1) */\n// exit(1)\nchar *s = "printf(\\"{\\")";\n',
        "src/tool/main.c": "int f(void)\n{\n    return printf(0);\n}\n",
    }, {("src/core/loud.c", 3)}),
    Plant("flags", {
        "src/core/says.c": '/* "x --link" */\nf("needs a rate: "\n  "--link");\n',
        "src/core/passes.c": 'a[] = {"--std=c++17", "--fmad=false"};\nf("a -- b");\n',
        "src/tool/says.c": 'f("see --help");\n',
    }, {("src/core/says.c", 2)}),
    Plant("listed", {
        "CMakeLists.txt": CMAKE, "src/core/up.c": "", "src/core/loud.c": "",
        "src/core/commented.c": "", "examples/net.c": "", "test/core/long.c": "",
        "test/core/odd.c": "", "test/device/move.c": "", "test/emulator/blas.cpp": "",
        "test/docs/shown.c": "",
    }, {"src/core/commented.c", "test/core/odd.c"}),
    Plant("asserts", {"python/weir/a.py": "assert x\n", "python/weir/b.py": "'assert x'\n",
                      "test/c.py": "assert x\n"}, {"python/weir/a.py"}),
    Plant("private", {"python/weir/a.py": "from . import capi\n", "test/a.py": "import weir.capi\n",
                      "test/b.py": "\nfrom weir import core, capi\n",
                      "test/c.py": "from weir import _capi as capi, core\n",
                      "test/d.py": "from weir import capital\n"},
          {"python/weir/a.py", "test/a.py", ("test/b.py", 2)}),
]
PYTHON = {f"python/weir/{name}.py": text for name, text in {
    "there": "def f(a, n):\n    return weir_cast(op(cast(a, kDouble)), core_dtype(n))\n",
    "named": "def f(a, n):\n    wide = kDouble if n else kFloat32\n    y = op(cast(a, wide))\n"
             "    return arith.to(y, n)\n",
    "message": "def f(a):\n    kind = type_of(a)\n"
               "    return weir_cast(weir_all_reduce(weir_cast(a, WEIR_F16)), kind)\n",
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
            "def g(values):\n    return np.sqrt(host(values)) * 2, np.eye(3) * 2\n"
            "def h(a):\n    kind = _float_type(a)\n"
            "    return weir_cast(weir_all_reduce(weir_cast(a, WEIR_F16)), kind)\n",
}.items()}
PLANTS.append(Plant("elements", PYTHON, {f"python/weir/{name}.py" for name in (
    "there", "named", "message", "back", "floor", "read", "ufunc", "added", "floats", "operand")}))
