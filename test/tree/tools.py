# tools.py - what another program finds where it is installed: shellcheck.
import re
import shutil
import subprocess

from tree.source import Rule


def is_shell(path):
    return path.endswith(".sh") or path == ".ci/run"


def complaints(tree, command, paths):
    """Yields (path, line, sentence) of lines path:line:column: sentence."""
    if not paths:
        return
    done = subprocess.run(command + paths, cwd=tree.root, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, text=True)
    for line in done.stdout.split("\n"):
        match = re.match(r"(?:\./)?([^:]+):(\d+)(?::\d+)?:? (.*)", line)
        if match and match.group(1) in tree.text:
            yield match.group(1), int(match.group(2)), match.group(3)


def rule_shell(tree):
    if tree.root and shutil.which("shellcheck"):
        yield from complaints(tree, ["shellcheck", "-x", "-P", "SCRIPTDIR", "-f", "gcc"],
                              list(filter(is_shell, tree.text)))


RULES = [Rule("shellcheck", is_shell, rule_shell)]
PLANTS = []
