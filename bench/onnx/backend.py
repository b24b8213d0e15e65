#!/usr/bin/env python3
"""backend.py - runs the node tests of the onnx package: how many pass, are refused, are wrong.

    backend.py [LIBRARY] [--only TEXT] [--list refused|wrong|passed] [--set node|simple|...]
                    [--table FILE]

LIBRARY: libweir.so (default: that of the folder WEIR_BUILD, or of build). Needs the packages onnx
and numpy; bfloat16 needs ml_dtypes, too. Each case runs with the
graph off and on; it passes if both agree with the expected outputs within the case's tolerance and
with each other to the bit. Three exceptions: results in float16 and bfloat16 may be further away by
2^-10 and 2^-7 of themselves or of 1, because the expected ones round every intermediate and are as
far from the exact ones; so may those of an inverse DFT by 2^-24 of its input's largest element, as
NumPy computes the expected ones in float32; and where a case draws random numbers, which ONNX
leaves open, an element of dropout must be 0 or as large as without it, the mask must say which, and
an element of Bernoulli must be 0 or 1.
Inputs of up to KNOWN elements that must be known while a model is recorded are named in the option
`values`. A case that is refused fails with a sentence before or while it is recorded. Exit code 1
if one is wrong.
"""
import argparse
import collections
import ctypes
import os
import re
import sys

import numpy as np
from onnx import numpy_helper, TensorProto
from onnx.backend.test.loader import load_model_tests
import onnx

TYPES = {np.dtype("float32"): 0, np.dtype("float64"): 1, np.dtype("int32"): 2,
         np.dtype("int64"): 3, np.dtype("uint8"): 4, np.dtype("bool"): 5, np.dtype("float16"): 6,
         np.dtype("int8"): 8, np.dtype("int16"): 9, np.dtype("uint16"): 10, np.dtype("uint32"): 11,
         np.dtype("uint64"): 12}
try:
    from ml_dtypes import bfloat16
    TYPES[np.dtype(bfloat16)] = 7
except ImportError:
    pass
KNOWN = 64      # elements of the largest input that is named in the option `values`
DROPS = ("test_training_dropout_default", "test_training_dropout",
         "test_training_dropout_default_mask", "test_training_dropout_mask")
DTYPES = {number: dtype for dtype, number in TYPES.items()}


class Desc(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("ndim", ctypes.c_int), ("dim", ctypes.c_int64 * 8)]


class Options(ctypes.Structure):
    _fields_ = [("dims", ctypes.c_char_p), ("values", ctypes.c_char_p),
                ("frozen", ctypes.c_char_p), ("train", ctypes.c_bool)]


class Refused(Exception):
    pass


