#!/usr/bin/env python3
# generate.py - writes the lists that the code knows into the documents.
"""Usage: generate.py [BUILD] [--check] [--list]

A list stands in a document between two lines of their own:

    <!-- generated: NAME -->
    <!-- /generated -->

Everything between them is replaced. The lists come from the code: tables of the sources
(*.def and the like), public headers, and, where only a running program knows, the command weir and
the test program test_op in the folder BUILD (default: build). A list that needs a program which is
not built is left as it is and named.

--check writes nothing and prints the differences; exit status 1 if there are any. --list prints
the names. Standard library only.
"""
import argparse
import ast
import difflib
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN = re.compile(r"^<!-- generated: ([\w-]+) -->\n", re.M)
END = "<!-- /generated -->"
LISTS = {}


class NotBuilt(Exception):
    """The program that knows the list is not there."""


def listed(function):
    """Makes a function of (page, build) the source of the list with its name."""
    LISTS[function.__name__.replace("_", "-")] = function
    return function


# ---- sources ----

def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def run(build, program, *args):
    """What a built program prints."""
    path = os.path.join(build, program)
    if not os.access(path, os.X_OK):
        raise NotBuilt(program)
    done = subprocess.run([path, *args], capture_output=True, text=True)
    if done.returncode != 0:
        raise NotBuilt(f"{program} that knows '{' '.join(args)}'")
    return done.stdout


def macro_rows(text, name):
    """Arguments of each X(...) of the macro `name`, as texts; C strings without their quotes."""
    body = re.search(rf"#define {name}\(X\)((?:.*\\\n)*.*\n)", text).group(1)
    rows = []
    for row in re.findall(r"X\(((?:\"[^\"]*\"|[^()\"])*)\)", body.replace("\\\n", "\n")):
        fields = re.findall(r"\"[^\"]*\"(?:\s*\"[^\"]*\")*|[^,\"]+", row)
        rows.append([" ".join(re.findall(r'"([^"]*)"', f)) if '"' in f else f.strip()
                     for f in fields if f.strip()])
    return rows


def plain(comment):
    """The text of a C comment, without its marks."""
    lines = comment.strip()[2:-2].split("\n")
    return "\n".join(re.sub(r"^\s*\*? ?", "", line) if i else line.strip()
                     for i, line in enumerate(lines)).strip()


def head(path):
    """The first paragraph of a file's first comment, without "name.c - "."""
    text = plain(re.match(r"/\*.*?\*/", read(path), re.S).group(0))
    return " ".join(text.split("\n\n")[0].split()).split(" - ", 1)[1]


def sentence(text):
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", ")")) else text + "."


def table(titles, rows, right=()):
    line = "|".join("---:" if i in right else "---" for i in range(len(titles)))
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(["| " + " | ".join(titles) + " |", f"|{line}|"]
                     + ["| " + " | ".join(row) + " |" for row in escaped])


def code(text):
    return f"`{text}`"


def link(page, path):
    """A link from the page to a file of the tree."""
    relative = os.path.relpath(path, os.path.dirname(page) or ".")
    return f"[{os.path.basename(path)}]({relative})"


# ---- graphs and plans ----

@listed
def passes(page, build):
    text = read("src/graph/ir/pass_set.def")
    rows = macro_rows(text, "WEIR_GRAPH_PASSES") + macro_rows(text, "WEIR_PASSES")
    return table(["pass", "what it does"], [[code(name), sentence(what)] for _, name, what in rows])


@listed
def policies(page, build):
    rows = []
    for name, variants, _, offloads, paper, *sentences in macro_rows(
            read("src/graph/memory/policies/policies.def"), "WEIR_POLICIES"):
        words = [code(name)] + [code(f":{v}") for v in variants.split()]
        rows.append([" ".join(words), paper, "yes" if offloads == "true" else "",
                     " ".join(" ".join(sentences).split())])
    return table(["policy and variants", "source", "needs a link", "what it does"], rows)


RANKS = {"lifetime": "the longest live range", "size": "the largest",
         "area": "the largest product of bytes and live range",
         "start": "the earliest beginning", "end": "the latest end"}


@listed
def placements(page, build):
    folder, rows = "src/graph/placement", []
    for name, function, rank, tight, _ in macro_rows(read(f"{folder}/placements.def"),
                                                     "WEIR_PLACEMENTS"):
        if rank != "none":
            gap = "the tightest gap" if tight == "true" else "the lowest gap"
            text = f"Greedy: {RANKS[rank]} first, each into {gap} that holds it."
        elif name == "auto":
            text = ("The greedy orders and the two-ended stack; where the best of them is higher "
                    "than the largest sum of live bytes, then the exact search.")
        else:
            text = sentence(head(f"{folder}/{function}.c"))
        rows.append([code(name), text])
    return table(["placement", "what it does"], rows)


