#!/usr/bin/env python3
# wheel_licences.py - puts the licences of the libraries inside into a wheel. See wheels.sh.
"""Usage: wheel_licences.py WHEEL LICENCES FOLDER

Writes the wheel, with every file of LICENCES, a folder for each library, into FOLDER.
dist-info/licenses gets the files, and METADATA a License-File line for each and the expression of
them all (PEP 639). Standard library and the package wheel.
"""
import os
import shutil
import subprocess
import sys
import tempfile

# SPDX identifiers of what a folder of LICENCES holds; "texts" has licences that others refer to.
EXPRESSIONS = {
    "libdnnl": "Apache-2.0",
    "libgfortran": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libgomp": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libjansson": "MIT",
    "libopenblas": "BSD-3-Clause",
    "libquadmath": "LGPL-2.1-or-later",
    "texts": None,
}


def files(folder: str) -> list[str]:
    """Paths of all files below the folder, relative to it."""
    found = []
    for at, _, names in os.walk(folder):
        found += [os.path.relpath(os.path.join(at, name), folder) for name in names]
    return sorted(found)


def metadata(text: str, folders: list[str], added: list[str]) -> str:
    """METADATA with the expression of all licences and a line for each added file."""
    head, _, body = text.partition("\n\n")
    lines = head.split("\n")
    own = next(line for line in lines if line.startswith("License-Expression: "))
    parts = [own.removeprefix("License-Expression: ")]
    for folder in folders:
        expression = EXPRESSIONS[folder]
        if expression and expression not in parts:
            parts.append(expression)
    lines[lines.index(own)] = "License-Expression: " + " AND ".join(parts)
    last = max(i for i, line in enumerate(lines) if line.startswith("License-File: "))
    lines[last + 1:last + 1] = ["License-File: " + path for path in added]
    return "\n".join(lines) + "\n\n" + body


def main() -> None:
    """Unpacks, adds, packs."""
    wheel, licences, to = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "-d", work, wheel], check=True,
                       stdout=subprocess.DEVNULL)
        unpacked = os.path.join(work, os.listdir(work)[0])
        info = os.path.join(unpacked, next(n for n in os.listdir(unpacked)
                                           if n.endswith(".dist-info")))
        shutil.copytree(licences, os.path.join(info, "licenses"), dirs_exist_ok=True)
        path = os.path.join(info, "METADATA")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(metadata(text, sorted(os.listdir(licences)), files(licences)))
        shutil.rmtree(to, ignore_errors=True)
        os.makedirs(to)
        subprocess.run([sys.executable, "-m", "wheel", "pack", "-d", to, unpacked], check=True,
                       stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
