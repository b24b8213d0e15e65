"""test_types - everything public in the package is annotated, and no annotation is Any or holds it.

Reads the files of the package: no checker of types has to be installed. A generic class without
arguments counts as Any, as it does for checkers. NumPy's abstract scalars are classes: np.generic
is any element, and an array of any elements is ndarray[Shape, dtype[generic]].
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


GENERIC = {"AbstractContextManager", "Callable", "ClassVar", "Counter", "Iterable",
           "Iterator", "Mapping", "MutableMapping", "NDArray", "OrderedDict", "Sequence", "Set",
           "Union", "defaultdict", "deque", "dict", "dtype", "frozenset", "list", "ndarray",
           "partial", "ref", "set", "tuple", "type"}


def anys(note):
    """Names in an annotation that are Any for checkers of types: itself, and generic classes
    without arguments."""
    if isinstance(note, ast.Constant) and isinstance(note.value, str):
        note = ast.parse(note.value, mode="eval").body
    if isinstance(note, ast.Subscript):         # list[...]: the class has its arguments
        yield from anys(note.slice)
    elif isinstance(note, (ast.Name, ast.Attribute)):
        name = note.id if isinstance(note, ast.Name) else note.attr
        if name == "Any" or name in GENERIC:
            yield name
    elif note is not None and not isinstance(note, ast.Constant):
        for part in ast.iter_child_nodes(note):
            yield from anys(part)


def missing(owner, function):
    """What a signature lacks: names of parameters, "return", or what is Any where one says that."""
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
        yield from anys(note)


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
    ("def f(a: NDArray[Any], b: np.ndarray) -> typing.Any: ...", ["Any", "ndarray", "Any"]),
    ("def f(a: NDArray[np.generic], b: 'list') -> tuple[dict, ...]: ...", ["list", "dict"]),
    ("def f(a: Callable[[int], str] | None) -> Callable: ...", ["Callable"]),
])
def test_finds_mistakes(text, expected):
    assert list(missing(None, ast.parse(text).body[0])) == expected


def annotations(tree):
    """(line, annotation) of attributes, variables and aliases, private ones too: a public signature
    may name them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            alias = ast.unparse(node.annotation) in ("TypeAlias", "typing.TypeAlias")
            yield node.lineno, node.value if alias else node.annotation


def test_attributes_aliases_and_stubs():
    """Those of weir.singa and of the generated modules, too."""
    stubs = []
    for name in ("_capi.pyi", "_swig.pyi"):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
            stubs.append((name, ast.parse(f.read())))
    wrong, count = [], 0
    for path, tree in [*modules(), *stubs]:
        for line, note in annotations(tree):
            count += 1
            wrong += [f"{path}:{line}: {name}" for name in anys(note)]
        for owner, function in public_functions(tree.body) if path.endswith(".pyi") else ():
            count += 1
            wrong += [f"{path}:{function.lineno}: {function.name}: {name}"
                      for name in missing(owner, function)]
    assert not wrong, "\n".join(wrong)
    assert count > 1200
    assert any(path.startswith("singa") for path, _ in modules())


def test_nothing_imports_any():
    wrong = [f"{path}:{node.lineno}" for path, tree in modules() for node in ast.walk(tree)
             if isinstance(node, ast.ImportFrom) and node.module == "typing"
             and "Any" in [alias.name for alias in node.names]]
    assert wrong == []


@pytest.mark.parametrize("name", ["weir"] + [f"weir.{m}" for m in (*weir.MODULES, "typing")])
def test_names_exist(name):
    """What a module lists is there; what weir lists is all that it gives."""
    module = importlib.import_module(name)
    assert [n for n in getattr(module, "__all__", ()) if not hasattr(module, n)] == []
    if name == "weir":
        assert {*weir.MODULES, *weir._MODULE_OF} <= set(weir.__all__)
