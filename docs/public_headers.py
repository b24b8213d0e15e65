# public_headers.py - reads the public headers as they are written: sections, comments, items.
"""How a public header is written, and how it is read here:

- The first comment of a file holds for all of it.
- A comment that begins with "---- title ----" opens a section and holds for all that follows in it.
- A comment that a blank line follows holds for what follows it in the section, too.
- A comment right above declarations holds for those up to the next blank line or comment.
- A comment behind a declaration is about this one alone.

read(text) gives a Header. Standard library only; used by docs/generate.py, docs/site.py and
test/tree/documents.py.
"""
import re

TOKEN = re.compile(r"""(?P<cplusplus>\#ifdef\ __cplusplus.*?\#endif)
                     | (?P<define>\#define(?:[^\n\\]|\\.|\\\n)*)
                     | (?P<other>\#[^\n]*)
                     | (?P<comment>/\*.*?\*/)
                     | (?P<blank>\n[ \t]*(?=\n))
                     | (?P<space>\s+)
                     | (?P<code>[^\s#/])""", re.S | re.X)
TITLE = re.compile(r"-{3,4}\s+(.*?)\s+-{3,4}\s*", re.S)


class Item:
    """A declaration: kind is function, struct, enum, type or macro."""

    def __init__(self, kind, name, code, line, group):
        self.kind, self.name, self.code, self.line = kind, name, code, line
        self.group = group
        self.behind = ""                # the comment behind it

    def prototype(self):
        """The code without comments, in one line."""
        code = re.sub(r"/\*.*?\*/", "", self.code, flags=re.S)
        if self.kind == "function":
            code = re.sub(r"__attribute__.*|\{.*", "", code, flags=re.S)
        return " ".join(re.sub(r"WEIR_API|static inline", "", code).split()).rstrip(";").strip()

    def result(self):
        """Type of a function's result."""
        return re.match(r"(.*?)\w+\s*\(", self.prototype())[1].strip()

    def parameters(self):
        """[(type, name)] of a function."""
        inside = re.search(r"\w+\s*\((.*)\)$", self.prototype())[1]
        found = []
        for one in inside.split(","):
            one = re.sub(r"\[[^\]]*\]", "", one).strip()
            if one and one not in ("void", "..."):
                kind, name = re.match(r"(.*?)(\w+)$", one).groups()
                found.append((kind.strip(), name))
        return found

    def fields(self):
        """[(declaration, comment, line)] of a struct or an enum; a comment above fields is about
        those up to a blank line, one behind a field about those of its line."""
        body = self.code[self.code.index("{") + 1:self.code.rindex("}")]
        start = self.line + self.code[:self.code.index("{")].count("\n")
        out, above, rows = [], "", []
        parts = re.split(r"(/\*.*?\*/|\n[ \t]*\n|;|,(?![^\[(]*[\])]))" if self.kind == "enum"
                         else r"(/\*.*?\*/|\n[ \t]*\n|;)", body, flags=re.S)
        at = 0
        for part in parts:
            line = start + body.count("\n", 0, at + len(part) - len(part.lstrip()))
            at += len(part)
            if part.startswith("/*"):
                if rows and rows[-1][2] == line:
                    rows[-1][1] = (rows[-1][1] + " " + plain(part)).strip()
                    for row in rows[:-1]:
                        if row[2] == line and not row[1]:
                            row[1] = plain(part)
                else:
                    above = plain(part)
            elif re.fullmatch(r"\n[ \t]*\n", part):
                above = ""
            elif part.strip() not in ("", ";", ","):
                if part.strip().startswith("#"):
                    continue
                last = line + part.strip().count("\n")
                rows.append([" ".join(part.split()), above, last])
        out.extend((declaration, comment, line) for declaration, comment, line in rows)
        return out


class Group:
    """Declarations under one comment, up to a blank line."""

    def __init__(self, comment, section, line):
        self.comment, self.section, self.line, self.items = comment, section, line, []


class Section:
    """title and text of a section; parts: its groups and, as texts, the comments between them."""

    def __init__(self, title, text, line):
        self.title, self.text, self.line, self.parts = title, text, line, []

    def groups(self):
        return [part for part in self.parts if isinstance(part, Group)]

    def before(self, group):
        """What holds for the group: the section's text and the comments that stand before it."""
        at = self.parts.index(group)
        return "\n\n".join([self.text] + [p for p in self.parts[:at] if isinstance(p, str)])


class Header:
    def __init__(self, name, job, text):
        self.name, self.job, self.text, self.sections = name, job, text, []

    def items(self, *kinds):
        return [item for section in self.sections for group in section.groups()
                for item in group.items if not kinds or item.kind in kinds]


