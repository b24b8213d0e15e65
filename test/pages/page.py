# page.py - a document as a list of fenced blocks, and what can be said of it without running it.
import os
import re
import shlex

RUN = {"sh", "python"}                          # languages of blocks that are run
SHOWN = {"c", "cmake", "console", "cpp", "diff", "ini", "json", "make", "mermaid", "text", "toml",
         "yaml"}
FROM_FILE = {"c", "cpp"}                        # these come from a file, or become one
DIRECTIVE = re.compile(
    r"^<!--\s*(long|fails|output|file|in|needs|elsewhere)\b\s*:?\s*(.*?)\s*-->$")
FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*([\w+-]*)\s*(.*)$")
GAP = re.compile(r"^(?:/\*|#|//)?\s*\.\.\.\s*(?:\*/)?$")
ANGLE = re.compile(r"(?<![<\w$])<[A-Za-z][\w .|-]*>")
UPPER = re.compile(r"^(?:[\w-]*=)?([A-Z][A-Z0-9_]{2,}(?:\.[a-z]{1,5})?)$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s")
FIXED = {"AUTO", "OFF"}                         # words in capitals that are values


class Block:
    """One fenced block: its language, text, first line in the page, and its directives."""

    def __init__(self, page, language, line, directives):
        self.page, self.language, self.line = page, language, line
        self.directives = directives            # name -> value
        self.text = ""
        self.output = None                      # the text block that this one must print

    def __getitem__(self, name):
        return self.directives.get(name)

    def has(self, name):
        return name in self.directives

    def is_run(self):
        return self.language in RUN and not self.has("file") and not self.has("in")

    def commands(self):
        """The commands of an sh block; a python block counts as one."""
        return commands(self.text) if self.language == "sh" else [self.text]

    def at(self):
        return f"{self.page}:{self.line}"


def commands(script):
    """Logical lines of a shell script: no comments, continuations joined, here-documents whole."""
    found, end, open_line = [], None, False
    for line in script.split("\n"):
        if end is not None:
            found[-1] += "\n" + line
            if line.strip() == end:
                end = None
            continue
        if not open_line and (not line.strip() or line.lstrip().startswith("#")):
            continue
        if open_line:
            found[-1] = found[-1][:-1].rstrip() + " " + line.strip()
        else:
            found.append(line.strip())
        open_line = found[-1].endswith("\\")
        here = re.search(r"<<-?\s*[\"']?(\w+)", line)
        end = here.group(1) if here else None
    return found


class Page:
    """The blocks of a page, and its mistakes as (line, sentence)."""

    def __init__(self, path, text):
        self.path, self.blocks, self.mistakes = path, [], []
        self.read(text.split("\n"))

    def read(self, lines):
        directives, before, at = {}, None, 0
        while at < len(lines):
            line = lines[at]
            fence = FENCE.match(line)
            directive = DIRECTIVE.match(line.strip())
            if fence:
                block, at = self.block(lines, at, fence, directives)
                if block.has("output"):
                    self.pair(before, block)
                else:
                    before = block
                directives = {}
            elif directive:
                directives[directive.group(1)] = directive.group(2)
            elif line.strip():
                if directives:
                    self.wrong(at, "a directive stands on a line before its block")
                directives = {}
                if re.match(r" {4,}\S", line) and at and not lines[at - 1].strip() \
                        and not in_list(lines, at):
                    self.wrong(at, "an indented block; fence it and name its language")
            at += 1

    def wrong(self, at, sentence):
        self.mistakes.append((at + 1, sentence))

    def block(self, lines, at, fence, directives):
        """The block that begins at line `at`, and the line at which it ends."""
        indent, ticks, language = fence.group(1), fence.group(2), fence.group(3)
        block = Block(self.path, language, at + 1, directives)
        body, begin = [], at
        for at in range(begin + 1, len(lines)):
            if lines[at].strip() == ticks:
                break
            body.append(lines[at][len(indent):] if lines[at].startswith(indent) else lines[at])
        else:
            self.wrong(begin, "the block has no end")
        block.text = "".join(line + "\n" for line in body)
        self.blocks.append(block)
        self.judge(block, begin)
        return block, at

    def judge(self, block, at):
        language = block.language
        if not language:
            self.wrong(at, "a block without a language")
        elif language not in RUN | SHOWN:
            self.wrong(at, f"unknown language '{language}' (expected "
                           f"{', '.join(sorted(RUN | SHOWN))})")
        if language in FROM_FILE and not block.has("file") and not block.has("in"):
            self.wrong(at, f"a {language} block says neither `file: NAME` nor `in: FILE`")
        if language == "sh":
            for word in placeholders(block.text):
                self.wrong(at, f"'{word}' is a placeholder; write a command that runs")
        if block.has("output") and language in RUN:
            self.wrong(at, "`output` stands before a text block")

    def pair(self, before, block):
        if before is None or not before.is_run():
            self.wrong(block.line - 1, "`output` follows no block that is run")
        elif before.output is not None:
            self.wrong(block.line - 1, "the block before has an `output` already")
        else:
            before.output = block


