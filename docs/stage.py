#!/usr/bin/env python3
# stage.py - makes the pages that Sphinx reads: docs/, other documents, headers, linked sources.
"""Usage: stage.py FOLDER

FOLDER is emptied and gets:

- the pages under docs/, where they are: docs/user/budgets.md becomes user/budgets.md;
- one page for each public header, reference/headers/NAME.rst, as public_headers.py reads it, and
  for each module of the Python package, reference/python/NAME.rst, as python_pages.py does;
- the documents beside docs/ that pages link to (project/, tables/), and the sources that they link
  to, as text (files/);
- the table of contents: the lists of links in docs/index.md, a heading each;
- names.json: where each name of the C interface is described.

Links between pages are rewritten; a link that leads nowhere is an error. Standard library only.
"""
import json
import os
import re
import shutil
import subprocess
import sys

import public_headers
import python_pages

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LINK = re.compile(r"(?P<before>\]\(\s*)(?P<target>[^)\s]+)(?P<after>[^)]*\))"
                  r"|(?P<name>^\[[^\]]+\]:\s*)(?P<to>\S+)", re.M)
FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)\s*$|`[^`\n]*`)", re.S | re.M)
LANGUAGES = {".c": "c", ".h": "c", ".def": "c", ".cu": "c", ".cuh": "c", ".py": "python",
             ".sh": "sh", ".cmake": "cmake", ".json": "json", ".toml": "toml", ".md": "text"}
TOPIC = re.compile(r"((?:Ownership|Errors|Threads|Element types|Type promotion|"
                   r"NaN, infinities, zeros)[.:]) ")            # what a paragraph begins with
PICTURES = (".svg", ".png", ".jpg")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def write(folder, path, text):
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def place_of(path):
    """Where a file of the tree is on the site."""
    if re.fullmatch(r"include/weir/\w+\.h", path):
        return f"reference/headers/{os.path.basename(path)[:-2]}.rst"
    if path.startswith("docs/") and path.endswith((".md",) + PICTURES):
        return path[len("docs/"):]
    if path.endswith(".md"):
        return ("project/" if "/" not in path else "") + path
    if path.endswith(PICTURES):
        return path
    return f"files/{path}.md"


def files_of_tree():
    """Paths of the tree's files: git's, or all where there is no repository."""
    git = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                         cwd=ROOT, text=True, capture_output=True)
    if git.returncode == 0:
        return {p for p in git.stdout.split("\n") if os.path.isfile(os.path.join(ROOT, p))}
    found = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith((".", "build", "__pycache__"))]
        found |= {os.path.relpath(os.path.join(folder, f), ROOT) for f in files}
    return found


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.wanted, self.done, self.wrong = [], set(), []
        self.tracked = files_of_tree()

    def add(self, path):
        """Asks for the page of a file or folder; returns its place."""
        place = place_of(path) if path in self.tracked else f"files/{path}/index.md"
        if path not in self.done:
            self.done.add(path)
            self.wanted.append((path, place))
        return place

    def relinked(self, path, place, text):
        """The text of a document with its links as they are on the site."""
        def replace(match):
            target = match["target"] or match["to"]
            name, _, anchor = target.partition("#")
            if re.match(r"[a-z][a-z0-9+.-]*:", target) or not name:
                return match[0]
            to = os.path.normpath(os.path.join(os.path.dirname(path), name))
            if to not in self.tracked and not any(t.startswith(to + "/") for t in self.tracked):
                self.wrong.append(f"{path}: the link {target} leads nowhere")
                return "](index.md)" if match["target"] else match[0]
            new = os.path.relpath(self.add(to), os.path.dirname(place) or ".")
            new += "#" + anchor if anchor else ""
            return match["before"] + new + match["after"] if match["target"] \
                else match["name"] + new

        parts = FENCE.split(text)
        parts[::2] = [re.sub(r"^<!--.*?-->\n", "", LINK.sub(replace, part), flags=re.S | re.M)
                      for part in parts[::2]]
        return "".join(parts)

    def write_all(self):
        while self.wanted:
            path, place = self.wanted.pop()
            if path.endswith(PICTURES):
                os.makedirs(os.path.dirname(os.path.join(self.folder, place)), exist_ok=True)
                shutil.copy(os.path.join(ROOT, path), os.path.join(self.folder, place))
            elif path not in self.tracked:
                write(self.folder, place, self.folder_page(path))
            elif place.endswith(".rst"):
                write(self.folder, place, header_page(public_headers.read(read(path))))
            elif path.endswith(".md"):
                text = self.relinked(path, place, read(path))
                write(self.folder, place, text if path.startswith("docs/")
                      else "---\norphan: true\n---\n" + text)
            else:
                write(self.folder, place, source_page(path, read(path)))

    def folder_page(self, path):
        """The files of a folder, with the first line of each."""
        rows = []
        for file in sorted(f for f in self.tracked if os.path.dirname(f) == path):
            job = "" if file.endswith(PICTURES) else job_of(read(file))
            rows.append(f"- `{os.path.basename(file)}`" + (f": {job}" if job else ""))
        rows += [f"- `{name}/`" for name in sorted({f[len(path) + 1:].split("/")[0]
                 for f in self.tracked if f.startswith(path + "/")
                 and "/" in f[len(path) + 1:]})]
        return f"---\norphan: true\n---\n# `{path}/`\n\n" + "\n".join(rows) + "\n"


def job_of(text):
    match = re.match(r"(?:/\*|#!.*\n#|#|\"\"\"|<!--)\s*[\w.+-]+ - (.*?)"
                     r"(?:\*/|\n\s*\*?#?\s*\n|\"\"\"|$)", text, re.S)
    return re.sub(r"([\\`*_<\[])", r"\\\1", " ".join(re.sub(r"\n\s*[*#]", "\n", match[1]).split())
                  .split(". ")[0]) if match else ""


