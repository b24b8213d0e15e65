# elements.py - what the Python package may not do to elements: compute. A rule of check_tree.
"""Elements belong to the core. Read as Python's syntax, a module of python/weir is refused

- a round trip: a conversion to a float type inside of one to a type that may be an integer's:
  integers beyond 2^24 or 2^53 would come back as others. A value keeps what it was made by through
  local names, and through functions of the package that return it.
- a rounded quotient that is rounded to a whole number: 1.0 / 0.1 is 10, its floor is 9.
- arithmetic on elements that were read (to_numpy, numpy, read, item, what returns those): operators
  of Python and functions of NumPy other than those that copy or show; a conversion to floats.
- float(other) of the operand of an operator: the core's functions take the number as it is.

Floats may be sent as float16 and come back in the type that they had: a type from _float_type,
which refuses integers, is surely a float's.

What enters by a script or a file is no element yet, and may be computed with: initial values,
images, indices and other parameters (operators_base.host).
"""
import ast

FLOAT_TYPES = {"kFloat32", "kFloat16", "kBFloat16", "kDouble", "F32", "F64", "WEIR_F32", "WEIR_F64",
               "WEIR_F16", "WEIR_BF16", "float32", "float64", "float16", "bfloat16"}
FLOAT_CHECKS = {"_float_type"}      # functions whose result is a float type, else an exception
CONVERSIONS = {"weir_cast": 1, "cast": 1, "to": 1, "as_type": 0, "AsType": 0, "astype": 0}
QUOTIENTS = {"weir_div"}
TO_WHOLE = {"weir_floor", "weir_ceil", "weir_round", "weir_round_even"}
READS = {"to_numpy", "numpy", "read", "item"}
DOORS = {"host"}            # parameters of operators, which are a script's
COPIES = {"asarray", "asanyarray", "array", "ascontiguousarray", "array2string", "nonzero",
          "from_dlpack", "frombuffer", "zeros", "empty", "full"}
ABOUT = {"shape", "size", "dtype", "ndim", "nbytes", "itemsize", "strides", "flags"}
NUMPY_FLOATS = {"float", "float32", "float64", "double", "single"}

NO_ELEMENTS = {"weir_tensor_desc", "len", "isinstance", "range", "join", "set", "type"}

TYPES = {"type", "float type"}      # of local names: may be a float type, and surely is one
FLOAT, READ, QUOTIENT = "converted to a float", "read", "a quotient"


