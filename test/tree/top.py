# top.py - what lies at the top of the repository, how large files may be, which are no text.
import fnmatch
import re

from tree.source import Plant, Rule

TOP = {".ci", ".clang-format", ".clang-tidy", ".editorconfig", ".git-blame-ignore-revs",
       ".gitattributes", ".github", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CMakeLists.txt",
       "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "bench",
       "cmake", "docs", "examples", "include", "mkdocs.yml", "pyproject.toml", "python", "src",
       "test"}
MAX_BYTES = 256 * 1024
PACKED = re.compile(r"\.(?:whl|zip|gz|xz|bz2|tar|so|a|o|pyc|exe|dll|dylib|jar|deb)(?:\.\d+)*$")


def rule_top(tree):
    for path in tree.size:
        if path.split("/", 1)[0] not in TOP:
            yield path, 1, "is not a known entry of the top folder; move it into a folder"


def rule_large(tree):
    for path, size in tree.size.items():
        if size > MAX_BYTES:
            yield path, 1, f"{size} bytes, at most {MAX_BYTES}"


def attributes(tree):
    """[(pattern, words)] of .gitattributes."""
    lines = tree.text.get(".gitattributes", "").split("\n")
    return [(line.split()[0], line.split()[1:]) for line in lines
            if line.strip() and not line.startswith("#")]


def fits(pattern, path):
    """Does a pattern of .gitattributes name the path? With a slash from the top, else any name."""
    if "/" not in pattern:
        return fnmatch.fnmatch(path.rsplit("/", 1)[-1], pattern)
    pattern = pattern.lstrip("/")
    if pattern.endswith("/**"):
        return path.startswith(pattern[:-2])
    return fnmatch.fnmatch(path, pattern)


def rule_binary(tree):
    known = attributes(tree)
    for path in tree.size:
        if PACKED.search(path):
            yield path, 1, "a package or a product of a build is not committed"
        elif path in tree.binary and not any(fits(p, path) and "binary" in words
                                             for p, words in known):
            yield path, 1, ".gitattributes does not say that it is binary"


def rule_attributes(tree):
    """A path of .gitattributes that no file fits is left over from a move."""
    for number, line in enumerate(tree.text.get(".gitattributes", "").split("\n"), 1):
        if "/" in line.split("#")[0].split(" ")[0]:
            if not any(fits(line.split()[0], path) for path in tree.size):
                yield ".gitattributes", number, f"no file fits {line.split()[0]}"


def all_files(path):
    return True


RULES = [Rule("top", all_files, rule_top), Rule("large", all_files, rule_large),
         Rule("binary", all_files, rule_binary),
         Rule("attributes", lambda path: path == ".gitattributes", rule_attributes)]
PLANTS = [
    Plant("top", {"README.md": "", "src/core/a.c": "", "a.whl": "", "core/a.c": ""},
          {"a.whl", "core/a.c"}),
    Plant("large", {"docs/a.svg": "x" * MAX_BYTES, "docs/b.svg": "x" * (MAX_BYTES + 1)},
          {"docs/b.svg"}),
    Plant("binary", {".gitattributes": "*.bin binary\nbench/tables/** linguist-generated\n",
                     "test/a.bin": "\0", "test/b.dat": "\0", "bench/tables/c.md": "",
                     "bench/tables/d.png": "\0", "x.whl": "text"},
          {"test/b.dat", "bench/tables/d.png", "x.whl"}),
    Plant("attributes", {".gitattributes": "* text=auto\n*.svg text\ndocs/*.svg text\n",
                         "a/b.bin": ""}, {(".gitattributes", 3)}),
]