def source_page(path, text):
    fence = "`" * 4
    language = LANGUAGES.get(os.path.splitext(path)[1], "text")
    return f"---\norphan: true\n---\n# `{path}`\n\n{fence}{language}\n{text}\n{fence}\n"


# ---- the table of contents ----

def with_contents(text, title_option):
    """A page with a hidden table of contents for each list of links under a heading."""
    out = []
    for part in re.split(r"(?m)^(?=## )", text):
        title = re.match(r"## (.*)", part)
        pages = re.findall(r"^- \[([^\]]+)\]\(([\w./-]+\.(?:md|rst))\)", part, re.M)
        if title and pages:
            rows = "\n".join(f"{name} <{page}>" for name, page in pages)
            part += (f"\n```{{toctree}}\n:hidden:\n:{title_option}: {title[1]}\n\n{rows}\n"
                     "```\n\n")
        out.append(part)
    return "".join(out)


# ---- headers ----

def escaped(text):
    """Plain text of a comment as reStructuredText; names and `code` become inline code."""
    pattern = re.compile(r"`([^`\n]+)`|(?<![\w$])(weir_\w+|WEIR_\w+|ERR_\w+)(?!\w)|"
                         r"\$(WEIR_\w+|TMPDIR)")
    out, at = [], 0
    for match in pattern.finditer(text):
        out.append(re.sub(r"([\\*_`|<>])", r"\\\1", text[at:match.start()]))
        code = match[1] or match[2] or "$" + match[3]
        code = "WEIR_" + code if code.startswith("ERR_") else code
        before = text[match.start() - 1:match.start()]
        after = text[match.end():match.end() + 1]
        out.append(("\\ " if before.strip() and before not in "([{" else "") + f"``{code}``"
                   + ("\\ " if after.strip() and after not in ".,:;!?'\")]}-/" else ""))
        at = match.end()
    out.append(re.sub(r"([\\*_`|<>])", r"\\\1", text[at:]))
    return "".join(out)


def paragraphs(text, indent=""):
    """The paragraphs of a comment; indented ones stay as they are written."""
    out = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        if part.startswith("    "):
            body = "\n".join(indent + "    " + line[4:] for line in part.split("\n"))
            out.append(f"{indent}.. code-block:: text\n\n{body}\n")
        elif part.strip():
            text = " ".join(part.split())
            topic = TOPIC.match(text)
            text = f"**{topic[1]}** " + escaped(text[topic.end():]) if topic else escaped(text)
            out.append(indent + text + "\n")
    return "\n".join(out)


def heading(text, mark):
    text = escaped(text)
    return f"{text}\n{mark * max(4, len(text))}\n\n"


def fields_of(item):
    """Fields of a struct or an enum; those of weir_status are a list of their own."""
    if item.name != "weir_status":
        return item.fields()
    rows = re.findall(r'X\((\w+), "([^"]*)"\)', read("include/weir/base.h"))
    return [("WEIR_" + name, text + ".", 0) for name, text in rows]


def members(item, indent):
    out = []
    for declaration, comment, _ in fields_of(item):
        if item.kind == "enum":
            out.append(f"{indent}.. c:enumerator:: {declaration.split('=')[0].strip()}\n")
        else:
            first, *others = re.split(r",\s*(?![^(]*\))", declaration)
            kind = re.match(r"(.*?[\s*])\**\w+(?:\[.*)?$", first)
            kind = re.sub(r"[\s*]*$", "", kind[1]) + " " if kind and others else ""
            rows = [first] + [kind + other for other in others]
            out.append(f"{indent}.. c:member:: " + f"\n{indent}   ".join(rows) + "\n")
        if comment:
            out.append(paragraphs(sentence(comment), indent + "   "))
    return "\n".join(out)


