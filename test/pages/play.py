# play.py - runs the blocks of a page, one after the other, as its reader would.
import json
import os
import re
import shutil
import signal
import subprocess
import threading

from pages.page import missing_line, missing_output

SECONDS = {False: 60, True: 1500}       # a block that takes longer hangs: quick tier, long tier

# Runs one block after the other in one namespace; prints "ok" or the exception's last line.
DRIVER = r"""
import json, linecache, os, sys, traceback
control = os.fdopen(os.dup(1), "w")
names = {"__name__": "__main__"}
for line in sys.stdin:
    block = json.loads(line)
    out = os.open(block["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 1); os.dup2(out, 2); os.close(out)
    said = "ok"
    try:
        exec(compile("\n" * block["line"] + block["code"], block["page"], "exec"), names)
    except BaseException as e:
        traceback.print_exc()
        said = type(e).__name__
    sys.stdout.flush(); sys.stderr.flush()
    control.write(said + "\n"); control.flush()
"""

# A missing part of the build, by what the commands that need it say.
LACKS = {"jansson": r"built without jansson", "python": r"No module named '(?:weir|_swig|singa)'"}


UNSET = ("WEIR_BUILD", "WEIR_CMAKE_OPTIONS", "WEIR_WANT_CUDA", "WEIR_TEST_PART", "CDPATH", "ENV",
         "PYTHONPATH", "PYTHONHOME")
NO_CASE = re.compile(r"^test_\w+: 0 passed, 0 failed$", re.M)


class Place:
    """Where pages are run: the sources, the build, and what of it is missing. With `python`, an
    interpreter: the long tier, which runs in the sources themselves, a clone."""

    def __init__(self, root, build, work, python=None):
        long = python is not None
        self.root, self.build, self.work, self.long = root, build, work, long
        self.needs = {}
        self.lock = threading.Lock()
        tools = os.path.join(work, "tools")
        os.makedirs(tools, exist_ok=True)
        self.python = os.path.join(tools, "python3")
        if long:            # a reader has a Python environment of their own, where pip may install
            tools = os.path.join(work, "venv", "bin")
            subprocess.run([python, "-m", "venv", "--system-site-packages",
                            os.path.dirname(tools)], check=True)
            self.python = os.path.join(tools, "python3")
        else:
            self.find_python(build)
        self.env = {name: value for name, value in os.environ.items()
                    if name not in UNSET}
        self.env.update(PATH=tools + os.pathsep + os.environ["PATH"], OMP_WAIT_POLICY="passive",
                        PYTHONDONTWRITEBYTECODE="1", MPLBACKEND="Agg")
        if not long:        # pages see this build alone, also scripts that resolve links
            self.env.update(PYTHONPATH=os.path.join(build, "python"), WEIR_BUILD=build)

    def find_python(self, build):
        """Makes self.python a script that runs $WEIR_TORCH_PYTHON, which has the optional PyTorch,
        or the interpreter of the build's module."""
        with open(self.python, "w", encoding="utf-8") as f:     # the interpreter of the module
            f.write("#!/bin/sh\np=${WEIR_TORCH_PYTHON:-}\n"
                    "[ -n \"$p\" ] || p=$(sed -n 's/^WEIR_PYTHON_EXECUTABLE:INTERNAL=//p' "
                    f"'{build}/CMakeCache.txt' 2>/dev/null)\n"
                    f"exec \"${{p:-{shutil.which('python3')}}}\" \"$@\"\n")
        os.chmod(self.python, 0o700)

    def cached(self, name):
        try:
            with open(os.path.join(self.build, "CMakeCache.txt"), encoding="utf-8") as f:
                match = re.search(rf"^{name}:\w+=(.*)$", f.read(), re.M)
        except OSError:
            return ""
        return match.group(1) if match and not match.group(1).endswith("NOTFOUND") else ""

    def find(self, name):
        if name in ("jansson", "onednn"):
            library = {"jansson": "WEIR_JANSSON_LIBRARY", "onednn": "WEIR_DNNL_LIBRARY"}[name]
            return self.cached(f"WEIR_{name.upper()}") != "OFF" and self.cached(library)
        if name == "avx512":
            with open("/proc/cpuinfo", encoding="utf-8") as f:
                return " avx512f " in f.read()
        if name == "python":
            return os.path.isdir(os.path.join(self.build, "python", "weir"))
        if name == "emulated":
            return os.path.exists(os.path.join(self.build, "emulated", "libweir_cuda.so"))
        if name == "cuda":
            tool = os.path.join(self.build, "weir")
            return os.path.exists(tool) and subprocess.run(
                [tool, "info", "--device", "cuda"], capture_output=True, check=False,
                env=self.env).returncode == 0
        if name == "emulated":
            return os.path.isdir(os.path.join(self.build, "emulated"))
        if shutil.which(name):
            return True
        return subprocess.run([self.python, "-c", f"import {name}"], capture_output=True,
                              check=False, env=self.env).returncode == 0

    def has(self, name):
        with self.lock:
            if name not in self.needs:
                self.needs[name] = bool(self.find(name))
            return self.needs[name]

    def folder(self, name):
        """A folder for a page: the clone itself, or one that looks like it."""
        if self.long:
            return self.root
        path = os.path.join(self.work, name.replace("/", "_"))
        os.makedirs(path)
        for entry in os.listdir(self.root):
            if entry not in (".git", "build"):
                os.symlink(os.path.join(self.root, entry), os.path.join(path, entry))
        os.symlink(self.build, os.path.join(path, "build"))
        return path


