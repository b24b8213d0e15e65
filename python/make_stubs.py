"""make_stubs.py - writes the stubs of weir.capi, from the module that SWIG made, and of weir.tensor
and the like, whose types are those of weir/singa/tensor.py.

Usage: make_stubs.py CAPI.PY weir/singa PACKAGE; the stubs go to the folder PACKAGE. SWIG notes C
types as annotations; here they become Python's. A C type that the tables do not know is an error,
so that a new function cannot be forgotten.
"""
import ast
import os
import re
import sys

PLAIN = {"void": "None", "bool": "bool", "double": "float", "float": "float", "int": "int",
         "char *": "str", "char const *": "str", "PyObject *": "Any", "weir_device *": "Any",
         "weir_device const *": "Any",
         "size_t": "int", "Py_ssize_t": "int", "int64_t": "int", "uint64_t": "int",
         "uint32_t": "int", "int32_t": "int", "void *": "Any"}
# What typemaps turn into a sequence: the names of the counts that stand for (count, array).
DIMS = ("ndim",)
TENSORS = {"int": ("n",), "Py_ssize_t": ("n", "nx", "ny", "ndx", "ndy", "nparam", "ngrad")}
INTEGERS = re.compile(r"int(64_t)? (const \*|\[\d\]|\*)")
# Functions that give what the header fills through a pointer.
RESULTS = {"weir_bytes": "int", "weir_graph_measure": "int"}
HEAD = '''"""The C core, made from its headers by SWIG: include/weir/*.h say what each name does."""
from collections.abc import Sequence
from typing import Any

class _SwigNonDynamicMeta(type): ...
'''


class Stubs:
    """The stub of one module."""

    def __init__(self, tree):
        self.tree = tree
        self.classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        self.lines = []

    def is_enum(self, c_type):
        return re.fullmatch(r"(enum )?weir_\w+", c_type) and c_type not in self.classes

    def parameter(self, name, c_type):
        if c_type == "int" and name in DIMS:
            return "Sequence[int]"
        if name in TENSORS.get(c_type, ()):
            return "Sequence[weir_tensor | None]"
        if INTEGERS.fullmatch(c_type):
            return "Sequence[int] | None"
        if c_type == "weir_desc":
            return "tuple[int, Sequence[int]]"
        if c_type.removesuffix(" *").removesuffix(" const") in self.classes:
            return c_type.split(" ")[0] + " | None"
        if c_type == "char const *":
            return "str | None"
        return self.plain(c_type)

    def result(self, c_type):
        if c_type == "weir_desc":
            return "tuple[int, tuple[int, ...]]"
        if c_type == "weir_status":
            return "None"
        if c_type.removesuffix(" *").removesuffix(" const") in self.classes:
            return c_type.split(" ")[0]
        return self.plain(c_type)

    def plain(self, c_type):
        if c_type in PLAIN:
            return PLAIN[c_type]
        if self.is_enum(c_type):
            return "int"
        raise SystemExit(f"make_stubs.py: no Python type for '{c_type}'")

    def function(self, node, indent=""):
        args = []
        for arg in node.args.args:
            note = f": {self.parameter(arg.arg, arg.annotation.value)}" if arg.annotation else ""
            args.append(arg.arg + note)
        if node.args.vararg:
            args.append(f"*{node.args.vararg.arg}: Any")
        if node.args.kwarg:
            args.append(f"**{node.args.kwarg.arg}: Any")
        result = RESULTS.get(node.name) or (self.result(node.returns.value) if node.returns
                                            else "None")
        self.lines.append(f"{indent}def {node.name}({', '.join(args)}) -> {result}: ...")

    def class_(self, node):
        self.lines.append(f"class {node.name}(metaclass=_SwigNonDynamicMeta):")
        self.lines += ["    thisown: Any", "    __swig_destroy__: Any"]
        for item in node.body:
            if isinstance(item, ast.AnnAssign):
                c_type = item.annotation.value     # an array is written as a sequence, never read
                kind = "Any" if INTEGERS.fullmatch(c_type) else self.plain(c_type)
                self.lines.append(f"    {item.target.id}: {kind}")
            elif isinstance(item, ast.FunctionDef):
                self.function(item, "    ")

    def constant(self, node):
        name = node.targets[0].id
        kind = "str" if name.endswith("_STRING") else "int"
        self.lines.append(f"{name}: {kind}")

    def text(self):
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                self.class_(node)
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                self.function(node)
            elif isinstance(node, ast.Assign) and node.targets[0].id.isupper():
                self.constant(node)
        return HEAD + "\n".join(self.lines) + "\n"


def singa_stubs(folder, package):
    """For each module of weir/singa one that says that weir.NAME is weir.singa.NAME, as checkers of
    types do not look into a second folder of a package."""
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(base, name), folder)
            if not name.endswith(".py") or path in ("__init__.py", "__main__.py"):
                continue
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            with open(os.path.join(base, name), encoding="utf-8") as f:
                private = [node.name for node in ast.parse(f.read()).body
                           if isinstance(node, (ast.ClassDef, ast.FunctionDef))
                           and node.name.startswith("_") and not node.name.startswith("__")]
            lines = [f'"""weir.{module} is weir.singa.{module}."""',
                     f"from weir.singa.{module} import *"]
            lines += [f"from weir.singa.{module} import {name} as {name}" for name in private]
            write(os.path.join(package, path + "i"), "\n".join(lines) + "\n")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main():
    capi, folder, package = sys.argv[1:]
    with open(capi, encoding="utf-8") as f:
        text = Stubs(ast.parse(f.read())).text()
    singa_stubs(folder, package)
    write(os.path.join(package, "capi.pyi"), text)


if __name__ == "__main__":
    main()