def plain(comment):
    """The text of a C comment without its marks."""
    lines = comment.strip()[2:-2].split("\n")
    return "\n".join(re.sub(r"^\s*\*? ?", "", line) if i else line.strip()
                     for i, line in enumerate(lines)).strip()


def end_of(text, at):
    """The end of the declaration that begins at `at`."""
    depth, body = 0, False
    while True:
        match = re.compile(r"/\*.*?\*/|[{}();]", re.S).search(text, at)
        if not match:
            return len(text)
        mark, at = match.group(0), match.end()
        if mark in "({":
            body = body or mark == "{" and depth == 0 and text[:match.start()].rstrip()[-1] == ")"
            depth += 1
        elif mark in ")}":
            depth -= 1
            if depth == 0 and body and mark == "}":
                return at
        elif mark == ";" and depth == 0:
            return at


def kind_of(code):
    """(kind, name) of a declaration."""
    bare = re.sub(r"/\*.*?\*/", "", code, flags=re.S).strip()
    if bare.startswith("typedef"):
        pointer = re.search(r"\(\*(\w+)\)", bare.split("{")[0])
        if pointer:
            return "type", pointer[1]
        kind = re.match(r"typedef\s+(struct|enum|union)\b[^;]*\{", bare)
        return kind[1] if kind else "type", re.search(r"(\w+)\s*;$", bare)[1]
    return "function", re.search(r"(\w+)\s*\(", bare)[1]


class Reader:
    def __init__(self, header):
        self.header = header
        self.section = Section("", "", 1)
        header.sections.append(self.section)
        self.above = None               # (comment, line) that waits for what it is about
        self.group = None               # open group
        self.ended = False              # a line ended since the last item

    def close(self):
        """A blank line: a comment that has nothing below it belongs to the section."""
        if self.above:
            self.section.parts.append(self.above[0])
        self.above = self.group = None

    def comment(self, text, line):
        title = TITLE.match(text)
        if title:
            self.close()
            self.section = Section(" ".join(title[1].split()), text[title.end():].strip(), line)
            self.header.sections.append(self.section)
        elif self.group and self.group.items and not self.ended:
            item = self.group.items[-1]
            item.behind = (item.behind + " " + text).strip()
        elif self.group and self.group.items and self.group.items[-1].behind and \
                self.ended and text[:1].islower() and not self.above:
            self.group.items[-1].behind += " " + text
        else:
            if self.above:
                self.section.parts.append(self.above[0])
            self.above, self.group = (text, line), None

    def item(self, kind, name, code, line):
        if self.group is None:
            text, at = self.above or ("", line)
            self.group, self.above = Group(text, self.section, at), None
            self.section.parts.append(self.group)
        self.group.items.append(Item(kind, name, code, line, self.group))
        self.ended = False


def read(text):
    """The Header of a file's text."""
    first = re.match(r"/\*.*?\*/", text, re.S).group(0)
    paragraphs = re.sub(r"\s*SPDX-License-Identifier:\s*\S+", "", plain(first)).split("\n\n", 1)
    name, job = " ".join(paragraphs[0].split()).split(" - ", 1)
    header = Header(name, job, paragraphs[1].strip() if len(paragraphs) > 1 else "")
    reader, at = Reader(header), len(first)
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:                   # a lone slash
            at += 1
            continue
        line, kind, at = text.count("\n", 0, match.start()) + 1, match.lastgroup, match.end()
        if kind == "comment":
            reader.comment(plain(match.group(0)), line)
        elif kind == "blank":
            reader.close()
        elif kind == "space":
            reader.ended = reader.ended or "\n" in match.group(0)
        elif kind == "define":
            name = re.match(r"#define\s+(\w+)", match.group(0))[1]
            if not name.endswith("_H") and not name.endswith("_") and \
                    name not in [i.name for i in header.items("macro")]:
                code, _, behind = match.group(0).partition("/*")
                reader.item("macro", name, code.rstrip(), line)
                if behind and "\n" not in code:
                    reader.group.items[-1].behind = plain("/*" + behind)
        elif kind == "code":
            at = end_of(text, match.start())
            code = text[match.start():at]
            reader.item(*kind_of(code), code, line)
    reader.close()
    return header


def own_text(item):
    """What the header says about the item: its group's comment and the one behind it."""
    return f"{item.group.comment}\n\n{item.behind}".strip()


def section_text(item):
    """What holds for the item because of where it stands."""
    section = item.group.section
    return "\n\n".join([section.title, section.before(item.group)]).strip()