class Result:
    """What became of a page: failures as (place, sentence, output), what was left out and why."""

    def __init__(self):
        self.passed, self.failures, self.left_out = 0, [], []

    def fail(self, at, sentence, output=""):
        self.failures.append((at, sentence, output))

    def add(self, other):
        self.passed += other.passed
        self.failures += other.failures
        self.left_out += other.left_out


class Player:
    """Runs one page. Its sh blocks share folder and environment, its python blocks a process."""

    def __init__(self, page, place):
        self.page, self.place, self.result = page, place, Result()
        self.folder = place.folder(page.path)
        self.state = os.path.join(place.work, "state_" + page.path.replace("/", "_"))
        self.process = None
        self.lacking = None             # what an earlier block of the page was left out for

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.kill()
            self.process.wait()

    def seconds(self, block):
        return SECONDS[self.place.long or block.has("long")]

    def kill(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def shell(self, block):
        """(ended well, output) of an sh block."""
        before = f". '{self.state}'\ncd \"$(cat '{self.state}.cwd')\"\n" \
            if os.path.exists(self.state) else ""
        script = f"{before}{block.text}\nexport -p >'{self.state}'\npwd >'{self.state}.cwd'\n"
        process = subprocess.Popen(
            ["sh", "-e", "-c", script], cwd=self.folder, env=self.place.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=self.seconds(block))
        except subprocess.TimeoutExpired:
            self.kill(process)
            output, _ = process.communicate()
            output += "\n(stopped: it takes too long)\n"
        except BaseException:       # the whole test is stopped
            self.kill(process)
            raise
        return process.returncode == 0, output

    def python(self, block):
        """(ended well, output) of a python block."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [self.place.python, "-c", DRIVER], cwd=self.folder, env=self.place.env,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        out = self.state + ".out"
        timer = threading.Timer(self.seconds(block), self.kill, [self.process])
        timer.start()
        try:
            json.dump({"code": block.text, "line": block.line, "out": out,
                       "page": os.path.join(self.place.root, block.page)}, self.process.stdin)
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            said = self.process.stdout.readline().strip()
        except BrokenPipeError:
            said = ""
        finally:
            timer.cancel()
        output = ""
        if os.path.exists(out):
            with open(out, encoding="utf-8", errors="replace") as f:
                output = f.read()
        return said == "ok", output if said else output + "\n(the interpreter died or hung)\n"

    def left_out(self, block, why):
        self.result.left_out.append((block, why))

    def wanting(self, block):
        """Why the block is not run here, or None."""
        if block.has("elsewhere"):
            return "run by " + block["elsewhere"]
        if block.has("long") and not self.place.long:
            return "long"
        for name in (block["needs"] or "").replace(",", " ").split():
            if not self.place.has(name):
                return f"needs {name}"
        if block.language == "python" and not self.place.has("python"):
            return "needs python"
        return None

    def run(self, block):
        why = self.wanting(block)
        if why:
            self.left_out(block, why)
            return
        well, output = self.shell(block) if block.language == "sh" else self.python(block)
        if well == block.has("fails"):
            for name, words in LACKS.items():
                if re.search(words, output) and not self.place.has(name):
                    self.lacking = name
            if self.lacking:
                self.left_out(block, f"needs {self.lacking}")
                return
            self.result.fail(block.at(), "ends well, but should fail" if well else "fails", output)
            return
        nothing = NO_CASE.search(output)
        if nothing:
            self.result.fail(block.at(), f"runs no case ({nothing.group(0)})")
            return
        if block.output is not None:
            line = missing_output(block.output.text, output)
            if line is not None:
                self.result.fail(block.output.at(), f"did not print '{line}'", output)
                return
        self.result.passed += 1

    def write(self, block):
        path = os.path.join(self.folder, block["file"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(block.text)

    def play(self):
        try:
            for block in self.page.blocks:
                if block.has("file"):
                    self.write(block)
                elif block.is_run():
                    self.run(block)
        finally:
            self.close()
        return self.result


def judge(page, root):
    """Checks a page without running it: its form, its excerpts, the commands run elsewhere."""
    result = Result()
    for line, sentence in page.mistakes:
        result.fail(f"{page.path}:{line}", sentence)
    for block in page.blocks:
        for name in ("in", "elsewhere"):
            if not block.has(name):
                continue
            try:
                with open(os.path.join(root, block[name]), encoding="utf-8") as f:
                    text = f.read()
            except OSError:
                result.fail(block.at(), f"there is no {block[name]}")
                continue
            if name == "in":
                line = missing_line(block.text, text)
            else:
                plain = " ".join(text.replace("\\\n", " ").split())
                line = next((c for c in block.commands() if " ".join(c.split()) not in plain), None)
            if line is None:
                result.passed += 1
            else:
                result.fail(block.at(), f"{block[name]} has no '{line}'")
    return result