def name_of(node):
    """The last name of a.b.c, or of c."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


class Function(ast.NodeVisitor):
    """What the values of one function were made by, and what is refused about it."""

    def __init__(self, node, returning):
        self.returning = returning      # {function: what its result was made by}
        self.marks = {}                 # {local name: the same}
        self.found, self.returned = set(), set()
        self.operand = any(a.arg == "other" for a in ast.walk(node) if isinstance(a, ast.arg))
        for _ in range(2):              # names that a loop sets later
            for statement in node.body:
                self.visit(statement)

    # -- types --

    def is_float(self, node):
        """Is the node surely a float type?"""
        if isinstance(node, ast.IfExp):
            test = node.test
            guarded = isinstance(test, ast.Call) and name_of(test.func) == "is_float" and \
                ast.dump(test.args[0]) == ast.dump(node.body)
            return (guarded or self.is_float(node.body)) and self.is_float(node.orelse)
        if isinstance(node, ast.Call) and name_of(node.func) == "core_dtype":
            return self.is_float(node.args[0])
        if isinstance(node, ast.Call) and name_of(node.func) in FLOAT_CHECKS:
            return True
        return name_of(node) in FLOAT_TYPES or "float type" in self.marks.get(name_of(node), ())

    def may_be_float(self, node):
        """Does the node name one, by itself or through a local name?"""
        return any(name_of(n) in FLOAT_TYPES or "type" in self.marks.get(name_of(n), ())
                   for n in ast.walk(node))

    # -- values --

    def made_by(self, node):
        """What a value was made by: some of FLOAT, READ, QUOTIENT."""
        if node is None or isinstance(node, (ast.Constant, ast.Lambda, ast.JoinedStr)):
            return set()
        if isinstance(node, ast.Name):
            return set(self.marks.get(node.id, ())) - TYPES
        if isinstance(node, ast.IfExp):
            return self.made_by(node.body) | self.made_by(node.orelse)
        if isinstance(node, ast.Attribute):
            return set() if node.attr in ABOUT else self.made_by(node.value) & {READ}
        if isinstance(node, ast.Compare):
            return set()
        if isinstance(node, ast.Call):
            return self.made_by_call(node)
        return set().union(*[self.made_by(child) for child in ast.iter_child_nodes(node)])

    def made_by_call(self, node):
        name = name_of(node.func)
        inside = set().union(*[self.made_by(a) for a in node.args],
                             *[self.made_by(k.value) for k in node.keywords])
        if isinstance(node.func, ast.Attribute):
            inside |= self.made_by(node.func.value)
        if name in DOORS:
            return set()
        if name in CONVERSIONS and len(node.args) > CONVERSIONS[name]:
            target = node.args[CONVERSIONS[name]]
            return (inside - {FLOAT, QUOTIENT}) | ({FLOAT} if self.may_be_float(target) else set())
        if name in READS and isinstance(node.func, ast.Attribute) and not node.args:
            return {READ}
        if name in QUOTIENTS:
            return inside | {QUOTIENT}
        if name in NO_ELEMENTS:
            return set()
        return inside - {QUOTIENT} | self.returning.get(name, set())

    # -- statements --

    def mark(self, target, node):
        made = self.made_by(node)
        if self.is_float(node):
            made = made | TYPES
        elif self.may_be_float(node) and not isinstance(node, ast.Call):
            made = made | {"type"}
        self.add(target, made)

    def add(self, target, made):
        if isinstance(target, ast.Name):
            self.marks[target.id] = self.marks.get(target.id, set()) | made
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self.add(part, made)
        elif isinstance(target, (ast.Subscript, ast.Starred)):
            self.add(target.value, made - TYPES)

    def visit_Assign(self, node):
        for target in node.targets:
            self.mark(target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        self.arithmetic(node, [node.target, node.value])
        self.generic_visit(node)

    def visit_Return(self, node):
        self.returned |= self.made_by(node.value)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        self.arithmetic(node, [node.left, node.right])
        self.generic_visit(node)

    def arithmetic(self, node, operands):
        if any(READ in self.made_by(x) for x in operands):
            self.found.add((node.lineno, "arithmetic on elements that were read: the core's work"))

    def visit_Call(self, node):
        name = name_of(node.func)
        inside = set().union(*[self.made_by(a) for a in node.args])
        if name in CONVERSIONS and len(node.args) > CONVERSIONS[name]:
            target = node.args[CONVERSIONS[name]]
            value = node.func.value if CONVERSIONS[name] == 0 else node.args[0]
            made = self.made_by(value)
            if FLOAT in made and not self.is_float(target):
                self.found.add((node.lineno, "elements go through floats to another type and back"))
            if READ in made and name == "astype" and name_of(target) in NUMPY_FLOATS:
                self.found.add((node.lineno, "elements that were read become floats"))
        if name in TO_WHOLE and QUOTIENT in inside:
            self.found.add((node.lineno, "a rounded quotient is rounded again: weir_div_floor"))
        if name == "read" and len(node.args) == 2:          # capi.read(handle, array)
            self.add(node.args[1], {READ})
        module = node.func.value if isinstance(node.func, ast.Attribute) else None
        while isinstance(module, ast.Attribute):
            module = module.value
        if name_of(module) == "np" and name not in COPIES and READ in inside:
            self.found.add((node.lineno, f"np.{name} of elements that were read"))
        if name == "float" and self.operand and node.args and name_of(node.args[0]) == "other":
            self.found.add((node.lineno, "the operand becomes a float: integers are to stay exact"))
        self.generic_visit(node)


def functions_of(tree):
    return [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


class Elements:
    """The modules of the package, and what their functions return."""

    def __init__(self, texts):
        self.trees = {path: ast.parse(text) for path, text in texts.items()}
        self.returning = {}
        for _ in range(3):              # functions that return what others return
            found = {}
            for tree in self.trees.values():
                for node in functions_of(tree):
                    made = Function(node, self.returning).returned - TYPES - {QUOTIENT}
                    # of methods that anything may have, only private names are told apart
                    if made and node.name not in READS | DOORS | {"forward", "function", "method"}:
                        found[node.name] = found.get(node.name, set()) | made
            self.returning = found

    def violations(self, path):
        """Sorted (line, what) of a module."""
        found = set()
        for node in functions_of(self.trees[path]):
            found |= Function(node, self.returning).found
        return sorted(found)
