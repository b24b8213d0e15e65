# sizes.py - how much: units in a folder, lines of a file and of a function, nesting, columns.
import ast
import os
import re

from tree.source import CODE_SUFFIXES, Plant, Rule, is_c, items, one_branch, unit_of

MAX_UNITS = 25
MAX_MANY = 45       # where each unit is one of a family: operations, kernels, policies
MANY = re.compile(r"(?:^|/)(?:ops|kernels|policies)$")
MAX_FILE = 600
MAX_SPLIT = 800     # with the reason in the second line
MAX_FUNCTION = 60
MAX_KERNEL = 100
KERNELS = ("src/device/cpu/", "src/device/cuda/")
MAX_NESTING = 4
MAX_COLUMNS = 100
ROOMS = ("include/", "src/", "examples/", "test/", "python/weir/", "bench/")
REASON = re.compile(r"\b(?:one (?:algorithm|table|format|file|state machine)|together|because|"
                    r"in one place)\b", re.I)


def is_code(path):
    return path.endswith(CODE_SUFFIXES) and path.startswith(ROOMS)


def is_c_code(path):
    return is_c(path) and path.startswith(ROOMS)


def counted(path):
    """Is the file part of a unit that counts? Tables (.def) and data do not."""
    return is_code(path) and not path.endswith((".def", "__init__.py"))


def rule_units(tree):
    folders = {}
    for path in filter(counted, tree.text):
        folders.setdefault(os.path.dirname(path), set()).add(unit_of(path))
    for folder, units in sorted(folders.items()):
        if folder.startswith(("test/device/", "test/graph/")):
            most = MAX_MANY if MANY.search(folder) or mirrors_many(tree, folder) else MAX_UNITS
        else:
            most = MAX_MANY if MANY.search(folder) else MAX_UNITS
        if len(units) > most:
            yield folder, 1, f"{len(units)} units, at most {most}"


def mirrors_many(tree, folder):
    """Does the test folder mirror one that has its kernels or operations in it?"""
    inside = {os.path.dirname(path) for path in tree.paths("src" + folder[4:] + "/")}
    return any(MANY.search(name) for name in inside)


def rule_file_length(tree):
    for path in filter(is_code, tree.text):
        text = tree.text[path]
        lines = text.count("\n")
        second = text.split("\n", 3)[1:3]
        most = MAX_SPLIT if REASON.search(" ".join(second)) else MAX_FILE
        if lines > most:
            yield path, lines, f"{lines} lines, at most {most}"


def rule_function_length(tree):
    for path in filter(is_c_code, tree.text):
        most = MAX_KERNEL if path.startswith(KERNELS) else MAX_FUNCTION
        for name, first, last in tree.functions(path):
            if last - first + 1 > most:
                yield path, first, f"{name} has {last - first + 1} lines, at most {most}"


def parsed(tree, path):
    return tree.kept(("ast", path), lambda: ast.parse(tree.text[path]))


class Body:
    """The statements of a function body as tokens, and how deep they nest. A brace of a block that
    no if, loop or switch has does not count; else if continues its if."""
    TOKEN = re.compile(r"[A-Za-z_]\w*|[{}()\[\];:,?]|\n|[^\s\w{}()\[\];:,?]+|\d[\w.]*")
    HEADED = ("if", "for", "while", "switch")

    def __init__(self, text, line):
        self.tokens = []
        for token in self.TOKEN.findall(text):
            if token == "\n":
                line += 1
            else:
                self.tokens.append((token, line))
        self.at = 0
        self.deepest = (0, line)

    def peek(self):
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def measure(self):
        self.compound(0)
        return self.deepest

    def compound(self, depth):
        self.at += 1                                # {
        while self.peek() not in ("}", ""):
            self.statement(depth)
        self.at += 1

    def parens(self):
        depth = 0
        while self.at < len(self.tokens):
            token = self.peek()
            depth += token in "([{"
            depth -= token in ")]}"
            self.at += 1
            if depth == 0:
                return

    def controlled(self, depth):
        """The statement that an if or a loop of this depth has."""
        depth += 1
        if self.at < len(self.tokens) and depth > self.deepest[0]:
            self.deepest = (depth, self.tokens[self.at][1])
        self.statement(depth)

    def statement(self, depth):
        token = self.peek()
        if token == "{":
            self.compound(depth)
        elif token in self.HEADED:
            self.at += 1
            if self.peek() == "constexpr":
                self.at += 1
            self.parens()
            self.controlled(depth)
            if token == "if":
                self.otherwise(depth)
        elif token == "do":
            self.at += 1
            self.controlled(depth)
            self.simple(depth)                      # while (...);
        elif token in ("case", "default"):
            while self.peek() not in (":", ""):
                self.at += 1
            self.at += 1
        else:
            self.simple(depth)

    def otherwise(self, depth):
        if self.peek() != "else":
            return
        self.at += 1
        if self.peek() == "if":
            self.statement(depth)
        else:
            self.controlled(depth)

    def simple(self, depth):
        """Up to a semicolon; a block right behind a macro's parentheses is a loop of the macro."""
        start = self.at
        while self.at < len(self.tokens):
            token = self.peek()
            if token == ";":
                self.at += 1
                return
            if token == "}":
                return
            if token == "(":
                self.parens()
                if self.peek() == "{" and self.at - start > 2 and self.tokens[start + 1][0] == "(":
                    self.controlled(depth)
                    return
            elif token in "[{":
                self.parens()
            else:
                self.at += 1