class Library:
    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(path)
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        for name, result, *arguments in (
                ("weir_device_open", pointer, ctypes.c_char_p, pointer),
                ("weir_device_close", None, pointer), ("weir_error", ctypes.c_char_p),
                ("weir_onnx_open_bytes", pointer, pointer, ctypes.c_char_p, size, pointer),
                ("weir_onnx_free", None, pointer),
                ("weir_device_seed", ctypes.c_int, pointer, ctypes.c_uint64),
                ("weir_onnx_apply", ctypes.c_int, pointer, size, pointer, size, pointer),
                ("weir_input", pointer, pointer, Desc), ("weir_keep", pointer, pointer),
                ("weir_write", ctypes.c_int, pointer, pointer, size),
                ("weir_read", ctypes.c_int, pointer, pointer, size),
                ("weir_tensor_desc", Desc, pointer), ("weir_release", None, pointer),
                ("weir_scope_begin", ctypes.c_int, pointer),
                ("weir_scope_end", ctypes.c_int, pointer), ("weir_graph_begin", pointer, pointer),
                ("weir_graph_end", ctypes.c_int, pointer, pointer),
                ("weir_graph_run", ctypes.c_int, pointer), ("weir_graph_free", None, pointer)):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.device = lib.weir_device_open(b"cpu", None)

    def check(self, good):
        if not good:
            raise Refused(self.lib.weir_error().decode(errors="replace"))

    def tensor(self, array):
        array = np.require(array, requirements="C")
        if array.dtype not in TYPES or array.ndim > 8:
            raise Refused(f"an input of {array.dtype} with {array.ndim} axes")
        desc = Desc(TYPES[array.dtype], array.ndim, tuple(array.shape))
        t = self.lib.weir_input(self.device, desc)
        self.check(t)
        self.check(self.lib.weir_write(t, array.ctypes.data, array.nbytes) == 0)
        return t

    def array(self, t):
        desc = self.lib.weir_tensor_desc(t)
        if desc.dtype not in DTYPES:
            raise Refused("an output of bfloat16, which NumPy lacks without ml_dtypes")
        array = np.empty(desc.dim[:desc.ndim], DTYPES[desc.dtype])
        self.check(self.lib.weir_read(t, array.ctypes.data, array.nbytes) == 0)
        return array

    def run(self, data, inputs, outputs, values, graph):
        lib, graph_at, tensors = self.lib, None, []
        lib.weir_device_seed(self.device, 1)
        options = Options(None, values.encode(), None, False)
        model = lib.weir_onnx_open_bytes(self.device, data, len(data), ctypes.byref(options))
        self.check(model)
        try:
            for array in inputs:
                tensors.append(self.tensor(array))
            given = (ctypes.c_void_p * len(tensors))(*tensors)
            out = (ctypes.c_void_p * outputs)()
            if graph:
                graph_at = lib.weir_graph_begin(self.device)
            lib.weir_scope_begin(self.device)
            self.check(lib.weir_onnx_apply(model, len(tensors), given, outputs, out) == 0)
            if graph:
                for t in out:
                    lib.weir_keep(t)
                lib.weir_scope_end(self.device)
                self.check(lib.weir_graph_end(graph_at, None) == 0)
                self.check(lib.weir_graph_run(graph_at) == 0)
            return [self.array(t) for t in out]
        finally:
            if graph_at:
                lib.weir_graph_free(graph_at)
            else:
                lib.weir_scope_end(self.device)
            for t in tensors:
                lib.weir_release(t)
            lib.weir_onnx_free(model)


def load(path):
    """An input or output file."""
    tensor = TensorProto()
    with open(path, "rb") as file:
        data = file.read()
    try:
        tensor.ParseFromString(data)
        return numpy_helper.to_array(tensor)
    except Exception as error:      # protobuf's own class has moved from release to release
        raise Refused(f"an input that is no tensor: {error}") from None


def arrays(folder, kind):
    names = sorted((n for n in os.listdir(folder) if n.startswith(kind)),
                   key=lambda n: int(re.findall(r"\d+", n)[-1]))
    return [load(os.path.join(folder, n)) for n in names]


def numbers(values):
    """The inputs or outputs of a case as arrays, those of bfloat16 and the like refused."""
    for value in values:
        if isinstance(value, TensorProto):
            value = numpy_helper.to_array(value)
        if isinstance(value, (np.generic, float, int)):
            value = np.asarray(value)
        if not isinstance(value, np.ndarray) or value.dtype not in TYPES:
            raise Refused("an input or output that is no tensor of a type that Weir has in NumPy")
        yield value


def data_sets(case):
    """(model as bytes, [(inputs, outputs)]), from memory or from the files of the case."""
    if case.model is not None:
        return case.model.SerializeToString(), case.data_sets
    with open(os.path.join(case.model_dir, "model.onnx"), "rb") as file:
        data = file.read()
    folders = [os.path.join(case.model_dir, n) for n in sorted(os.listdir(case.model_dir))
               if n.startswith("test_data_set_")]
    return data, [(arrays(f, "input"), arrays(f, "output")) for f in folders]


