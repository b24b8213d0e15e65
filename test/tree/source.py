# source.py - the files of the tree as the rules read them: text, code without comments, includes.
"""A rule is a Rule: its name, which files it looks at, and run(tree), which yields (path, line,
sentence) for each violation. PLANTS of a module are its self-test: small trees with violations.
"""
import os
import re
import subprocess
from collections import namedtuple

Rule = namedtuple("Rule", "name selects run")
# rule name, {path: text}, the paths (or (path, line)) that must be reported, and no others
Plant = namedtuple("Plant", "rule files expected")

C_SUFFIXES = (".c", ".h", ".def", ".cu", ".cuh", ".cpp")
HEADER_SUFFIXES = (".h", ".cuh")
CODE_SUFFIXES = C_SUFFIXES + (".py", ".sh")
TEXT_SUFFIXES = CODE_SUFFIXES + (".md", ".txt", ".in", ".toml", ".json", ".cmake", ".i", ".map",
                                 ".proto", ".yml", ".yaml", ".tsv", ".csv")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(match):
    """A comment or literal replaced by as many lines of nothing."""
    text = match.group(0)
    if text[0] in "\"'":
        return text[0] + text[0]
    return " " + "\n" * text.count("\n")


def is_c(path):
    return path.endswith(C_SUFFIXES)


def is_header(path):
    return path.endswith(HEADER_SUFFIXES)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


class Tree:
    """The files of a repository by path: `text` of those that are text, `size` of all."""

    def __init__(self, files=None, root=None):
        self.root = root
        self.text = {}
        self.size = {}
        self.binary = set()
        self._kept = {}
        if files is None:
            self._read(root)
        else:
            for path, text in files.items():
                self.text[path] = text
                self.size[path] = len(text)
                if "\0" in text:
                    self.binary.add(path)

    def _read(self, root):
        for path in paths_of(root):
            try:
                with open(os.path.join(root, path), "rb") as f:
                    data = f.read()
            except (FileNotFoundError, IsADirectoryError):
                continue
            self.size[path] = len(data)
            try:
                if b"\0" in data[:8192]:
                    raise ValueError
                self.text[path] = data.decode("utf-8")
            except ValueError:
                self.binary.add(path)

    def kept(self, key, make):
        """What make() returned the first time."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def paths(self, under="", suffixes=None):
        return [path for path in self.text
                if path.startswith(under) and (suffixes is None or path.endswith(suffixes))]

    def code(self, path):
        """The text of a C file without comments and the insides of literals, line for line."""
        return self.kept(("code", path), lambda: TOKENS.sub(blank, self.text[path]))

    def functions(self, path):
        """[(name, first line, last line)] of the functions that a C file defines."""
        return self.kept(("functions", path), lambda: list(functions(self.code(path))))

    def includes(self, path):
        """[(line, name, file it means or None, in quotes)] of each #include."""
        return self.kept(("includes", path), lambda: list(self._includes(path)))

    def _includes(self, path):
        text = self.text[path]
        for match in INCLUDE.finditer(text):
            name = match.group(2)
            places = ["include", "src"]
            if path.startswith(("test/", "bench/")):
                places += ["test", "test/emulator"]
            if path.startswith("examples/"):
                places += ["examples"]
            if match.group(1) == '"':
                places.insert(0, os.path.dirname(path))
            found = (os.path.normpath(os.path.join(place, name)) for place in places)
            target = next((f for f in found if f in self.text), None)
            yield line_of(text, match.start(1)), name, target, match.group(1) == '"'