# ---- ONNX ----

@listed
def onnx_operators(page, build):
    rows = {}
    for name, since, until, known in re.findall(
            r"^(?:NODE|DRAW|BODY)\(([\w.]+), (\d+), (\d+), (\d+), \w+\)",
            read("src/model/onnx/onnx.def"), re.M):
        inputs = [str(i) for i in range(31) if int(known) >> i & 1]
        first, _, all_known = rows.get(name, (int(since), 0, []))
        rows[name] = (min(first, int(since)), int(until), all_known or inputs)
    return table(["operator", "opsets", "known inputs"],
                 [[name, f"{since} to {until}" if since else "all", ", ".join(inputs)]
                  for name, (since, until, inputs) in sorted(rows.items())])


@listed
def onnx_written(page, build):
    rows = []
    for kind, op, rest in re.findall(r"^(SAME|CALL|MOVE)\((\w+), (.*)\)$",
                                     read("src/model/onnx/write/calls.def"), re.M):
        since = re.search(r"\b(\d+)\b", rest).group(1)
        as_what = rest.split(",")[0] if kind == "SAME" else re.search('"(.*)"', rest).group(1)
        rows.append([code(op), as_what, since])
    return table(["operation", "operators", "from opset"], sorted(rows))


# ---- models and machines ----

@listed
def models(page, build):
    for name in sorted(os.listdir(os.path.join(ROOT, "src/tool"))):
        if "#define NETWORKS(X)" in read(f"src/tool/{name}"):
            text = read(f"src/tool/{name}")
    rows = []
    for name, batch, classes, channels, px, depth, form, _ in macro_rows(text, "NETWORKS"):
        if "TEXT" in form or "TREE" in form:
            shape, classes = f"({batch}, {px}) tokens", f"{classes} for each token" \
                if "TEXT" in form else classes
        else:
            shape = f"({batch}, {px})" if channels == "0" else \
                f"({batch}, {channels}, {px}, {px})"
            classes += " for each pixel" * ("PIXELS" in form)
        options = [code(o) for o, flag in (("--image", "SCALES"), ("--length", "T"),
                                           ("--depth", "DEEP"))
                   if re.search(rf"\b{flag}" + ("" if flag == "T" else r"\b"), form)]
        rows.append([code(name), shape, classes, "Adam" if "ADAM" in form else "SGD",
                     " ".join(options)])
    return table(["model", "input", "classes", "optimiser", "sizes by"], rows)


def amount(text, unit):
    value = float(text)
    for step, prefix in ((1e12, "T"), (1e9, "G")):
        if value >= step:
            return f"{value / step:g} {prefix}{unit}"
    return f"{value:g} {unit}"


@listed
def presets(page, build):
    text = read("src/device/sim/spec.c")
    values = dict(re.findall(r"#define (WEIR_FORMAT_\w+) (\S+)", read("src/device/rates.h")))
    body = re.search(r"\} presets\[\] = \{\n(.*?)\n\};", text, re.S).group(1)
    rows = []
    for comment, row in re.findall(r"(/\*.*?\*/)?\s*\{([^}]*)\},", body, re.S):
        name, flops, memory, rate, capacity = [f.strip().strip('"') for f in row.split(",")]
        about = sentence(" ".join(plain(comment).split())) if comment else \
            "The rates by which step descriptions are timed."
        rows.append([code(name), amount(values.get(flops, flops), "flop/s"),
                     amount(values.get(memory, memory), "B/s"), amount(rate, "B/s"),
                     amount(capacity, "B"), about])
    return table(["preset", "arithmetic", "memory", "link", "capacity", "machine"], rows,
                 (1, 2, 3, 4))


# ---- public headers ----

def declarations(path):
    """(family, comment, name, prototype) of each function of a public header; the comment is the
    one right above its block and those behind it."""
    family, above = "", ""
    text = re.sub(r"#define.*(?:\\\n.*)*", "", read(path))
    pattern = re.compile(r"(?P<comment>/\*.*?\*/)|(?P<blank>\n\s*\n)|"
                         r"WEIR_API\s(?P<function>[^;]*);(?P<after>[ \t]*/\*.*?\*/)?", re.S)
    for match in pattern.finditer(text):
        if match["blank"]:
            above = ""
        elif match["comment"]:
            above = plain(match["comment"])
            title = re.match(r"-{3,4} (.*?) -{3,4}", above, re.S)
            family = " ".join(title[1].split()) if title else family
        else:
            prototype = " ".join(match["function"].split())
            behind = plain(match["after"].strip()) if match["after"] else ""
            yield family, behind or above, re.search(r"(\w+)\(", prototype)[1], prototype