def nesting(code):
    """Yields (line of the deepest, depth, function) of each function in C source."""
    seen = set()
    for last in (False, True):
        branch = one_branch(code, last)
        if last and branch == one_branch(code):
            return
        for line, text, function in items(branch):
            if function and (line, text) not in seen:
                seen.add((line, text))
                start = text.index("{", text.rindex(")", 0, text.index("{")) if "{" in text else 0)
                depth, at = Body(text[start:], line + text.count("\n", 0, start)).measure()
                name = re.search(r"(\w+)\s*\(", text)
                yield at, depth, name.group(1) if name else "?"


def rule_nesting(tree):
    for path in filter(is_c_code, tree.text):
        for line, depth, name in nesting(tree.code(path)):
            if depth > MAX_NESTING:
                yield path, line, f"{name} nests {depth} deep, at most {MAX_NESTING}"


def is_page(path):
    return path.endswith(".md") and (path.startswith("docs/") or "/" not in path)


def prose(text):
    """(line number, line) of a document outside fenced blocks and tables, which may be wider."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        if not fenced and not fence and not line.lstrip().startswith("|"):
            yield number, line


def rule_columns(tree):
    for path, text in tree.text.items():
        if not is_code(path) and not is_page(path):
            continue
        for number, line in prose(text) if is_page(path) else enumerate(text.split("\n"), 1):
            if len(line) > MAX_COLUMNS:
                yield path, number, f"{len(line)} columns, at most {MAX_COLUMNS}"


RULES = [Rule("units", lambda path: False, rule_units),
         Rule("file-length", is_code, rule_file_length),
         Rule("function-length", is_c_code, rule_function_length),
         Rule("nesting", is_c_code, rule_nesting),
         Rule("columns", lambda path: is_code(path) or is_page(path), rule_columns)]


def long_function(signature, lines):
    return signature + "\n{\n" + "    x();\n" * (lines - 3) + "}\n"


DEEP = "    for (;;)\n        while (x) {\n            if (a) b();\n            else if (c)\n" \
       "                switch (d) {\n                case 1:\n                    %s\n" \
       "                }\n        }\n"
PLANTS = [
    Plant("units", {
        **{f"src/core/u{i}.c": "" for i in range(25)}, **{f"src/core/u{i}.h": "" for i in range(9)},
        "src/core/u1_isa.c": "", "src/core/t.def": "", "src/core/t.bin": "",
        **{f"src/graph/ir/u{i}.c": "" for i in range(26)},
        **{f"src/graph/ops/u{i}.c": "" for i in range(45)},
        **{f"test/graph/ops/u{i}.c": "" for i in range(46)},
    }, {"src/graph/ir", "test/graph/ops"}),
    Plant("file-length", {
        "src/core/fits.c": "/* fits.c - x. */\n" + "int x;\n" * 599,
        "src/core/big.c": "/* big.c - x. */\n" + "int x;\n" * 600,
        "src/core/one.c": "/* one.c - x.\n * One algorithm in one file. */\n" + "int x;\n" * 700,
        "src/core/huge.c": "/* huge.c - x.\n * One algorithm. */\n" + "int x;\n" * 800,
        "test/data/big.md": "x\n" * 900,
    }, {"src/core/big.c", "src/core/huge.c"}),
    Plant("function-length", {
        "src/device/cpu/kernels/k.c": long_function("void k(void)", 100),
        "src/device/cpu/kernels/k2.c": long_function("void k(void)", 101),
        "test/core/fits.c": long_function("int f(int a,\n      int b)", 59)
                            + long_function("int g(void)", 60),
        "test/core/long.c": "#define M(x) \\\n    {{{ x\n"
                            + "static const int t[] = {1, 2};\nstruct s {\n    int (*f)(void);\n"
                            + "};\n#if A\nint f(void)\n{\n#else\nint f(int x)\n{\n#endif\n"
                            + "    g();\n}\n" + long_function("__attribute__((cold)) CASE(d)", 61),
        "test/core/table.c": "const row t[] = {\n" + "    {F(1), {2}},\n" * 100 + "};\n",
    }, {"src/device/cpu/kernels/k2.c", "test/core/long.c"}),
    Plant("nesting", {
        "src/core/four.c": "int f(void)\n{\n" + DEEP % "x();" + "}\n",
        "src/core/five.c": "int f(void)\n{\n" + DEEP % "if (e) x();" + "}\n",
        "src/core/loop.c": "int f(void)\n{\n" + DEEP % "EACH(i, n) { x(); }" + "}\n",
        "src/core/else.c": "#if A\nint f(void)\n#else\nint f(int a)\n#endif\n{\n"
                           + DEEP % "do x(); while (1);" + "}\n",
        "src/core/block.c": "int f(void)\n{\n    {\n" + DEEP % "{ s t = {1, {2}}; x((u){{1}}); }"
                            + "    }\n}\nstruct s {\n    struct { struct { struct { struct { int x;"
                            "} a; } b; } c; } d;\n};\n",
    }, {("src/core/five.c", 9), ("src/core/loop.c", 9), ("src/core/else.c", 13)}),
    Plant("columns", {
        "src/core/wide.c": "// " + "x" * 98 + "\n", "src/core/fits.c": "x" * 100,
        "docs/wide.md": "# A\n\n" + "x " * 51 + "\n",
        "docs/fits.md": "```text\n" + "x" * 101 + "\n```\n\n| " + "x" * 101 + " |\n",
    }, {"src/core/wide.c", ("docs/wide.md", 3)}),
]
