#!/usr/bin/env python3
# check_place.py - judges the offsets that weir place wrote, without the library.
"""Usage: check_place.py FILE.csv [CAPACITY [ALIGNMENT]]. Buffers that are live at the same time
must lie apart, all of them at multiples of the alignment.

Prints "height H, live L, B buffers", and ends with code 1 and a sentence if the offsets are wrong
or above the capacity.
"""
import csv
import sys


def judge(rows, capacity, alignment):
    """Returns (height, largest live sum); raises ValueError at the first overlap."""
    events = []
    for number, row in enumerate(rows):
        lower, upper, size, offset = (int(row[k]) for k in ("lower", "upper", "size", "offset"))
        if offset < 0 or lower >= upper:
            raise ValueError(f"row {number}: offset {offset}, [{lower}, {upper})")
        if offset % alignment:
            raise ValueError(f"row {number}: offset {offset} is no multiple of {alignment}")
        if size > 0:
            events += [(lower, 1, size, offset, number), (upper, 0, size, offset, number)]
    live, total, most, height = {}, 0, 0, 0
    for _, starts, size, offset, number in sorted(events):
        if not starts:
            del live[number]
            total -= size
            continue
        for other, (begin, end) in live.items():
            if offset < end and begin < offset + size:
                raise ValueError(f"rows {number} and {other} share bytes")
        live[number] = (offset, offset + size)
        total += size
        most, height = max(most, total), max(height, offset + size)
    if capacity is not None and height > capacity:
        raise ValueError(f"height {height} is above {capacity}")
    return height, most


def main():
    with open(sys.argv[1], newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    capacity = int(sys.argv[2]) if len(sys.argv) > 2 else None
    alignment = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    try:
        height, most = judge(rows, capacity, alignment)
    except ValueError as e:
        print(e)
        return 1
    print(f"height {height}, live {most}, {len(rows)} buffers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