def compare(case, given, off, on, want):
    if off.dtype != want.dtype or off.shape != want.shape:
        return f"{off.dtype}{off.shape} in place of {want.dtype}{want.shape}"
    name = str(want.dtype)
    unit = {"float16": 2 ** -10, "bfloat16": 2 ** -7}.get(name, 0)
    if case.name.startswith("test_dft_inverse"):
        unit = 2 ** -24 * np.abs(given).max()
    near = (off, want) if name != "bfloat16" else (off.astype(np.float32), want.astype(np.float32))
    if not np.allclose(*near, rtol=case.rtol + unit, atol=case.atol + unit, equal_nan=True):
        gap = np.abs(off.astype(np.float64) - want.astype(np.float64))
        return f"differs by {np.nanmax(gap) if gap.size else 0}"
    return None if off.tobytes() == on.tobytes() else "the graph changes bits"


def drawn(case, given, off, i, want):
    """What output i must be: what is expected, or what a draw that came may be."""
    if case.name.startswith("test_bernoulli"):
        return (off[i] != 0).astype(want.dtype)
    if case.name not in DROPS:
        return want
    if i == 1:                  # the mask; no element of these cases is 0 itself
        return off[0] != 0
    ratio = given[1] if len(given) > 1 else 0.5
    return np.where(off[0] == 0, 0, given[0] / (1 - ratio)).astype(want.dtype)


def run_case(library, case):
    data, sets = data_sets(case)
    model = onnx.load_from_string(data)
    inits = {i.name for i in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in inits]
    for given, expected in sets:
        given, expected = list(numbers(given)), list(numbers(expected))
        results = []
        for graph in (False, True):
            try:
                got = library.run(data, given, len(model.graph.output), "", graph)
            except Refused as first:
                if "must be" not in str(first):
                    raise
                # Shapes, axes, bounds that come as inputs: a plan for each value.
                values = ",".join(n for n, a in zip(inputs, given) if a.size <= KNOWN)
                got = library.run(data, given, len(model.graph.output), values, graph)
            results.append(got)
        for i, (off, on, want) in enumerate(zip(*results, expected)):
            wrong = compare(case, given[0] if given else None, off, on,
                            drawn(case, given, results[0], i, want))
            if wrong:
                return wrong
    return None


def write_table(path, kind, counts, reasons):
    lines = [f"# onnx.backend.test, {kind} cases, onnx {onnx.__version__}", "",
             "Written by `bench/onnx/backend.py --table`: each case with the graph off and on.", "",
             "| cases | passed | refused in a sentence | wrong |", "|---:|---:|---:|---:|",
             f"| {sum(counts.values())} | {counts['passed']} | {counts['refused']} | "
             f"{counts['wrong']} |", "", "| refused | why |", "|---:|---|"]
    lines += [f"| {count} | {' '.join(why.split())} |" for why, count in reasons.most_common()]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", nargs="?", default=os.path.join(
        os.environ.get("WEIR_BUILD", "build"), "libweir.so"))
    parser.add_argument("--only", default="")
    parser.add_argument("--list", choices=("refused", "wrong", "passed"), action="append",
                        default=[])
    parser.add_argument("--set", default="node")
    parser.add_argument("--table", help="write the counts there as Markdown")
    options = parser.parse_args()
    library = Library(os.path.abspath(options.library))
    counts = collections.Counter()
    reasons = collections.Counter()
    for case in load_model_tests(kind=options.set):
        if options.only not in case.name:
            continue
        try:
            wrong = run_case(library, case)
            verdict = "wrong" if wrong else "passed"
        except Refused as refusal:
            verdict, wrong = "refused", str(refusal)
        counts[verdict] += 1
        if verdict == "refused":
            reasons[re.sub(r"'[^']*'|\(bytes\): |onnx_open_bytes: ", "", wrong)[:110]] += 1
        if verdict in options.list:
            print(f"{verdict:8}{case.name}: {wrong or ''}")
    print(f"{options.set}: {sum(counts.values())} cases, {counts['passed']} passed, "
          f"{counts['refused']} refused, {counts['wrong']} wrong")
    if options.table:
        write_table(options.table, options.set, counts, reasons)
    if "refused" not in options.list:
        for reason, count in reasons.most_common(12):
            print(f"  {count:4} {reason}")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
