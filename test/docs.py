#!/usr/bin/env python3
# docs.py - runs every command that README and the pages under docs/ print.
"""Usage: docs.py [--build FOLDER] [--long [--part K/N]] [--count] [PAGE...]

PAGE: README.md, docs/user/budgets.md, or a part of such a name; default: all pages. Each page is
run in a folder of its own that looks like a clone with a finished build; --long runs the pages with
blocks marked `long` instead, README first, in a fresh clone, of the others every Nth from the Kth
on. --count prints how many commands there
are and which are run. FOLDER: default $WEIR_BUILD or build/. Ends with "docs: N passed, N failed"
("docs-long" with --long). docs/contributing/testing.md says how to write a page.
"""
import argparse
import collections
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)

from pages import page as pages_page                                    # noqa: E402
from pages import plants                                                # noqa: E402
from pages.play import Place, Player, Result, judge                     # noqa: E402

TOP_PAGES = ["README.md", "CONTRIBUTING.md"]
PROGRAMS = "test/docs"
SLOW = 5                        # seconds after which a page is named


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def pages(wanted):
    """The pages with these names, or all, README first."""
    paths = [path for path in TOP_PAGES if os.path.exists(os.path.join(ROOT, path))]
    for folder, folders, files in os.walk(os.path.join(ROOT, "docs")):
        folders[:] = sorted(f for f in folders if not f.startswith(("_", ".")) and f != "site")
        paths += [os.path.relpath(os.path.join(folder, name), ROOT) for name in sorted(files)
                  if name.endswith(".md")]
    if wanted:
        unknown = [name for name in wanted if not any(name in path for path in paths)]
        if unknown:
            raise SystemExit(f"docs.py: no page is called {', '.join(unknown)}")
        paths = [path for path in paths if any(name in path for name in wanted)]
    return [pages_page.Page(path, read(path)) for path in paths]


def timed(function, *arguments):
    begin = time.monotonic()
    return function(*arguments), time.monotonic() - begin


def programs(chosen, everything):
    """The programs of test/docs that the pages show; all of them with their pages' mistakes."""
    texts = {page.path: read(page.path) for page in chosen}
    found, result = [], Result()
    folder = os.path.join(ROOT, PROGRAMS)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if not name.endswith(".c"):
            continue
        path = f"{PROGRAMS}/{name}"
        shown = any(path in text for text in texts.values())
        if shown or everything:
            found.append(path)
        if not shown and everything:
            result.fail(path, "no page shows or names this program")
    return found, result


def run_program(path, place):
    """Compiles a program as its reader would, and runs it."""
    name = os.path.splitext(os.path.basename(path))[0]
    text = "".join(read(path).splitlines(True)[:3])
    needs = f"<!-- needs: {text.split('needs: ', 1)[1].split()[0]} -->\n" \
        if "needs: " in text else ""
    script = (f"{needs}```sh\ncc -std=c11 -Wall -Wextra -Werror -Iinclude {path} -Lbuild "
              f"-Wl,-rpath,$PWD/build -lweir -lm -o {name}\n./{name}\n```\n")
    return Player(pages_page.Page(path, script), place).play()