def in_list(lines, at):
    """Does the indented line belong to an item of a list?"""
    for line in reversed(lines[:at]):
        if line.strip() and not line.startswith("    "):
            return bool(ITEM.match(line)) or line.startswith((" ", "\t"))
        if ITEM.match(line):
            return True
    return False


def placeholders(script):
    """Words of a script that a reader would have to replace."""
    plain = re.sub(r"(<<-?\s*[\"']?(\w+)[\"']?[^\n]*\n).*?\n\s*\2\n", r"\1", script + "\n",
                   flags=re.S)
    found = ANGLE.findall(re.sub(r"'[^']*'|\"[^\"]*\"", "''", plain))
    for command in commands(plain):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue
        for before, word in zip([""] + words, words):
            match = UPPER.match(word)
            known = before in ("export", "unset") or re.match(r"[A-Z_]+=", word) \
                or os.path.exists(word)
            if match and match.group(1) not in FIXED and "<<" not in command and not known:
                found.append(word)
    return found


def plain_lines(text):
    return [line.strip() for line in text.split("\n") if line.strip()]


def missing_line(excerpt, text):
    """The first line of the excerpt that does not follow in the text, None if all do. Indentation
    and empty lines do not count; a line `...` (also as a comment) stands for any lines."""
    runs, run = [], []
    for line in plain_lines(excerpt) + ["..."]:
        if GAP.match(line):
            runs += [run] if run else []
            run = []
        else:
            run.append(line)
    lines, begin = plain_lines(text), 0
    for run in runs:
        best = 0
        for at in range(begin, len(lines)):
            same = 0
            while same < len(run) and lines[at + same:at + same + 1] == [run[same]]:
                same += 1
            best = max(best, same)
            if same == len(run):
                begin = at + same
                break
        else:
            return run[best]
    return None


def missing_output(expected, printed):
    """The first expected line that was not printed, None if all were: one after the other, anywhere
    in the output; `...` stands for any part of a line, and alone for any lines."""
    lines = [line.rstrip() for line in printed.split("\n")]
    runs, run = [], []
    for line in [line.rstrip() for line in expected.rstrip("\n").split("\n")] + ["..."]:
        if line.strip() == "...":
            runs += [run] if run else []
            run = []
        else:
            run.append((line, re.compile(re.escape(line).replace(r"\.\.\.", ".*") + "$")))
    begin = 0
    for run in runs:
        best = 0
        for at in range(begin, len(lines)):
            same = 0
            while same < len(run) and at + same < len(lines) \
                    and run[same][1].match(lines[at + same]):
                same += 1
            best = max(best, same)
            if same == len(run):
                begin = at + same
                break
        else:
            return run[min(best, len(run) - 1)][0]
    return None
