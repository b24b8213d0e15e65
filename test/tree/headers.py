# headers.py - what a header may declare, types defined once, base names used once.
import os
import re

from tree.source import Plant, Rule, is_c, is_header, items, one_branch, unit_of

# The one interface that is declared below and defined above, by design: gradients are recorded
# operations. test/check_link.py allows these names alone, too.
DEFINED_ABOVE = re.compile(r"weir_record(?:_\w+|1)?$")
NAMED_C = re.compile(r"\b(\w+)\.(?:c|cu)\b")
WORDS_BEFORE = re.compile(r"__attribute__\s*\(\(.*?\)\)|__declspec\s*\([^)]*\)|__launch_bounds__"
                          r"\s*\([^)]*\)|WEIR_PRINTF\s*\([^)]*\)", re.S)
PROTOTYPE = re.compile(r"^(?!typedef\b|struct\s+\w+\s*\{|static\b|return\b)[\w\s*]*?\b(\w+)\s*"
                       r"\((?!\s*\*)")
EXTERN = re.compile(r"^extern\s+[^()]*?\b(\w+)\s*(?:\[[^;]*)?;$")
DEFINED_DATA = re.compile(r"^(?!extern\b|typedef\b|static\b)(?:[\w*]+\s+)+\**(\w+)\s*"
                          r"(?:\[[^=;]*)?(?:=|;)")
TYPE_BODY = re.compile(r"\b(struct|union|enum)\s+(\w+)\s*(?::\s*\w+\s*)?\{")
TYPEDEF_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*;$")
TYPEDEF_POINTER = re.compile(r"^typedef\s[^{(]*\(\s*\*\s*(\w+)\s*\)\s*\(")
TYPEDEF_FUNCTION = re.compile(r"^typedef\s[^{(]*?\b(\w+)\s*\([^()]*\)\s*;$")


def is_own_header(path):
    return is_header(path) and path.startswith("src/")


def parts(tree, path):
    """[(line, text, is a function)] of a C file, both branches of its #ifs."""
    def read():
        found = []
        for last in (False, True):
            found += [item for item in items(one_branch(tree.code(path), last))
                      if item not in found]
        return found
    return tree.kept(("parts", path), read)


def declared(tree, path):
    """Yields (line, name) of each function or object that a header declares without defining it."""
    for line, text, function in parts(tree, path):
        if function or "{" in text:
            continue
        text = WORDS_BEFORE.sub(" ", text).strip()
        match = EXTERN.match(text) or PROTOTYPE.match(text.removeprefix("extern").strip())
        if match and "=" not in text.split("(")[0]:
            yield line, match.group(1)


def defined_in(tree, path):
    """The functions and objects with a name outside that a C file defines."""
    names = {name for name, _, _ in tree.functions(path)}
    for _, text, function in parts(tree, path):
        match = None if function else DEFINED_DATA.match(WORDS_BEFORE.sub(" ", text))
        if match and "(" not in text.split("=")[0]:
            names.add(match.group(1))
    return names


def definers(tree):
    """{name: {paths that define it}} over src."""
    def read():
        found = {}
        for path in tree.paths("src/", (".c", ".cu", ".cpp")):
            for name in defined_in(tree, path):
                found.setdefault(name, set()).add(path)
        return found
    return tree.kept("definers", read)


def serves(tree, path):
    """The units of its folder that a private header names below its job: in the second line, or
    where its first sentence ends; the names may run over."""
    names, lines = set(), tree.text[path].split("\n")
    for line in lines[:6]:
        found = NAMED_C.findall(line)
        if names and not found or not line.startswith(("/*", " *")):
            break
        names.update(found)
    return {unit_of(os.path.join(os.path.dirname(path), name + ".c")) for name in names}


def rule_declares(tree):
    where = definers(tree)
    for path in filter(is_own_header, tree.text):
        units = {unit_of(path)} | serves(tree, path)
        for line, name in declared(tree, path):
            found = {p for p in where.get(name, ())}
            if found and not any(unit_of(p) in units for p in found) \
                    and not DEFINED_ABOVE.match(name):
                yield path, line, f"declares {name}, which {sorted(found)[0]} defines"


def types(tree, path):
    """Yields (line, name) of each type that a file defines at file level: tags with a body,
    typedefs."""
    for line, text, function in parts(tree, path):
        if function:
            continue
        body = TYPE_BODY.search(text.split("=")[0]) if "{" in text else None
        named = set()
        if body and not re.match(r"static\b|const\b", text):
            named.add(body.group(2))
        if text.startswith("typedef"):
            match = TYPEDEF_POINTER.search(text) or TYPEDEF_FUNCTION.search(text) \
                or TYPEDEF_NAME.search(text)
            name = match and match.group(1)
            forward = rf"typedef\s+(?:struct|union|enum)\s+{name}\s+{name}\s*;"
            if name and not re.match(forward, text):
                named.add(name)
        for name in named:
            yield line, name


