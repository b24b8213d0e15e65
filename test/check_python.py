#!/usr/bin/env python3
# check_python.py - rules of the Python code: circles of imports, long functions, docstrings, lint.
"""Usage: check_python.py [ROOT]. Ends with "check_python: N passed, N failed".

Rules: circle (no module imports itself by way of others, at the top or inside of functions; what
only checkers of types read does not count), function-length, docstring (each public function, class
and method of the package has one, or overrides a method that has; setters are documented by their
property, overloads by what implements them), lint (ruff, or pyflakes; left out, with a sentence,
where neither is installed).
Begins by finding planted violations. Standard library only.
"""
import ast
import os
import subprocess
import sys
import tempfile

MAX_FUNCTION = 60
# Folders of modules: the name of the package in them ("": scripts that import each other by file
# name), and folders whose modules are imported by the package's name too, as weir.__path__ says.
ROOTS = {"python/weir": ("weir", ("singa",)), "test": ("", ()), "test/python": ("", ()),
         "test/python/singa": ("", ()), "test/python/data": ("", ()),
         "test/python/pytorch": ("", ()), "test/pytorch": ("", ()),
         "test/tree": ("tree", ()), "bench": ("", ()), "examples/python": ("", ())}
GENERATED = {"weir._capi", "weir._swig"}    # by the build: they import nothing of the package
LINTED = ("python", "test", "bench", "examples")


class Modules:
    """The modules of one root of ROOTS, and what each imports of the others."""

    def __init__(self, root, folder):
        self.package, self.also = ROOTS[folder]
        self.paths, self.trees = {}, {}
        top = os.path.join(root, folder)
        for base, dirs, names in os.walk(top):
            dirs[:] = sorted(dirs) if self.package else []
            for name in sorted(names):
                if name.endswith(".py"):
                    path = os.path.join(base, name)
                    with open(path, encoding="utf-8") as f:
                        self.add(os.path.relpath(path, top), os.path.relpath(path, root), f.read())
        self.imports = {name: self.imports_of(name) for name in self.trees}

    def add(self, inside, path, text):
        words = [self.package] * bool(self.package) + inside.removesuffix(".py").split(os.sep)
        name = ".".join(words[:-1] if words[-1] == "__init__" else words)
        self.paths[name] = path
        self.trees[name] = ast.parse(text, path)

    def found(self, name):
        """The module that an import of a name gives; None: none of these."""
        if name in self.paths:
            return name
        for folder in self.also:
            other = name.replace(self.package, f"{self.package}.{folder}", 1)
            if other in self.paths:
                return other
        return None

    def imports_of(self, name):
        """Names of modules that a module imports anywhere, in the order of their first import."""
        is_package = self.paths[name].endswith("__init__.py")
        found = {}
        for node in run(self.trees[name]):
            for target in self.targets(node, name.split(".") if is_package
                                       else name.split(".")[:-1]):
                module = self.found(target)
                if module not in (None, name):
                    found[module] = True
        return list(found)

    def targets(self, node, package):
        """Names that a node of a module's syntax imports."""
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            above = package[:len(package) - node.level + 1] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            whole = [f"{base}.{alias.name}" for alias in node.names]
            return [name if self.found(name) or name in GENERATED else base for name in whole]
        return named_late(node)