def sentence(text):
    return text[:1].upper() + text[1:] if re.match(r"(a|[a-z][a-z-]+)(, | [a-z(])", text) else text


def directive(items, text):
    item = items[0]
    if item.kind == "macro":
        names = [re.match(r"#define\s+(\w+(?:\([^)]*\))?)", i.code)[1] for i in items]
        head = ".. c:macro:: " + "\n   ".join(names)
    elif item.kind in ("struct", "enum"):
        head = f".. c:{item.kind}:: {item.name}"
    elif item.kind == "type":
        code = re.sub(r"^typedef\s+", "", item.prototype())
        head = ".. c:type:: " + (item.name if code.startswith("struct") else code)
    else:
        head = ".. c:function:: " + "\n   ".join(i.prototype() for i in items)
    body = [head, "", paragraphs(text, "   ")]
    if item.kind in ("struct", "enum"):
        body.append(members(item, "   "))
    return "\n".join(body) + "\n\n"


def group_text(group):
    """Functions under one comment are one entry, unless some have comments of their own."""
    out, shared = [], []
    items = [i for i in group.items if i.name not in ("WEIR_API", "WEIR_STATUS_MAP")]
    if not items:
        return ""
    alike = len({i.kind for i in items}) == 1 and items[0].kind in ("function", "macro")
    if alike and not any(i.behind for i in items):
        return directive(items, group.comment)
    if len(items) == 1:
        return directive(items, f"{group.comment}\n\n{sentence(items[0].behind)}")
    if group.comment:
        out.append(paragraphs(group.comment) + "\n")
    for item in items + [None]:
        if shared and (item is None or item.behind or item.kind != shared[0].kind):
            out.append(directive(shared, ""))
            shared = []
        if item and (item.behind or item.kind not in ("function", "macro")):
            out.append(directive([item], sentence(item.behind)))
        elif item:
            shared.append(item)
    return "".join(out)


def header_page(header):
    out = [heading(f"weir/{header.name}", "="), escaped(sentence(header.job)) + "\n\n",
           ".. code-block:: c\n\n   #include <weir.h>\n\n", paragraphs(header.text) + "\n"]
    for section in header.sections:
        if section.title:
            title, _, rest = re.sub("[:;] ", "\n", section.title, count=1).partition("\n")
            out.append(heading(title[:1].upper() + title[1:], "-"))
            out.append(escaped(sentence(rest)) + ".\n\n" if rest else "")
        out.append(paragraphs(section.text) + "\n\n" if section.text else "")
        for part in section.parts:
            out.append(paragraphs(part) + "\n\n" if isinstance(part, str) else group_text(part))
    return "".join(out)


def names_of(headers):
    """{C name: [page, anchor]}."""
    found = {}
    for path, header in headers:
        page = place_of(path)[:-len(".rst")]
        for item in header.items():
            if item.name not in ("WEIR_API", "WEIR_STATUS_MAP"):
                found[item.name] = [page, "c." + item.name]
            if item.kind == "struct":
                for declaration, _, _ in item.fields():
                    for name in re.findall(r"(\w+)(?:\[\w+\])?(?=,|$)", declaration):
                        found[f"{item.name}.{name}"] = [page, f"c.{item.name}.{name}"]
            if item.kind == "enum":
                for declaration, _, _ in fields_of(item):
                    name = declaration.split("=")[0].strip()
                    found[name] = [page, f"c.{item.name}.{name}"]
    return found


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__.split("\n")[0])
    folder = os.path.abspath(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder)
    headers = [p for p in sorted(site.tracked) if re.fullmatch(r"include/weir/\w+\.h", p)]
    for path in sorted(site.tracked):
        if path in headers or path.startswith("docs/") and path.endswith(".md"):
            site.add(path)
    site.write_all()
    indexed = set()
    for name, module, file in python_pages.MODULES:
        write(folder, f"reference/python/{name}.rst",
              python_pages.page(ROOT, module, file, paragraphs, indexed))
    write(folder, "reference/python/index.rst", python_pages.contents())
    index = os.path.join(folder, "index.md")
    with open(index, encoding="utf-8") as f:
        text = f.read()
    write(folder, "index.md", with_contents(text, "caption").replace(
        "C interface <reference/c-api.md>",
        "C interface <reference/c-api.md>\nPython interface <reference/python/index.rst>"))
    page = "reference/c-api.md"
    with open(os.path.join(folder, page), encoding="utf-8") as f:
        text = f.read()
    write(folder, page, with_contents(text, "name"))
    names = names_of([(p, public_headers.read(read(p))) for p in headers])
    write(folder, "names.json", json.dumps(names, indent=1))
    for line in site.wrong:
        print(line, file=sys.stderr)
    return 1 if site.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