def of_plugin(path):
    return path.startswith("src/device/cuda/")


def rule_types(tree):
    """The headers of include and src, and what any file of src defines once more."""
    homes, others = {}, {}
    for path in tree.paths(("include/", "src/")):
        if is_c(path):
            for line, name in types(tree, path):
                (homes if is_header(path) else others).setdefault(name, []).append((path, line))
    for name, places in sorted(homes.items()):
        first = places[0][0]
        for path, line in places[1:] + others.get(name, []):
            if path != first:
                yield path, line, f"type {name} is defined in {first}, too"


ONCE = (("src/graph/", ("src/graph/ops/",)),
        ("src/device/", ("src/device/cpu/", "src/device/cuda/", "src/device/sim/")))


def rule_base_names(tree):
    for under, but in ONCE:
        homes = {}
        for path in tree.paths(under):
            if is_c(path) and not path.startswith(but):
                homes.setdefault(os.path.basename(unit_of(path)), {}).setdefault(
                    unit_of(path), path)
        for name, units in sorted(homes.items()):
            first = sorted(units)[0]
            for unit in sorted(units)[1:]:
                yield units[unit], 1, f"the name {name} is taken by {units[first]}"


def rule_guard(tree):
    taken = {}
    for path in filter(is_guarded, tree.text):
        match = re.search(r"^#ifndef (\w+)\n#define (\w+)$", tree.text[path], re.M)
        if match and match.group(1) == match.group(2):
            other = taken.setdefault(match.group(1), path)
            if other != path:
                yield path, 1, f"the include guard {match.group(1)} is that of {other}"


def is_guarded(path):
    return is_header(path) and path.startswith(("src/", "include/"))


RULES = [Rule("declares", is_own_header, rule_declares),
         Rule("types", lambda path: is_c(path) and path.startswith(("include/", "src/")),
              rule_types),
         Rule("base-name", lambda path: is_c(path) and path.startswith(tuple(u for u, _ in ONCE)),
              rule_base_names),
         Rule("guard", is_guarded, rule_guard)]

PLANTS = [
    Plant("declares", {
        "src/core/a.h": "extern \"C\" {\nint f(int x);\nint g(void);\nextern const row t[];\n}\n"
                        "static inline int i(void)\n{\n    return 1;\n}\n"
                        "struct v {\n    int (*h)(void);\n};\n#define X(n) int h(n);\nREG(X)\n"
                        "typedef int (*h)(void);\nint made(void);\n",
        "src/core/a.c": "int f(int x)\n{\n}\nconst row t[] = {{1}};\n",
        "src/core/a_isa.c": "int g(void)\n{\n}\n",
        "src/core/b.c": "int h(void)\n{\n}\nint u[2];\n",
        "src/core/bad.h": "const char *h(void);\n",
        "src/core/data.h": "extern int u[2];\n",
        "src/core/split.h": "/* split.h - x.\n * What b.c shows a.c. */\nint h(void);\n"
                            "int f(int);\n",
    }, {("src/core/bad.h", 1), ("src/core/data.h", 1)}),
    Plant("types", {
        "src/core/a.h": "typedef struct a {\n    int x;\n} a;\nenum color { RED };\n"
                        "typedef struct fwd fwd;\ntypedef int (*call)(int);\n",
        "src/core/b.h": "typedef struct fwd fwd;\nenum color { BLUE };\nstruct a *p(struct a *);\n",
        "src/core/c.c": "struct fwd {\n    int x;\n};\ntypedef void (*call)(void);\n",
        "src/core/d.c": "static struct { struct a a; } x = {0};\nstruct a f(void)\n{\n}\n",
    }, {("src/core/b.h", 2), ("src/core/c.c", 4)}),
    Plant("base-name", {
        "src/graph/ir/conv.c": "", "src/graph/ops/conv.c": "", "src/graph/report/dump.c": "",
        "src/graph/report/dump.h": "", "src/graph/memory/problem/dump.h": "",
        "src/device/cpu/kernels/pool.c": "", "src/device/memory/pool.c": "",
        "src/device/common/pool.h": "",
    }, {"src/graph/report/dump.c", "src/device/memory/pool.c"}),
    Plant("guard", {
        "src/core/a.h": "#ifndef WEIR_CORE_A_H\n#define WEIR_CORE_A_H\n#endif\n",
        "include/weir/b.h": "#ifndef WEIR_B_H\n#define WEIR_B_H\n#endif\n",
        "src/core/b.h": "#ifndef WEIR_B_H\n#define WEIR_B_H\n#endif\n",
        "src/core/none.h": "/* read several times */\n#ifndef X\n#endif\n",
    }, {"src/core/b.h"}),
]