def run(tree):
    """The nodes of a tree but for what only checkers of types read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from run(node)


def named_late(node):
    """A module that is asked for by a text: import_module("NAME"), sys.modules["NAME"]."""
    if isinstance(node, ast.Call) and node.args:
        function = ast.unparse(node.func)
        if function.endswith(("import_module", "__import__", "sys.modules.get")):
            node = node.args[0]
            return [node.value] if isinstance(node, ast.Constant) else []
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
        return [node.slice.value] if isinstance(node.slice, ast.Constant) else []
    return []


def way_back(imports, start):
    """The shortest chain of imports from a module to itself, or None."""
    before, waiting = {}, [start]
    for name in waiting:                # grows while it is read
        for target in imports[name]:
            if target == start:
                chain = [name, start]
                while chain[0] != start:
                    chain.insert(0, before[chain[0]])
                return chain
            if target not in before:
                before[target] = name
                waiting.append(target)
    return None


def circles(root):
    """Circles of imports in all of ROOTS: lists of modules, the first again at the end. Each module
    that is in a circle is in one of those listed."""
    result = []
    for folder in ROOTS:
        imports = Modules(root, folder).imports
        seen = set()
        for name in imports:
            chain = None if name in seen else way_back(imports, name)
            if chain:
                seen.update(chain)
                result.append(chain)
    return result


def long_functions(root, folder):
    """(path, line, name, lines) of functions that are too long."""
    modules = Modules(root, folder)
    for module, tree in modules.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                if lines > MAX_FUNCTION:
                    yield modules.paths[module], node.lineno, node.name, lines


# ---- docstrings ----

def public_in(node):
    """(node, class around it or None) of public functions and classes in a module or a class."""
    for child in node.body:
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and not child.name.startswith("_"):
            yield child, node if isinstance(node, ast.ClassDef) else None
            if isinstance(child, ast.ClassDef):
                yield from public_in(child)


def is_overload(node):
    """A signature alone: what implements it has the docstring."""
    return any(ast.unparse(d) == "overload" for d in getattr(node, "decorator_list", ()))


def is_setter(node):
    return any(isinstance(d, ast.Attribute) and d.attr == "setter"
               for d in getattr(node, "decorator_list", ()))


def base_names(node):
    return [base.id if isinstance(base, ast.Name) else base.attr for base in node.bases
            if isinstance(base, (ast.Name, ast.Attribute))]


def undocumented(root):
    """(number of public names, [(path, line, name)] of those without a docstring)."""
    modules = Modules(root, "python/weir")
    public = [(modules.paths[module], *found) for module, tree in modules.trees.items()
              for found in public_in(tree)]
    bases, methods = {}, {}
    for tree in modules.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(base_names(node))
                methods.setdefault(node.name, set()).update(
                    f.name for part in [node, *(n for n in node.body if isinstance(n, ast.If))]
                    for f in part.body + getattr(part, "orelse", [])
                    if isinstance(f, ast.FunctionDef) and ast.get_docstring(f))

    def inherits(owner, name, seen):
        """Does a class before this one, known by its name, document the method?"""
        return any(base not in seen and (name in methods.get(base, ()) or
                                         inherits(base, name, seen | {base}))
                   for base in bases.get(owner, ()))

    missing = [(path, node.lineno, node.name) for path, node, owner in public
               if not ast.get_docstring(node) and not is_setter(node) and not is_overload(node)
               and not (owner and inherits(owner.name, node.name, {owner.name}))]
    return len(public), missing


def lint(root):
    """(name, reports) of the installed linter, or None."""
    paths = [name for name in LINTED if os.path.isdir(os.path.join(root, name))]
    ruff = ["check", "--quiet", "--no-cache", "--output-format", "concise"]
    for command, options in ((["ruff"], ruff), ([sys.executable, "-m", "ruff"], ruff),
                             ([sys.executable, "-m", "pyflakes"], []), (["pyflakes3"], [])):
        try:
            subprocess.run([*command, "--version"], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        done = subprocess.run([*command, *options, *paths], cwd=root, capture_output=True,
                              text=True)
        reports = (done.stdout + done.stderr).splitlines()
        if not reports and done.returncode:
            reports = [f"{command[-1]} ended with code {done.returncode}"]
        return command[-1], [text for text in reports if not excused(root, text)]
    return None


def excused(root, report):
    """Does the line that is reported say noqa? pyflakes does not look."""
    path, line = (report.split(":") + [""])[:2]
    path = os.path.join(root, path)
    if not line.isdigit() or not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as f:
        return "# noqa" in f.read().splitlines()[int(line) - 1]


# ---- self-test ----

PLANTED = {
    "python/weir/__init__.py": "from . import _capi, core\nfrom .tensor import x\n",
    "python/weir/core.py": "def f():\n    from .graph import g\n",
    "python/weir/graph.py": "from . import core\n",
    "python/weir/alone.py": "import os\nfrom weir import _capi, core\nfrom .tensor import y\n",
    "python/weir/types.py": "if TYPE_CHECKING:\n    from .types_too import x\n",
    "python/weir/types_too.py": "from .types import y\n",
    "python/weir/errors.py": "def f():\n    x = 1\n",
    "python/weir/singa/__init__.py": "",
    "python/weir/singa/tensor.py": "from weir.singa.raw import math\n",
    "python/weir/singa/raw/__init__.py": "",
    "python/weir/singa/raw/math.py": "from .. import tape\n",
    "python/weir/singa/tape.py": "import sys\nx = sys.modules['weir.tensor']\n",
    "python/weir/singa/ends.py": "from . import tensor\n",
    "python/weir/named.py": "class A:\n    'A'\n    def f(self):\n        'f'\n"
                            "class B(A):\n    'B'\n    def f(self): pass\n    def g(self): pass\n"
                            "    @f.setter\n    def f(self, x): pass\n    def _h(self): pass\n"
                            "@overload\ndef m(): pass\ndef k(): pass\n",
    "bench/a.py": "import b\n", "bench/b.py": "import importlib\nimportlib.import_module('a')\n",
    "bench/c.py": "def f():\n" + "    pass\n" * MAX_FUNCTION,
    "bench/e.py": "y = 1\nx = 1      # noqa: F841\n",
    "bench/d.py": "def f():\n" + "    pass\n" * (MAX_FUNCTION - 1),
}
EXPECTED = [["weir.core", "weir.graph", "weir.core"],
            ["weir.singa.tape", "weir.singa.tensor", "weir.singa.raw.math", "weir.singa.tape"],
            ["a", "b", "a"]]


def self_test():
    """Yields a text for each planted mistake that was not found, or found wrongly."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in PLANTED.items():
            path = os.path.join(root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        found = circles(root)
        noqa = [excused(root, f"bench/e.py:{line}:1: F841 x") for line in (1, 2)]
        bare = [name for _, _, name in undocumented(root)[1]]
        long = [entry for folder in ROOTS for entry in long_functions(root, folder)]
    if sorted(map(sorted, found)) != sorted(map(sorted, EXPECTED)):
        yield f"circles {found}, planted {EXPECTED}"
    if bare != ["f", "f", "g", "k"]:
        yield f"names without a docstring {bare}"
    if noqa != [False, True]:
        yield f"excused lines {noqa}"
    if long != [("bench/c.py", 1, "f", MAX_FUNCTION + 1)]:
        yield f"long functions {long}"


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1
                           else os.path.join(os.path.dirname(__file__), ".."))
    mistakes = list(self_test())
    for text in mistakes:
        print(f"self-test: {text}")
    failed = len(mistakes)
    passed = 4 - failed
    for chain in circles(root):
        print(f"circle: {' -> '.join(chain)}")
        failed += 1
    for folder in ROOTS:
        modules = len(Modules(root, folder).trees)
        long = list(long_functions(root, folder))
        for path, line, name, lines in long:
            print(f"{path}:{line}: {name} has {lines} lines, at most {MAX_FUNCTION}")
        failed += len(long)
        passed += modules - len({path for path, _, _, _ in long})
    public, bare = undocumented(root)
    for path, line, name in bare:
        print(f"{path}:{line}: docstring: {name} has none")
    print(f"check_python: {public} public names, {len(bare)} without a docstring")
    failed += len(bare)
    passed += public - len(bare)
    linted = lint(root)
    if linted is None:
        print("check_python: neither ruff nor pyflakes is installed, lint is left out")
    else:
        name, reports = linted
        print("\n".join([*reports, f"check_python: {name} reports {len(reports)} lines"]))
        failed += len(reports)
        passed += not reports
    print(f"check_python: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
