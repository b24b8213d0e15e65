#!/usr/bin/env python3
# check_env.py - the system is called in src/core/env.c alone; its variables stand in one table.
"""Usage: check_env.py [ROOT]. Prints each violation and "check_env: N passed, N failed", a check
for each file; begins by testing itself on planted violations.

Memory, files, clock and threads: see BANNED. Environment variables: each that src reads is a row of
src/core/env.def, and each row is read. A variable is read by its name in a literal, by getenv
or by a function that is given the name.

violations(root) yields (path, line, what) for other scripts. Standard library only.
"""
import os
import re
import sys
import tempfile

# Who may call the system, and why.
EXEMPT = {
    "src/core/env.c": "the one place",
    "src/model/": "sees weir.h alone, as a program does",
    "src/tool/": "a program",
}
BANNED = (
    "malloc calloc realloc free strdup strndup posix_memalign aligned_alloc memalign valloc "
    "asprintf mmap munmap mremap madvise malloc_trim sbrk "
    "open openat creat close read write pread pwrite readv writev preadv pwritev lseek fsync "
    "fdatasync fopen fdopen freopen fclose fread fwrite fgets fputs fseek ftell fstat stat lstat "
    "fstatvfs statvfs fallocate posix_fallocate ftruncate truncate mkstemp mkostemp tmpfile mkdir "
    "rmdir rename unlink remove utimensat opendir readdir closedir "
    "clock_gettime clock gettimeofday time nanosleep clock_nanosleep usleep sleep "
    "pthread_create pthread_join pthread_detach thrd_create thrd_join fork").split()
CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(match):
    return "\n" * match.group(0).count("\n") or " "


def calls(text):
    """(line, name) of each banned call in C source; comments and strings do not count."""
    for number, line in enumerate(TEXT.sub(blank, text).split("\n"), 1):
        for match in CALL.finditer(line):
            yield number, match.group(1)


def files(root):
    """Paths of the files that the rule is for."""
    found = []
    for folder, folders, names in os.walk(os.path.join(root, "src")):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
            if name.endswith((".c", ".h", ".cu")) and not path.startswith(tuple(EXEMPT)):
                found.append(path)
    return found


def violations(root):
    rows, read = variables(root), set()
    for path in files(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        for line, call in calls(text):
            yield path, line, f"{call} is called past core/env.h"
        for line, name in names(text):
            read.add(name)
            if name not in rows:
                yield path, line, f"{name} is no row of {TABLE}"
    for name, line in rows.items():
        if name not in read:
            yield TABLE, line, f"nothing reads {name}"


TABLE = "src/core/env.def"
ROW = re.compile(r"^\s*X\((\w+), \"", re.M)
NAME = re.compile(r'\bgetenv\s*\(\s*"(\w+)"|"(WEIR_[A-Z0-9_]+)"|#define \w+ "([A-Z]+_[A-Z_]+)"')


def variables(root):
    """{name: line} of the table of environment variables."""
    try:
        with open(os.path.join(root, TABLE), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    return {m.group(1): text.count("\n", 0, m.start(1)) + 1 for m in ROW.finditer(text)}


def names(text):
    """(line, name) of each environment variable that C source names."""
    text = TEXT.sub(lambda m: blank(m) if m.group(0)[0] == "/" else m.group(0), text)
    for match in NAME.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, next(filter(None, match.groups()))


PLANTED = {
    "src/core/env.def": ('#define WEIR_VARIABLES(X) \\\n    X(WEIR_ONE, "library", "") \\\n'
                               '    X(WEIR_TWO, "library", "") \\\n    X(TMP, "library", "")\n',
                               [3]),
    "src/graph/reads.c": ('/* "WEIR_TWO" */\na = getenv("WEIR_ONE");\nb = getenv("TMP");\n'
                          'c = asked("WEIR_THREE");\nd = getenv("HOME");\n', [4, 5]),
    "src/core/env.c": ("void *p = malloc(4);\n", []),
    "src/core/mem.c": ("/* malloc(1) */\nchar *s = \"free(p)\";\nvoid f(void)\n"
                       "{\n    free(s);\n}\n", [5]),
    "src/device/a.c": ("int fd = open(p, 0);\nint n = env->open(p, 0, 0) + is_open(p);\n"
                       "d->ops->free(d, p, 1);\nk = pread(fd, p, 1, 0), l = read (fd, p, 1);",
                       [1, 4, 4]),
    "src/graph/b.h": ("// time(NULL)\nlong t = time(NULL);\nint e = pthread_create(&t, 0, f, 0);\n"
                      "double s = op_time(3) + x.time(4);\n", [2, 3]),
    "src/device/cuda/c.cu": ("mkdir(p, 0700);\nenv->mkdir(p, 0700);\ncudaFree(p);\n", [1]),
    "src/tool/main.c": ("FILE *f = fopen(p, \"r\");\n", []),
}


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for path, (text, _) in PLANTED.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        found = sorted((path, line) for path, line, _ in violations(root))
    wanted = sorted((path, line) for path, (_, lines) in PLANTED.items() for line in lines)
    if found != wanted:
        sys.exit(f"check_env: planted {wanted}, found {found}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    self_test()
    found = list(violations(root))
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    wrong = {path for path, _, _ in found}
    print(f"check_env: {len(files(root)) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
