# python_pages.py - the Python package as pages: public names of its modules with their docstrings.
"""Sources are parsed, not imported, so the site needs neither a build nor NumPy. A name is public
if it has no leading underscore and stands in the module, or is imported there to be passed on
(marked F401). Docstrings are plain text. Standard library only.
"""
import ast
import os

PACKAGE = "python/weir"
MODULES = [                     # (page, module, file)
    ("weir", "weir", "__init__.py"), ("tensor", "weir.tensor", "singa/tensor.py"),
    ("autograd", "weir.autograd", "singa/autograd.py"), ("layer", "weir.layer", "singa/layer.py"),
    ("model", "weir.model", "singa/model.py"), ("opt", "weir.opt", "singa/opt.py"),
    ("device", "weir.device", "singa/device.py"), ("data", "weir.data", "singa/data.py"),
    ("initializer", "weir.initializer", "singa/initializer.py"),
    ("snapshot", "weir.snapshot", "singa/snapshot.py"), ("errors", "weir.errors", "errors.py"),
    ("plot", "weir.plot", "plot.py"),
]
MAKERS = {"unary", "binary", "rounding", "comparison", "define"}     # class, function = unary(...)


class Module:
    def __init__(self, root, path):
        self.path, self.root = path, root
        with open(os.path.join(root, path), encoding="utf-8") as f:
            self.lines = f.read().split("\n")
        self.tree = ast.parse("\n".join(self.lines))

    def text(self):
        return ast.get_docstring(self.tree) or ""

    def other(self, node):
        """Path of the module that a relative or weir import names; None for others."""
        name, level = node.module or "", node.level
        folder = os.path.dirname(self.path)
        if level == 0 and name.split(".")[0] != "weir":
            return None
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        parts = name.split(".") if level else name.split(".")[1:]
        for base in ([folder] if level else [PACKAGE, f"{PACKAGE}/singa"]):
            path = os.path.join(base, *parts)
            for end in (".py", "/__init__.py"):
                if os.path.isfile(os.path.join(self.root, path + end)):
                    return path + end
        return None

    def lazy(self):
        """{name: module} of the names that weir/__init__.py imports when they are first used."""
        if self.path != f"{PACKAGE}/__init__.py":
            return {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and \
                    node.targets[0].id == "_NAMES":
                table = ast.literal_eval(node.value)
                return {name: module for module, names in table.items() for name in names}
        return {}

    def find(self, name):
        """The definition of a name: (node, docstring), or None."""
        if name in self.lazy():
            return Module(self.root, f"{PACKAGE}/{self.lazy()[name]}.py").find(name)
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return node, ast.get_docstring(node) or ""
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and \
                    isinstance(node.value.func, ast.Name) and node.value.func.id in MAKERS:
                names = [n.id for t in node.targets for n in ast.walk(t)
                         if isinstance(n, ast.Name)]
                texts = [a.value for a in node.value.args if isinstance(a, ast.Constant)]
                if name in names:
                    return node, texts[-1]
            if isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
                path = self.other(node)
                return Module(self.root, path).find(name) if path else None
        return None

    def names(self):
        """Public names in the order of the file, those of imports marked noqa (re-exports) too."""
        found = []
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.append(node.name)
            elif isinstance(node, ast.ImportFrom) and self.other(node):
                marked = "F401" in self.lines[node.lineno - 1] + self.lines[node.end_lineno - 1]
                inner = (node.module or "").startswith(("layers", "operators"))
                found += [a.asname or a.name for a in node.names
                          if marked or inner and a.name[0].isupper()]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                found += [n.id for n in node.targets[0].elts if isinstance(n, ast.Name)]
        found += self.lazy()
        return [n for n in dict.fromkeys(found) if not n.startswith("_")]


def signature(node):
    if isinstance(node, ast.Assign):
        return "(x)" if node.value.func.id in ("unary", "rounding", "define") else "(a, b)"
    if isinstance(node, ast.ClassDef):
        made = next((n for n in node.body if isinstance(n, ast.FunctionDef)
                     and n.name == "__init__"), None)
        if made is None:
            return ""
        node = made
    arguments = ast.unparse(node.args)
    for first in ("self", "cls"):
        if arguments == first or arguments.startswith(first + ","):
            arguments = arguments[len(first):].lstrip(", ")
    return f"({arguments})"


def decorators(node):
    """The last names of a function's decorators: property; setter, of @lr.setter."""
    return [ast.unparse(d).rpartition(".")[2] for d in getattr(node, "decorator_list", [])]


def entry(name, node, text, paragraphs, indent="", index=True):
    kind = "class" if isinstance(node, ast.ClassDef) or isinstance(node, ast.Assign) \
        and name[0].isupper() else "function"
    if indent:
        kind = "property" if "property" in decorators(node) else "method"
    plain = kind == "property" or kind == "class" and isinstance(node, ast.Assign)
    shown = "" if plain else signature(node)
    out = [f"{indent}.. py:{kind}:: {name}{shown}", *([] if index else [f"{indent}   :no-index:"]),
           "", paragraphs(text, indent + "   ")]
    if isinstance(node, ast.ClassDef):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name[0] != "_" \
                    and "setter" not in decorators(method):
                said = ast.get_docstring(method)
                if said:
                    out.append(entry(method.name, method, said, paragraphs, indent + "   ", index))
    return "\n".join(out) + "\n"


def page(root, module, file, paragraphs, indexed):
    """A module as a page of reStructuredText. indexed: classes of earlier pages, to which those of
    this one are added; a name of a class leads to the first page that shows it."""
    source = Module(root, f"{PACKAGE}/{file}")
    text = source.text()
    first, _, rest = text.partition("\n\n")
    job = first.split(" - ", 1)[-1]
    out = [f"{module}\n{'=' * len(module)}\n", f".. py:module:: {module}\n",
           paragraphs(job[:1].upper() + job[1:]), paragraphs(rest)]
    for name in source.names():
        found = source.find(name)
        if found and (found[1] or isinstance(found[0], ast.ClassDef)):
            again = isinstance(found[0], ast.ClassDef) and ast.dump(found[0]) in indexed
            indexed.add(ast.dump(found[0]))
            out.append(entry(name, *found, paragraphs, index=not again))
    return "\n".join(out)


def contents():
    rows = "\n".join(f"   {module} <{name}>" for name, module, _ in MODULES)
    return ("Python interface\n================\n\n"
            "Modules of the package ``weir``, with the names that scripts use. The guide is "
            ":doc:`../../user/python`.\n\n.. toctree::\n\n" + rows + "\n")
