# words.py - words: old ones in identifiers, the glossary's, phrases of comments and messages.
"""The lists stand in words.txt and phrases.txt beside this file."""
import io
import os
import re
import tokenize

from tree.source import TOKENS, Plant, Rule, is_c
from tree.sizes import ROOMS

HERE = os.path.dirname(os.path.abspath(__file__))
IDENTIFIER = re.compile(r"(?<![\w.])[A-Za-z_]\w*|(?<=\.)[A-Za-z_]\w*")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
OWN = "test/tree/"
GLOSSARY = "docs/internals/glossary.md"
TERMS = "src/graph/memory/"


def lines_of(name, columns):
    """The lines of a list: fields separated by |, comments and empty lines left out."""
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                fields = [field.strip() for field in line.rstrip("\n").split(" | ")]
                yield fields + [""] * (columns - len(fields))


def old_words():
    """[(word, path prefixes, what to write, pattern of identifiers that may keep it)]"""
    return [(word, tuple(where.split()) if where != "*" else ("",), instead,
             re.compile(f"(?:{but})$") if but else None)
            for word, where, instead, but in lines_of("words.txt", 4)]


def old_phrases():
    """[(pattern, what to write)]"""
    return [(re.compile(pattern.replace(" ", r"\s+"), re.I), instead)
            for pattern, instead in lines_of("phrases.txt", 2)]


def has_identifiers(path):
    return path.startswith(ROOMS) and not path.startswith(OWN) and (is_c(path) or is_python(path))


def is_python(path):
    return path.endswith(".py") and not path.startswith("python/weir/singa/")


def identifiers(tree, path):
    """{identifier: its first line}"""
    found = {}
    if path.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(tree.text[path]).readline):
            if token.type == tokenize.NAME:
                found.setdefault(token.string, token.start[0])
        return found
    for number, line in enumerate(tree.code(path).split("\n"), 1):
        if not line.lstrip().startswith("#include"):
            for name in IDENTIFIER.findall(line):
                found.setdefault(name, number)
    return found


def parts_of(identifier):
    """The words of an identifier: split at _ and inside of CamelCase, without an ending s."""
    words = CAMEL.sub("_", identifier).lower().split("_") if not identifier.isupper() \
        else identifier.lower().split("_")
    return {word for word in words if word} | {word[:-1] for word in words if word.endswith("s")}


def rule_words(tree):
    words = old_words()
    for path in filter(has_identifiers, tree.text):
        here = {word: (instead, but) for word, where, instead, but in words
                if path.startswith(where)}
        found = {}
        for name, line in identifiers(tree, path).items():
            for part in parts_of(name):
                if part in here and not (here[part][1] and here[part][1].match(name)):
                    found.setdefault(part, []).append((line, name))
        for part, names in sorted(found.items()):
            names.sort()
            more = "".join(f", {name}:{line}" for line, name in names[1:6])
            more += f" and {len(names) - 6} more" if len(names) > 6 else ""
            yield path, names[0][0], f'the word "{part}" in {names[0][1]}{more}: ' \
                                     f'write {here[part][0]}'


def is_prose(path):
    return (path.endswith(".md") or path.startswith(ROOMS) and not path.startswith(OWN)) \
        and path.endswith((".md", ".py", ".sh", ".c", ".h", ".cu", ".cuh", ".cpp", ".def"))


def prose(tree, path):
    """Comments and literals of a C file in their places, or all of another file; the marks that
    begin the lines of a comment are blanks."""
    text = tree.text[path]
    if is_c(path):
        out, at = [], 0
        for match in TOKENS.finditer(text):
            out.append(re.sub(r"[^\n]", ".", text[at:match.start()]))
            out.append(match.group(0))
            at = match.end()
        out.append(re.sub(r"[^\n]", ".", text[at:]))
        text = re.sub(r"(?m)^\.*(?:/\*| ?\*+(?!/)|//)", lambda m: " " * len(m.group(0)),
                      "".join(out))
        return re.sub(r'"(\s*)"|(?<=[^.\n])"\.*\n\.*"', lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                      text)
    return re.sub(r"(?m)^([ \t]*)(?:#|>)", r"\1 ", text)


def rule_phrases(tree):
    phrases = old_phrases()
    any_of = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in phrases), re.I)
    for path in filter(is_prose, tree.text):
        text = prose(tree, path)
        if not any_of.search(text):
            continue
        for pattern, instead in phrases:
            for match in pattern.finditer(text):
                said = " ".join(match.group(0).split())
                yield path, text.count("\n", 0, match.start()) + 1, f'"{said}": write {instead}'


def planner_terms(tree):
    """{type name without its weir_: (path, line)} of the planner's headers."""
    from tree.headers import types
    found = {}
    for path in tree.paths(TERMS, (".h",)):
        for line, name in types(tree, path):
            if name.startswith("weir_"):
                found.setdefault(name.removeprefix("weir_"), (path, line))
    return found


def rule_glossary(tree):
    glossary = tree.text.get(GLOSSARY, "").lower()
    for name, (path, line) in sorted(planner_terms(tree).items()):
        spelled = {name, name.replace("_", " "), "weir_" + name, name.removeprefix("mem_")}
        if not any(re.search(rf"(?<![\w]){re.escape(s)}s?(?!\w)", glossary) for s in spelled):
            yield path, line, f"{name.replace('_', ' ')} is no term of {GLOSSARY}"


RULES = [Rule("words", has_identifiers, rule_words), Rule("phrases", is_prose, rule_phrases),
         Rule("glossary", lambda path: path.startswith(TERMS) and path.endswith(".h"),
              rule_glossary)]
PLANTS = [
    Plant("words", {
        "src/core/a.c": "int weir_anew(void);\n",
        "src/core/b.c": "/* anew */ char *s = \"anew\";\n",
        "src/core/c.h": "#define ANEWS 1\n", "src/core/d.c": "int renewed, canewly;\n",
        "python/weir/e.py": "def makeAnew():\n    'anew'\n", "test/tree/words.py": "anew = 1\n",
        "src/core/f.c": '#include "core/anew.h"\n',
    }, {"src/core/a.c", "src/core/c.h", "python/weir/e.py"}),
    Plant("phrases", {
        "src/core/a.c": "/* a.c - x. There is\n * none, made\n * anew. */\nint x;\n",
        "src/core/b.c": "int is, none, somebody;\n", "README.md": "Whoever reads this.\n",
        "src/core/c.c": 'say("for "\n    "so many bytes");\n', "docs/a.md": "renewed, one reads\n",
        "python/weir/d.py": "# made\n#  anew\n",
    }, {("src/core/a.c", 1), ("src/core/a.c", 3), "README.md", "src/core/c.c", "python/weir/d.py"}),
    Plant("glossary", {
        GLOSSARY: "**memory operation** (`mem_op`): one. A live range is.\n",
        "src/graph/memory/problem/a.h": "typedef struct weir_mem_op {\n    int x;\n} weir_mem_op;\n"
                                        "typedef struct weir_live_range {\n    int x;\n} "
                                        "weir_live_range;\n",
        "src/graph/memory/problem/b.h": "typedef struct weir_mem_gap {\n    int x;\n} "
                                        "weir_mem_gap;\n",
    }, {"src/graph/memory/problem/b.h"}),
]