def facts(build):
    """{operation: (types, gradient, mixed)} as test_op finds them by calling each operation."""
    found = {}
    for name, types, gradient, mixed in re.findall(
            r"^fact ([\w]+)[^;]*; types ([\w ]+); gradient (\w+); mixed (\S+);",
            run(build, "test_op", "^facts/"), re.M):
        old = found.get(name, (set(), "no", "-"))
        found[name] = (old[0] | set(types.split()), "yes" if "yes" in (gradient, old[1]) else "no",
                       mixed if mixed != "-" else old[2])
    return found


# Public functions that the op table of the tests calls by another name.
TESTED_AS = {"norm": "norm2", "fill_int": "fill", "cross_entropy_ignore": "cross_entropy",
             "lr_step": "lr_schedule", "lr_exponential": "lr_schedule",
             "lr_cosine": "lr_schedule", "attention_with": "attention_options",
             "running_update": "accumulate"}
NO_TENSORS = {"random_advance"}         # of op.h
GROUPS = [("floats", {"f32", "f64"}), ("halves", {"f16", "bf16"}),
          ("integers", {"i32", "i64", "u8", "i8", "i16", "u16", "u32", "u64"}), ("bool", {"bool"})]


def types_in_words(types):
    words = [word for word, group in GROUPS if group <= types]
    rest = types - {t for word, group in GROUPS if word in words for t in group}
    return "all" if len(words) == len(GROUPS) else ", ".join(words + sorted(rest))


class Names:
    """Which function of the Python package stands for a C function, found in its sources."""

    def __init__(self):
        self.uses = {}              # name of a definition -> identifiers in it
        self.exported = {}          # its name -> name as users write it
        folder = os.path.join(ROOT, "python/weir/singa")
        for place, _, files in os.walk(folder):
            for file in sorted(files):
                if file.endswith(".py"):
                    self.add(os.path.relpath(os.path.join(place, file), ROOT))
        for module, prefix in (("tensor", "tensor."), ("autograd", "autograd.")):
            self.export(f"python/weir/singa/{module}.py", prefix)

    def add(self, path):
        for node in ast.parse(read(path)).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names = [node.name]
            elif isinstance(node, ast.Assign):
                names = [n.id for t in node.targets for n in ast.walk(t)
                         if isinstance(n, ast.Name)]
            else:
                continue
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} \
                | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            for name in names:
                self.uses.setdefault(name, set()).update(used - set(names))

    def export(self, path, prefix):
        for node in ast.parse(read(path)).body:
            if isinstance(node, ast.ImportFrom) and "operators" in (node.module or ""):
                names = [a.name for a in node.names]
            elif isinstance(node, ast.FunctionDef):
                names = [node.name]
            else:
                continue
            self.exported.update({n: prefix + n for n in names
                                  if n[0].islower() and n in self.uses})

    def of(self, function, functions):
        """The public Python function that calls weir_<function> and none other of `functions`, or
        has its name; "" if there is none."""
        found = []
        for name, public in self.exported.items():
            used = set(self.uses[name])
            for other in self.uses[name]:
                if other.lower().replace("_", "") == name.replace("_", ""):
                    used |= self.uses.get(other, set())
            same = name.replace("_", "") == function.replace("_", "")
            if "weir_" + function in used and (same or len(used & functions) == 1):
                found.append((not same, len(name), public))
        return code(min(found)[2]) if found else ""


@listed
def operations(page, build):
    known, names, parts, family = facts(build), Names(), [], None
    declared = list(declarations("include/weir/op.h"))
    functions = {function for _, _, function, _ in declared}
    for title, _, function, _ in declared:
        name = function[len("weir_"):]
        if title != family:
            family, rows = title, []
            parts.append((re.split(r"[;:(]| ->|, x |, broadcast|, never", title)[0], rows))
        if name in NO_TENSORS:
            continue
        types, gradient, mixed = known[TESTED_AS.get(name, name)]
        rows.append([code(function), types_in_words(types), gradient,
                     {"-": "", "half": "half", "f32": "f32"}[mixed], names.of(name, functions)])
    titles = ["function", "element types", "gradient", "mixed precision", "Python"]
    return "\n\n".join(f"### {title[:1].upper() + title[1:]}\n\n{table(titles, rows)}"
                       for title, rows in parts)


