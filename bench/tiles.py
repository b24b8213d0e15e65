#!/usr/bin/env python3
# tiles.py - makes hard instances for weir place: buffers that fill time x memory without a gap.
"""Usage: tiles.py --buffers N --seed S [--style guillotine|pinwheel|mixed] [--wide 0.3] > FILE.csv

A rectangle of time x memory is cut again and again - across time, across memory, or into the five
parts of a pinwheel, which no straight cut takes apart - until there are as many tiles as wanted. A
tile is a buffer, its place along the memory axis is then forgotten, so the largest live sum is the
height of the rectangle at every time and there is a placement of just that height.
`--spare P` leaves low tiles out until P percent of the rectangle's height are free at every time:
the height of the rectangle, which still is enough, is then a few percent above the largest sum of
live bytes.
"""
import argparse
import random


class Cutter:
    """Rectangles (lower, upper, bottom, top) in units of time and memory."""

    def __init__(self, options):
        self.random = random.Random(options.seed)
        self.pinwheel = {"guillotine": 0.0, "pinwheel": 0.9, "mixed": 0.4}[options.style]
        self.across_time = options.wide
        self.tiles = [(0, options.time, 0, options.memory)]

    def between(self, a, b):
        """A cut strictly inside, seldom near an end; None where there is no room."""
        if b - a < 2:
            return None
        at = a + round((b - a) * self.random.triangular(0.08, 0.92))
        return min(max(at, a + 1), b - 1)

    def straight(self, tile):
        lower, upper, bottom, top = tile
        if self.random.random() < self.across_time:
            t = self.between(lower, upper)
            return t and [(lower, t, bottom, top), (t, upper, bottom, top)]
        y = self.between(bottom, top)
        return y and [(lower, upper, bottom, y), (lower, upper, y, top)]

    def wheel(self, tile):
        lower, upper, bottom, top = tile
        if upper - lower < 3 or top - bottom < 3:
            return None
        t1, t2 = sorted(self.random.sample(range(lower + 1, upper), 2))
        y1, y2 = sorted(self.random.sample(range(bottom + 1, top), 2))
        if self.random.random() < 0.5:
            return [(lower, t2, bottom, y1), (t2, upper, bottom, y2), (t1, upper, y2, top),
                    (lower, t1, y1, top), (t1, t2, y1, y2)]
        return [(t1, upper, bottom, y1), (lower, t1, bottom, y2), (lower, t2, y2, top),
                (t2, upper, y1, top), (t1, t2, y1, y2)]

    def cut(self, wanted):
        while len(self.tiles) < wanted:
            weights = [(p[1] - p[0]) ** 0.6 * (p[3] - p[2]) ** 0.6 for p in self.tiles]
            k = self.random.choices(range(len(self.tiles)), weights)[0]
            wheel = self.random.random() < self.pinwheel
            parts = (self.wheel if wheel else self.straight)(self.tiles[k])
            if parts:
                self.tiles[k:k + 1] = parts
        self.random.shuffle(self.tiles)


def leave_out(tiles, options):
    """The tiles without low ones, so that P percent are free at every time."""
    wanted = round(options.memory * options.spare / 100)
    free = [0] * options.time
    kept = []
    for tile in sorted(tiles, key=lambda p: (p[3] - p[2]) / (p[1] - p[0]) ** 0.5):
        lower, upper, bottom, top = tile
        if any(f < wanted for f in free[lower:upper]) and top - bottom <= 3 * wanted:
            free[lower:upper] = [f + top - bottom for f in free[lower:upper]]
        else:
            kept.append(tile)
    return [p for p in tiles if p in kept]


def make(options):
    """Rows (lower, upper, size)."""
    cutter = Cutter(options)
    cutter.cut(options.buffers)
    tiles = leave_out(cutter.tiles, options) if options.spare else cutter.tiles
    return [(lower, upper, (top - bottom) * options.unit) for lower, upper, bottom, top in tiles]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--buffers", type=int, default=250)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--style", choices=("guillotine", "pinwheel", "mixed"), default="mixed")
    p.add_argument("--wide", type=float, default=0.5, help="share of cuts across time")
    p.add_argument("--spare", type=float, default=0, help="percent of the memory left free")
    p.add_argument("--time", type=int, default=1024)
    p.add_argument("--memory", type=int, default=1024)
    p.add_argument("--unit", type=int, default=1024, help="bytes of one unit of memory")
    rows = make(p.parse_args())
    print("id,lower,upper,size")
    for i, row in enumerate(rows):
        print(i, *row, sep=",")


if __name__ == "__main__":
    main()
