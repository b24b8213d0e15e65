"""test_types - every public signature of the package is annotated, and none says Any.

Reads the files of the package: no checker of types has to be installed.
"""
import ast
import importlib
import os

import pytest

import weir

FOLDER = os.path.dirname(weir.__file__)


def modules():
    """(path, syntax tree) of the package's files, as they are written."""
    for base, folders, names in os.walk(FOLDER, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith(".py") and name != "_capi.py":
                path = os.path.join(base, name)
                with open(path, encoding="utf-8") as f:
                    yield os.path.relpath(path, FOLDER), ast.parse(f.read())


def is_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def public_functions(body, owner=None):
    """(class or None, function) of what has no private name; of a block for checkers of types what
    they read."""
    for node in body:
        if is_checking(node):
            yield from public_functions(node.body, owner)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, node)
        elif isinstance(node, ast.FunctionDef) and (
                not node.name.startswith("_") or node.name in ("__init__", "__call__")):
            yield owner, node


def missing(owner, function):
    """What a signature lacks: names of parameters, "return", or "Any" where it says that."""
    args = function.args
    given = [*args.posonlyargs, *args.args]
    static = any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    if owner is not None and not static:
        given = given[1:]
    given += [*args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    yield from (arg.arg for arg in given if arg.annotation is None)
    if function.returns is None:
        yield "return"
    for note in [arg.annotation for arg in given] + [function.returns]:
        for part in ast.walk(note) if note is not None else ():
            text = part.value if isinstance(part, ast.Constant) else ""
            if isinstance(part, ast.Name) and part.id == "Any" or "Any" in str(text).split("."):
                yield "Any"


def test_signatures():
    wrong, count = [], 0
    for path, tree in modules():
        for owner, function in public_functions(tree.body):
            count += 1
            wrong += [f"{path}:{function.lineno}: {function.name}: {what}"
                      for what in missing(owner, function)]
    assert not wrong, "\n".join(wrong)
    assert count > 800


@pytest.mark.parametrize("text, expected", [
    ("def f(a, b: int) -> int: ...", ["a"]), ("def f(): ...", ["return"]),
    ("def f(*, c, **d: Any) -> None: ...", ["c", "Any"]),
    ("def f(a: list[Any]) -> 'Any': ...", ["Any", "Any"]),
    ("def f(a: int, *b: str) -> None: ...", []),
])
def test_finds_mistakes(text, expected):
    assert list(missing(None, ast.parse(text).body[0])) == expected


def test_aliases_and_stub_have_no_any():
    with open(os.path.join(FOLDER, "_capi.pyi"), encoding="utf-8") as f:
        stub = ast.parse(f.read())
    trees = [(path, tree) for path, tree in modules()] + [("_capi.pyi", stub)]
    says = [f"{path}:{node.lineno}" for path, tree in trees for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "typing"
            and "Any" in [alias.name for alias in node.names]]
    assert says == []


@pytest.mark.parametrize("name", ["weir"] + [f"weir.{m}" for m in (*weir.MODULES, "typing")])
def test_names_exist(name):
    """What a module lists is there; what weir lists is all that it gives."""
    module = importlib.import_module(name)
    assert [n for n in getattr(module, "__all__", ()) if not hasattr(module, n)] == []
    if name == "weir":
        assert {*weir.MODULES, *weir._MODULE_OF} <= set(weir.__all__)