def of_model(wanted):
    rows = []
    for _, comment, name, prototype in [*declarations("include/weir/model.h"),
                                        *declarations("include/weir/layer.h")]:
        if wanted(name, prototype):
            arguments = re.search(r"\((.*)\)", prototype)[1]
            kept = [re.sub(r".*?(\w+)$", r"\1", a.strip()) for a in arguments.split(",")
                    if not re.search(r"weir_(model|device) \*", a)]
            rows.append([code(name), ", ".join(kept)])
    return rows


@listed
def layers(page, build):
    return table(["layer", "arguments after the model"],
                 of_model(lambda name, prototype: prototype.startswith("weir_layer *")
                          and name.endswith("_new")))


@listed
def optimisers(page, build):
    return table(["optimiser", "arguments after the device"],
                 of_model(lambda name, prototype: prototype.startswith("weir_optim *")))


@listed
def statuses(page, build):
    rows = macro_rows(read("include/weir/base.h"), "WEIR_STATUS_MAP")
    return table(["status", "number", "meaning"], [
        [code("WEIR_" + name), str(i), sentence(text)] for i, (name, text) in enumerate(rows)])


# ---- the command and its surroundings ----

def help_of(topic):
    """A list that weir help prints as Markdown."""
    def print_topic(page, build):
        return run(build, "weir", "help", topic, "--format", "markdown").strip()

    print_topic.__name__ = topic
    listed(print_topic)


for name in ("commands", "exit-codes", "environment", "files"):
    help_of(name)


# ---- files ----

@listed
def file_formats(page, build):
    def number(path, pattern):
        return re.search(pattern, read(path))[1]

    cache, kernels = "src/graph/memory/budget/cache.c", "src/device/cuda/codegen/kernel_file.c"
    return table(["file", "version", "another version", "source"], [
        ["plan cache (`weir_plan_options.cache`)", number(cache, r"#define VERSION (\d+)u"),
         "counts as absent; planned again and written", link(page, cache)],
        ["compiled CUDA kernels", number(kernels, r"#define VERSION (\d+)u"),
         "counts as absent; compiled again and written", link(page, kernels)],
    ])


# ---- the command weir ----

def of_tool(build, topic):
    return run(build, "weir", "help", topic, "--format", "markdown").strip()


@listed
def commands(page, build):
    return of_tool(build, "commands")


@listed
def exit_codes(page, build):
    return of_tool(build, "exit-codes")


@listed
def environment(page, build):
    return of_tool(build, "environment")


@listed
def files(page, build):
    return of_tool(build, "files")


# ---- pages ----

def pages():
    skipped = {".git", "__pycache__", "node_modules"}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in skipped
                            and not os.path.exists(os.path.join(folder, f, "CMakeCache.txt"))
                            and not f.startswith("build"))
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def filled(page, text, build, missing, say):
    """The text with its lists as the code has them now."""
    out, at = [], 0
    for match in BEGIN.finditer(text):
        name, end = match[1], text.find(END, match.end())
        if match.start() < at:
            continue                        # inside a list
        line = text.count("\n", 0, match.start()) + 1
        if name not in LISTS or end < 0:
            say(f"{page}:{line}: " + (f"no '{END}' for '{name}'" if end < 0 else
                f"unknown list '{name}' (expected {', '.join(sorted(LISTS))})"))
            continue
        out.append(text[at:match.end()])
        at = end
        try:
            out.append(f"\n{LISTS[name](page, build)}\n\n")
        except NotBuilt as e:
            missing.setdefault(str(e), []).append(f"{page}: {name}")
            out.append(text[match.end():end])
    return "".join(out) + text[at:]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[0][len("Usage: "):])
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(sorted(LISTS)))
        return 0
    missing, wrong, lists = {}, [], 0
    for page in pages():
        text = read(page)
        if not BEGIN.search(text):
            continue
        lists += len(BEGIN.findall(text))
        new = filled(page, text, os.path.abspath(options.build), missing, wrong.append)
        if new == text:
            continue
        if options.check:
            wrong.append("".join(difflib.unified_diff(
                text.splitlines(True), new.splitlines(True), page, f"{page}, generated")))
        else:
            with open(os.path.join(ROOT, page), "w", encoding="utf-8") as f:
                f.write(new)
            print(f"{page}: written")
    for program, where in missing.items():
        print(f"{os.path.join(options.build, program)} is not built: not checked: "
              + "; ".join(where))
    print("\n".join(wrong + [f"{lists} generated lists, {len(wrong)} stale or unknown"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
