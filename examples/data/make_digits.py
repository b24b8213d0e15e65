#!/usr/bin/env python3
# make_digits.py - writes digits.bin, whose format digits.txt describes, from scikit-learn's copy.
"""Usage: make_digits.py [digits.bin]. Needs scikit-learn; the examples need only its result."""
import os
import struct
import sys

from sklearn.datasets import load_digits


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "digits.bin")
    digits = load_digits()
    pixels = digits.data.astype("uint8")
    labels = digits.target.astype("uint8")
    assert (pixels == digits.data).all() and pixels.max() == 16 and labels.max() == 9
    with open(path, "wb") as out:
        out.write(struct.pack("<8sII", b"WDIGITS1", *pixels.shape))
        for image, label in zip(pixels, labels):
            out.write(image.tobytes() + label.tobytes())


if __name__ == "__main__":
    main()
