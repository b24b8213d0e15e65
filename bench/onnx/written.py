#!/usr/bin/env python3
"""written.py - what Weir writes, judged by the package onnx and by onnxruntime.

    WEIR_TEST_ONNX=FOLDER build/test_op onnx
    written.py FOLDER [--list]

Every row of the op table is written to ONNX by the tests, with its result as bytes beside it. Each
file is checked by onnx.checker in full, and run by onnxruntime where it is installed, without its
graph optimizations: a result may differ by 1e-5 of its largest number (2e-2 for halves, which
onnxruntime rounds at other places). Tensors without elements, which it often refuses, and drawn
results are not compared. --list prints each file that fails or that onnxruntime has no
kernel for. Exit status 1 if the checker or a comparison fails.
"""
import argparse
import os
import sys

import numpy as np
import onnx

try:
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
except ImportError:
    onnxruntime = None

MISSING = ("NOT_IMPLEMENTED", "is not under development", "not support", "Could not find an impl",
           "Unsupported model IR", "Type Error", "type inference")
TOLERANCE = 1e-5
HALF_TOLERANCE = 2e-2
# dropout drops nothing in inference; onnxruntime's sigmoid is 0 below -18.
DIFFERENT = ("dropout-", "sigmoid (wide)-")


def result_of(path):
    """What onnxruntime computes; None where it has no kernel."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return session.run(None, {})[0], ""
    except Exception as error:
        if any(text in str(error) for text in MISSING):
            return None, str(error)
        raise


def difference(got, want):
    """The largest difference relative to the largest number; infinite if one is no number."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, np.abs(got - want))
    if off.size == 0 or off.max() == 0:
        return 0.0
    finite = np.abs(want[np.isfinite(want)])
    return float(np.nan_to_num(off, nan=np.inf).max() / max(finite.max() if finite.size else 0,
                                                            1e-30))


def judge(path):
    """(verdict, sentence): right, wrong, no kernel."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    kind = model.graph.output[0].type.tensor_type.elem_type
    empty = any(0 in i.dims for i in model.graph.initializer)
    if onnxruntime is None or kind == onnx.TensorProto.BFLOAT16 or empty:
        return "checked", ""
    got, why = result_of(path)
    if got is None:
        return "checked", why
    want = np.fromfile(path + ".out", dtype=got.dtype).reshape(got.shape)
    if os.path.basename(path).startswith(DIFFERENT):
        return "run", ""
    off = difference(got, want)
    half = any(i.data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
               for i in model.graph.initializer)
    if off > (HALF_TOLERANCE if half else TOLERANCE):
        return "wrong", f"off by {off:.2g}"
    return "run", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    counts = dict.fromkeys(("run", "checked", "wrong"), 0)
    for name in sorted(os.listdir(options.folder)):
        if not name.endswith(".onnx"):
            continue
        try:
            verdict, why = judge(os.path.join(options.folder, name))
        except Exception as error:
            verdict, why = "wrong", f"{type(error).__name__}: {error}"
        counts[verdict] += 1
        if verdict == "wrong" or (options.list and why):
            print(f"{verdict} {name}: {' '.join(why.split())[:200]}", flush=True)
    print(f"written: {sum(counts.values())} files, {counts['run']} agree with onnxruntime, "
          f"{counts['checked']} pass the checker and were not compared, {counts['wrong']} wrong")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
