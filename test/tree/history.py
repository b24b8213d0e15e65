# history.py - subjects and bodies of the last commits, where their history is there.
"""Commits older than this file do not count: history cannot be mended."""
import re

from tree.source import Plant, Rule, git

COMMITS = 50
HERE = "test/tree/history.py"
MAX_SUBJECT = 72
MAX_CHANGED = 50        # lines, beyond which a body says why
AREA = re.compile(r"(?:[a-z][\w.-]*(?:, )?)+: \S")
# First words in another form than the imperative: added, adding, adds.
NO_IMPERATIVE = re.compile(r"(?:\w+ed|\w+ing|(?!(?:\w*(?:ss|us)|focus|bias|canvas)\b)\w+s)$")
IMPERATIVE = {"bring", "string", "ring", "embed", "feed", "need", "shed", "speed", "seed", "spring"}


def wrong(subject, body, changed):
    """Yields what is wrong with a commit."""
    if len(subject.encode()) > MAX_SUBJECT:
        yield f"{len(subject.encode())} bytes, at most {MAX_SUBJECT}"
    if not AREA.match(subject):
        yield 'should begin with an area in small letters: "area: do this"'
    else:
        first = subject.split(": ", 1)[1].split()[0].lower().strip(",.")
        if NO_IMPERATIVE.match(first) and first not in IMPERATIVE:
            yield f'"{first}" is no imperative'
        if subject.endswith("."):
            yield "ends with a full stop"
    if changed > MAX_CHANGED and not body.strip():
        yield f"{changed} lines change, and no body says why"


def commits(root):
    """[(hash, subject, body, lines changed)], renames not counted; none in a shallow clone."""
    if (git(root, "rev-parse", "--is-shallow-repository") or "true").strip() != "false":
        return []
    first = (git(root, "log", "--diff-filter=A", "--format=%H", "--", HERE) or "").split()
    if not first:
        return []
    text = git(root, "log", f"{first[-1]}..HEAD", f"-{COMMITS}", "--no-merges", "-M", "--shortstat",
               "--format=%x01%h%x02%s%x02%b%x02") or ""
    found = []
    for part in text.split("\1")[1:]:
        name, subject, body, stat = part.split("\2")
        changed = sum(int(n) for n in re.findall(r"(\d+) (?:insertion|deletion)", stat))
        found.append((name, subject, body, changed))
    return found


def rule_commits(tree):
    planted = [path for path in tree.text if path.startswith("commit/")]
    history = commits(tree.root) if tree.root else [
        (path, *(tree.text[path] + "\n").split("\n", 1), tree.size[path]) for path in planted]
    for name, subject, body, changed in history:
        for what in wrong(subject, body, changed):
            yield f"commit {name}" if tree.root else name, 1, f"{subject}: {what}"


RULES = [Rule("commits", lambda path: False, rule_commits)]
PLANTS = [
    Plant("commits", {
        "commit/good": "graph, python: pass on what is asked", "commit/area": "Fix it all",
        "commit/long": "graph: " + "x" * 66, "commit/done": "graph: fixed it",
        "commit/does": "graph: fixes it", "commit/body": "graph: fix it\n\n" + "Why. " * 20,
        "commit/none": "graph: fix it" + " all" * 10, "commit/stop": "ci: run it.",
        "commit/ok": "test: embed data",
    }, {"commit/area", "commit/long", "commit/done", "commit/does", "commit/none", "commit/stop"}),
]
