# documents.py - README's length, links that lead somewhere.
import os
import re

from tree.source import Plant, Rule

MAX_README = 200
MAX_DECISION = 80
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?[^)]*\)"
                  r"|^\[[^\]]+\]:\s*(\S+)", re.M)
CODE = re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]*`", re.S)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.M)
ADDRESS = re.compile(r"https://[\w-]+(\.[\w-]+)+(:\d+)?(/[\w.~%!$&'*+,;=:@/-]*)?(\?[\w.%&=+-]+)?"
                     r"(#[\w.%/-]+)?|mailto:[\w.+-]+@[\w-]+(\.[\w-]+)+")
EXPLICIT = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"|\{#([\w-]+)\}")


def is_document(path):
    return path.endswith(".md") and (path.startswith(("docs/", "bench/", "examples/", "test/"))
                                     or "/" not in path)


def rule_length(tree):
    for path, most in [("README.md", MAX_README)] + [
            (path, MAX_DECISION) for path in tree.paths("docs/internals/decisions/", (".md",))]:
        lines = tree.text.get(path, "").count("\n")
        if lines > most:
            yield path, lines, f"{lines} lines, at most {most}"


def anchors(text):
    """The anchors of a page: its headings as GitHub and MkDocs name them, and explicit ones."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    found, times = set(), {}
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        n = times.get(slug, 0)
        times[slug] = n + 1
        found.update({slug, re.sub(r"-+", "-", slug)} if n == 0 else {f"{slug}-{n}", f"{slug}_{n}"})
    return found | {name for pair in EXPLICIT.findall(text) for name in pair if name}


def rule_links(tree):
    folders = {os.path.dirname(path) for path in tree.size}
    folders |= {"/".join(f.split("/")[:i]) for f in folders for i in range(1, f.count("/") + 1)}
    for path in filter(is_document, tree.text):
        text = CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), tree.text[path])
        for match in LINK.finditer(text):
            target = match.group(1) or match.group(2)
            line = text.count("\n", 0, match.start()) + 1
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                if not ADDRESS.fullmatch(target):
                    yield path, line, f"{target} is no address (expected https:// or mailto:)"
                continue
            name, _, anchor = target.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if to not in tree.size and to not in folders:
                yield path, line, f"the link {target} leads nowhere"
            elif anchor and to.endswith(".md") and anchor not in anchors(tree.text[to]):
                yield path, line, f"{to} has no heading #{anchor}"


RULES = [Rule("readme-length", lambda path: path == "README.md", rule_length),
         Rule("links", is_document, rule_links)]
PLANTS = [
    Plant("readme-length", {"README.md": "\n" * 201, "docs/a.md": "\n" * 900,
                            "docs/internals/decisions/0001-a.md": "\n" * 81},
          {"README.md", "docs/internals/decisions/0001-a.md"}),
    Plant("links", {
        "README.md": "# A `b` thing, twice\n[x](docs/a.md) [y](docs/) [z](https://a.b/c)\n"
                     "[w](#a-b-thing-twice) `[v](none.md)`\n```\n[u](none.md)\n```\n",
        "docs/a.md": "[x](../README.md#none)\n[y](b.md)\n\n[z]: ../LICENSE\n", "LICENSE": "",
        "docs/c.md": "[![x](../README.md)](c.md#n)\n# N\n",
        "docs/d.md": "[x](http://a.b)\n[y](https://a)\n[z](mailto:a@b.c) [](https://a.b/c?d=e#f)\n",
    }, {("docs/a.md", 1), ("docs/a.md", 2), ("docs/d.md", 1), ("docs/d.md", 2)}),
]
