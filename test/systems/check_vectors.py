#!/usr/bin/env python3
# check_vectors.py - the compiler made vectors of the loops that are compiled per instruction set.
"""Usage: check_vectors.py BUILD. Needs objdump; without it, without objects or without -O3 nothing
is checked.

One scalar loop among hundreds passes every test of values and makes a step a third slower, and each
version of a compiler gives up on others. So every f32 function of the objects weir_isa_avx2 and
weir_isa_avx512 that is long enough for a loop must use registers of 256 or 512 bits, but for those
of SCALAR.
"""
import os
import re
import subprocess
import sys

SETS = {"avx2": re.compile(r"%ymm"), "avx512": re.compile(r"%[yz]mm")}
LONG = 25           # instructions: shorter functions only call others
FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
# Divisions with a remainder, tables of f64, powers, and pools whose windows are short.
SCALAR = {"row_div_floor", "row_remainder", "row_sin", "row_cos", "row_tan", "row_exp2", "row_pow",
          "row_pow_grad_base", "weir_pow", "max"}


def scalar_functions(text, wide):
    """[f32 functions of a disassembly that use no wide register], how many functions count."""
    found, counted, name, lines, vectors = [], 0, None, 0, False
    for line in [*text.split("\n"), "0 <end>:"]:
        match = FUNCTION.match(line)
        if not match:
            lines += line.startswith(" ")
            vectors = vectors or bool(wide.search(line))
            continue
        base = name.split(".")[0] if name else ""
        if base.endswith("_f32") and lines > LONG and base[:-len("_f32")] not in SCALAR:
            counted += 1
            if not vectors:
                found.append(name)
        name, lines, vectors = match.group(1), 0, False
    return found, counted


def optimised(build):
    """Are kernels compiled by -O3 and by nothing that instruments them?"""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
        text = cache.read()
    return not re.search(r"^CMAKE_BUILD_TYPE:\w+=Debug$|^WEIR_SANITIZE:\w+=(?!none$)|"
                         r"^CMAKE_C_FLAGS:\w+=.*-O0", text, re.M | re.I)


def objects(build, name):
    for base, dirs, files in os.walk(os.path.join(build, f"CMakeFiles/weir_isa_{name}.dir")):
        dirs.sort()
        yield from (os.path.join(base, file) for file in sorted(files)
                    if file.endswith("_isa.c.o"))


def self_test():
    long_one = " 1:\tmulss %xmm0,%xmm1\n" * (LONG + 1)
    text = (f"0 <row_a_f32>:\n{long_one}0 <row_b_f32.part.0>:\n{long_one} 2:\tmulps %ymm0,%ymm1\n"
            f"0 <row_c_f32>:\n ret\n0 <row_d_f64>:\n{long_one}0 <row_sin_f32>:\n{long_one}")
    good = scalar_functions(text, SETS["avx2"]) == (["row_a_f32"], 2)
    if not good:
        print("self-test: scalar functions are not found")
    return int(good), int(not good)


def main():
    if len(sys.argv) != 2:
        print(__doc__.split(". ")[0])
        return 2
    build = sys.argv[1]
    passed, failed = self_test()
    for name, wide in SETS.items() if optimised(build) else ():
        for path in objects(build, name):
            try:
                done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True,
                                      stdout=subprocess.PIPE, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"check_vectors: left out: {error}")
                break
            found, counted = scalar_functions(done.stdout, wide)
            for function in found:
                print(f"{os.path.basename(path)[:-2]}:1: vectors: no loop of {function} uses "
                      f"vectors for {name}")
            passed, failed = passed + counted - len(found), failed + len(found)
    print(f"check_vectors: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
