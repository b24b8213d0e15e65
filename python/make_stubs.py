"""make_stubs.py - writes weir._capi and its stub, from the module that SWIG made, and the stubs of
weir.tensor and the like, whose types are those of weir/singa/tensor.py.

Usage: make_stubs.py CAPI.PY weir/singa PACKAGE; all goes to the folder PACKAGE. SWIG notes C types
as annotations; in the stub they become Python's, and _capi.py has none. A C type that the tables do
not know is an error, so that a new function cannot be forgotten.
"""
import ast
import os
import re
import sys

PLAIN = {"void": "None", "bool": "bool", "double": "float", "float": "float", "int": "int",
         "char *": "str", "char const *": "str", "char [256]": "str",
         "char [128]": "str", "PyObject *": "object",
         "weir_device *": "_weir_device", "weir_device const *": "_weir_device",
         "size_t": "int", "Py_ssize_t": "int", "int64_t": "int", "uint64_t": "int",
         "uint32_t": "int", "int32_t": "int", "void *": "object"}
# Python objects of the functions of glue_api.h: (name, parameter), or (name, "return").
OBJECTS = {
    ("set_errors", "classes"): "list[type[Exception]]",
    ("set_errors", "return"): "None",
    ("write", "buffer"): "_Memory",
    ("write", "return"): "None",
    ("read", "buffer"): "_Memory",
    ("read", "return"): "None",
    ("memory", "return"): "tuple[int, tuple[int, ...]]",
    ("split", "return"): "list[weir_tensor]",
    ("topk", "return"): "tuple[weir_tensor, weir_tensor]",
    ("graph_bindings", "return"): "list[tuple[str, int, weir_tensor]]",
    ("graph_save", "return"): "None",
    ("summary_text", "rows"): "list[tuple[object, ...]]",
    ("summary_text", "return"): "str",
    ("vjp", "return"): "list[weir_tensor | None]",
    ("gradients", "return"): "list[weir_tensor | None]",
    ("clip", "return"): "tuple[list[weir_tensor], weir_tensor | None]",
    ("unscale", "return"): "tuple[list[weir_tensor], weir_tensor]",
    ("attention", "return"): "list[weir_tensor]",
    ("rnn", "return"): "list[weir_tensor]",
    ("checkpoint", "function"): "Callable[[list[weir_tensor]], list[weir_tensor]]",
    ("checkpoint", "return"): "tuple[object, list[weir_tensor]]",
    ("comm_equal", "bytes"): "_Memory",
    ("comm_equal", "return"): "bool",
    ("comm_gather", "bytes"): "_Memory",
    ("comm_gather", "return"): "bytes",
    ("comm_measure", "return"): "tuple[float, float]",
    ("onnx_open", "bytes"): "Buffer | None",
    ("onnx_inputs", "return"): "list[str]",
    ("onnx_outputs", "return"): "list[str]",
    ("onnx_nodes", "return"): "list[tuple[str, str, list[str]]]",
    ("onnx_tensors", "return"): "list[tuple[str, int, weir_tensor]]",
    ("onnx_apply", "return"): "list[weir_tensor]",
    ("onnx_operators", "return"): "list[str]",
    ("graph_save_onnx", "outputs"): "str | None",
    ("graph_save_onnx", "return"): "None",
    ("largest_batch", "fits"): "Callable[[int], bool]",
    ("largest_batch", "needs"): "Callable[[int], weir_graph_needs | None]",
    ("largest_batch", "return"): "int",
    ("callback", "owner"): "object",
    ("callback", "forward"): "_Callback",
    ("callback", "backward"): "_Callback | None",
    ("callback", "descs"): "list[tuple[int, tuple[int, ...]]]",
    ("callback", "return"): "tuple[object, list[weir_tensor]]",
}
# What typemaps turn into a sequence: the names of the counts that stand for (count, array).
DIMS = ("ndim",)
TENSORS = {"int": ("n",), "Py_ssize_t": ("n", "nx", "ny", "ndx", "ndy", "nparam", "ngrad")}
INTEGERS = re.compile(r"int(64_t)? (const \*|\[\d\]|\*)")
REALS = {"WEIR_ZERO"}           # constants that are no integers
# Functions that give what the header fills through a pointer.
RESULTS = {"weir_bytes": "int", "weir_graph_measure": "int"}
DICTS = ("weir_graph_stats",)           # structs that the package gives as dicts, too
HEAD = '''"""The C core, made from its headers by SWIG: include/weir/*.h say what each name does."""
from collections.abc import Callable, Sequence
from typing import TypedDict

from numpy import generic
from numpy.typing import NDArray
from typing_extensions import Buffer

_Memory = Buffer | NDArray[generic]
_Operand = tuple[tuple[int, tuple[int, ...]], memoryview | None]
_Callback = Callable[[list[_Operand], list[_Operand]], None]

class _SwigNonDynamicMeta(type): ...
class _weir_device: ...
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
            note = OBJECTS.get((node.name, arg.arg))
            if arg.annotation and not note:
                note = self.parameter(arg.arg, arg.annotation.value)
            args.append(f"{arg.arg}: {note}" if note else arg.arg)
        if node.args.vararg:
            args.append(f"*{node.args.vararg.arg}: object")
        if node.args.kwarg:
            args.append(f"**{node.args.kwarg.arg}: object")
        result = RESULTS.get(node.name) or OBJECTS.get((node.name, "return")) or (
            self.result(node.returns.value) if node.returns else "None")
        self.lines.append(f"{indent}def {node.name}({', '.join(args)}) -> {result}: ...")

    def class_(self, node):
        self.lines.append(f"class {node.name}(metaclass=_SwigNonDynamicMeta):")
        self.lines += ["    thisown: bool", "    this: object",
                       "    __swig_destroy__: Callable[[object], None]"]
        for item in node.body:
            if isinstance(item, ast.AnnAssign):
                c_type = item.annotation.value     # an array is written as a sequence, never read
                kind = "Sequence[int]" if INTEGERS.fullmatch(c_type) else self.plain(c_type)
                self.lines.append(f"    {item.target.id}: {kind}")
            elif isinstance(item, ast.FunctionDef):
                self.function(item, "    ")
        if node.name in DICTS:
            self.dict_(node)

    def dict_(self, node):
        """The fields of a struct as a dict has them."""
        self.lines.append(f"class _{node.name}(TypedDict):")
        self.lines += [f"    {item.target.id}: {self.plain(item.annotation.value)}"
                       for item in node.body if isinstance(item, ast.AnnAssign)]

    def constant(self, node):
        name = node.targets[0].id
        kind = "str" if name.endswith("_STRING") else "float" if name in REALS else "int"
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


# Checkers of types read _capi.pyi; what they can't know of _capi.py is what the extension module has.
UNTYPED = "# The types are in _capi.pyi.\n# pyright: reportAttributeAccessIssue=false\n"


def unannotated(text):
    """SWIG's module without the C types in quotes, which are no types of Python."""
    text = re.sub(r'^ +\w+: "[^"]*"$\n', "", text, flags=re.M)
    text = re.sub(r'(?<=\w): "[^"]*"(?=[,)=]| = )', "", text)
    return UNTYPED + re.sub(r'\) -> "[^"]*":$', "):", text, flags=re.M)


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
        text = f.read()
    singa_stubs(folder, package)
    write(os.path.join(package, "_capi.py"), unannotated(text))
    write(os.path.join(package, "_capi.pyi"), Stubs(ast.parse(text)).text())


if __name__ == "__main__":
    main()