def git(root, *words):
    """What git prints, or None where there is no git or no repository."""
    try:
        done = subprocess.run(["git", "-C", root, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def paths_of(root):
    """The files of the repository: those of git and new ones, or all outside build folders."""
    top = git(root, "rev-parse", "--show-toplevel")
    if top and os.path.realpath(top.strip()) == os.path.realpath(root):
        listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return sorted(set(listed.split("\0")) - {""})
    found = []
    for base, dirs, names in os.walk(root):
        dirs[:] = sorted(d for d in dirs if d not in ("__pycache__", ".git")
                         and not d.startswith(("build", "dist")) and not d.endswith(".egg-info"))
        found += (os.path.relpath(os.path.join(base, name), root) for name in sorted(names))
    return found


def unit_of(path):
    """What x.c, x.h, x_isa.c, x_type.h, x.cu and x.cuh of one folder have in common."""
    folder, name = os.path.split(path)
    stem = name.rpartition(".")[0] or name
    return os.path.join(folder, re.sub(r"_(?:isa|type)$", "", stem))


def circles(edges):
    """The strongly connected components of more than one node: [sorted nodes]. Tarjan, "Depth-first
    search and linear graph algorithms", 1972; edges is {node: iterable of nodes}."""
    number, low, on, stack, found = {}, {}, set(), [], []
    for root in sorted(edges):
        if root in number:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    on.add(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on:
                    low[node] = min(low[node], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on.discard(part[-1])
                    if len(part) > 1:
                        found.append(sorted(part))
    return found


def way_round(edges, part):
    """A shortest way from the first node of a component back to it, as text."""
    start, inside = part[0], set(part)
    before, queue = {}, [start]
    for node in queue:
        for target in sorted(edges.get(node, ())):
            if target == start:
                way = [start]
                while node != start:
                    way.append(node)
                    node = before[node]
                return " -> ".join([start] + way[:0:-1] + [start])
            if target in inside and target not in before:
                before[target] = node
                queue.append(target)
    return " -> ".join(part)


def functions(code):
    """Yields (name, first line, last line) of each function defined in C source without comments.

    Braces are counted outside preprocessor lines. Both branches of an #if are read, each starting
    with the braces that were open at the #if.
    """
    open_braces = []    # per open brace: None, or (name, first line) of a function
    saved = []          # per open #if: (open_braces, head)
    head = []           # (line number, text) since the last ; or } of the file level
    continued = False
    for number, line in enumerate(code.split("\n"), 1):
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
    if re.match(r'extern\s+""$', text) or re.match(r"(?:inline\s+)?namespace\b[^=]*$", text):
        return "transparent"
    name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)\s*", "", text))
    if name and "=" not in text and text.endswith(")"):
        return name.group(1), head[0][0]
    return None


def one_branch(code, last=False):
    """C source without preprocessor lines, with the first (or last) branch of each #if alone."""
    out, open_ifs, continued = [], [], False    # per open #if: (is this branch read, lines so far)
    for line in code.split("\n"):
        directive = line.lstrip().startswith("#")
        if directive or continued:
            continued = line.rstrip().endswith("\\")
            word = re.match(r"\s*#\s*(\w*)", line).group(1) if directive else ""
            if word in ("if", "ifdef", "ifndef"):
                open_ifs.append([True, len(out)])
            elif word in ("else", "elif") and open_ifs:
                if last:
                    at = open_ifs[-1][1]
                    out[at:] = [""] * (len(out) - at)
                else:
                    open_ifs[-1][0] = False
            elif word == "endif" and open_ifs:
                open_ifs.pop()
            out.append("")
        else:
            out.append(line if all(read for read, _ in open_ifs) else "")
    return "\n".join(out)


def items(code):
    """Yields (line, text, is a function) of each declaration and definition at file level of C
    source from one_branch()."""
    depth = level = 0           # open braces; those of extern "C" and namespaces
    parens = 0
    start = 0
    function = False
    for match in re.finditer(r"[{}();]", code):
        mark, at = match.group(0), match.start()
        if mark in "()":
            parens += 1 if mark == "(" else -1
        elif parens > 0:
            continue
        elif mark == "{":
            if depth == level:
                what = opened([(0, code[start:at])])
                if what == "transparent":
                    level += 1
                    start = at + 1
                function = isinstance(what, tuple)
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth < level:
                level, start = depth, at + 1
            elif depth == level and function:
                yield item(code, start, at + 1, True)
                start, function = at + 1, False
        elif depth == level:
            yield item(code, start, at + 1, False)
            start = at + 1


def item(code, start, end, function):
    text = code[start:end]
    skipped = len(text) - len(text.lstrip())
    return line_of(code, start + skipped), text.strip(), function