def clone(work):
    """A fresh clone with what is not committed yet; the sources themselves where git is missing."""
    to = os.path.join(work, "weir")
    done = subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, to], check=False)
    if done.returncode:
        shutil.copytree(ROOT, to, symlinks=True,
                        ignore=lambda folder, names: [n for n in names if n.startswith("build")])
        return to
    changed = subprocess.run(["git", "ls-files", "-z", "-d", "-m", "-o", "--exclude-standard"],
                             cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in filter(None, changed.split("\0")):
        source, target = os.path.join(ROOT, path), os.path.join(to, path)
        if os.path.exists(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)
        elif os.path.exists(target):
            os.remove(target)
    return to


def share(chosen, part):
    """README, and of the other pages with long blocks every Nth, from the Kth on: part is "K/N"."""
    first, step = map(int, part.split("/"))
    others = [page for page in chosen if page.path != "README.md"
              and any(block.has("long") for block in page.blocks)]
    return [page for page in chosen if page.path == "README.md"] + others[first - 1::step]


def play_long(chosen, work, interpreter):
    """README as its reader would, then the pages with long blocks, in one fresh clone, with a new
    Python environment made by the interpreter."""
    root = clone(work)
    subprocess.run(["git", "add", "-A"], cwd=root, check=False)
    place = Place(root, os.path.join(root, "build"), work, interpreter)
    result = Result()
    if not any(page.path == "README.md" for page in chosen):
        print("docs-long: README is not run; building", flush=True)
        subprocess.run("cmake -S . -B build && cmake --build build -j2", shell=True,
                       cwd=root, check=True, stdout=subprocess.DEVNULL)
    for page in chosen:
        played, seconds = timed(Player(page, place).play)
        print(f"docs-long: {page.path}: {seconds:.0f} s", flush=True)
        result.add(played)
        place.needs.clear()
        place.env["PYTHONPATH"] = os.path.join(place.build, "python")   # after README
        subprocess.run(["git", "clean", "-fdq"], cwd=root, check=False)
    return result


def play_quick(chosen, place, everything):
    """Every page and program, two at a time."""
    found, result = programs(chosen, everything)
    jobs = [(page.path, lambda page=page: Player(page, place).play()) for page in chosen]
    jobs += [(path, lambda path=path: run_program(path, place)) for path in found]
    with ThreadPoolExecutor(max_workers=max(2, (os.cpu_count() or 2) // 2)) as pool:
        for (name, _), (played, seconds) in zip(
                jobs, pool.map(lambda job: timed(job[1]), jobs)):
            result.add(played)
            if seconds > SLOW:
                print(f"docs: {name}: {seconds:.0f} s")
    return result


def untracked():
    done = subprocess.run(["git", "ls-files", "-o", "--exclude-standard"], cwd=ROOT, check=False,
                          capture_output=True, text=True)
    return set(done.stdout.split("\n"))


def generated(build):
    """Are the lists in the pages those that the code knows?"""
    result = Result()
    if os.path.exists(os.path.join(ROOT, "docs", "generate.py")):
        done = subprocess.run([sys.executable, "docs/generate.py", build, "--check"], cwd=ROOT,
                              text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode:
            result.fail("docs/generate.py --check", "fails", done.stdout)
        else:
            result.passed += 1
    return result


def self_test(place):
    """The planted pages: each mistake is found, where it is, and no other."""
    result = Result()
    chosen = plants.PLANTS + (plants.PYTHON_PLANTS if place.has("python") else [])
    for name, text, expected in chosen:
        page = pages_page.Page(f"plant-{name}", text)
        found = judge(page, ROOT)
        if not page.mistakes:
            found.add(Player(page, place).play())
        lines = {int(at.rsplit(":", 1)[1]) for at, _, _ in found.failures}
        if lines == (expected or set()):
            result.passed += 1
        else:
            result.fail(f"self-test {name}", f"mistakes at {sorted(lines)}, "
                        f"not at {sorted(expected or [])}")
    return result


def count(chosen, place):
    """Prints the numbers of pages, blocks and commands, and which commands are run."""
    languages, numbers = collections.Counter(), collections.Counter()
    for page in chosen:
        player = Player(page, place)
        long_page = any(block.has("long") for block in page.blocks) or page.path == "README.md"
        for block in page.blocks:
            languages[block.language] += 1
            if not block.is_run():
                continue
            n, why = len(block.commands()), player.wanting(block)
            numbers["commands printed"] += n
            if why == "long":
                numbers["run in the long tier alone"] += n
            elif why:
                numbers[f"not run here: {why}" if why.startswith("needs")
                        else f"run elsewhere: {why}"] += n
            else:
                numbers["run in the quick tier"] += n
                numbers["of these in the long tier, too"] += n if long_page else 0
        numbers["excerpts found in their file"] += sum(b.has("in") for b in page.blocks)
    print(f"pages: {len(chosen)}")
    print("blocks: " + ", ".join(f"{n} {name}" for name, n in languages.most_common()))
    print(f"programs under {PROGRAMS}: {len(programs(chosen, True)[0])}")
    for name, n in sorted(numbers.items()):
        print(f"{name}: {n}")


def show(result, name):
    for at, sentence, output in result.failures:
        print(f"FAILED {at}: {sentence}")
        for line in output.rstrip().split("\n")[-25:] if output.strip() else []:
            print("    " + line)
    reasons = collections.Counter()
    for block, why in result.left_out:
        if why != "long":
            reasons[why] += len(block.commands())
    for why, n in sorted(reasons.items()):
        print(f"{name}: left out: {n} commands ({why})")
    print(f"{name}: {result.passed} passed, {len(result.failures)} failed")


def main():
    parser = argparse.ArgumentParser(description="Runs the commands that the documents print.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="pages to run (default: all)")
    parser.add_argument("--build", default=os.environ.get("WEIR_BUILD")
                        or os.path.join(ROOT, "build"), help="the build folder")
    parser.add_argument("--long", action="store_true", help="the blocks that build or take long")
    parser.add_argument("--part", default="1/1", metavar="K/N",
                        help="with --long: README, and every Nth of the other pages, from the Kth")
    parser.add_argument("--count", action="store_true", help="numbers alone; nothing is run")
    options = parser.parse_args()
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    build = os.path.abspath(options.build)
    chosen = pages(options.pages)
    with tempfile.TemporaryDirectory(prefix="weir-docs-") as work:
        place = Place(ROOT, build, os.path.join(work, "quick"))
        if options.count:
            count(chosen, place)
            return 0
        result = self_test(place)
        if options.long:
            interpreter = place.cached("WEIR_PYTHON_EXECUTABLE") or sys.executable
            chosen = share(chosen, options.part)
            result.add(play_long(chosen, os.path.join(work, "long"), interpreter))
        else:
            before = untracked()
            for page in chosen:
                result.add(judge(page, ROOT))
            result.add(play_quick(chosen, place, not options.pages))
            result.add(generated(build))
            for path in sorted(untracked() - before):
                result.fail(path, "written by a page into the sources")
        show(result, "docs-long" if options.long else "docs")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
