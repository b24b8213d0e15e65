"""special_weir - Weir's C library by ctypes, with PyTorch tensors as host memory.

A Device makes tensors of torch tensors, calls operations by name and reads results; nothing is
converted on the way, so that every bit of a NaN, a signed zero or a subnormal arrives.
"""
import ctypes
import torch

TYPES = {torch.float32: 0, torch.float64: 1, torch.int32: 2, torch.int64: 3, torch.uint8: 4,
         torch.bool: 5, torch.float16: 6, torch.bfloat16: 7}
TORCH = {number: name for name, number in TYPES.items()}


# Padding after the known fields of an options structure: fields added in later versions then read
# as 0, their default.
SPARE = ctypes.c_char * 64


class Desc(ctypes.Structure):
    """weir_desc"""
    _fields_ = [("dtype", ctypes.c_int), ("ndim", ctypes.c_int), ("dim", ctypes.c_int64 * 8)]


class Pair(ctypes.Structure):
    """weir_pair"""
    _fields_ = [("param", ctypes.c_void_p), ("grad", ctypes.c_void_p)]


class DeviceOptions(ctypes.Structure):
    """weir_device_options"""
    _fields_ = [("threads", ctypes.c_int), ("seed", ctypes.c_uint64),
                ("spill_dir", ctypes.c_char_p), ("more", SPARE)]


def fields(name, *kinds):
    """An options structure: kinds are "q" (int64), "d" (double), "b" (bool), "q2", "i" or "p" (a
    pointer)."""
    types = {"q": ctypes.c_int64, "d": ctypes.c_double, "b": ctypes.c_bool, "i": ctypes.c_int,
             "q2": ctypes.c_int64 * 2, "p": ctypes.c_void_p}
    made = [(f"f{i}", types[kind]) for i, kind in enumerate(kinds)]
    made.append(("more", SPARE))
    return type(name, (ctypes.Structure,), {"_fields_": made})


Conv2d = fields("weir_conv2d_options", "q2", "q2", "q2", "q", "b", "q2")
ConvTranspose2d = fields("weir_conv_transpose2d_options", "q2", "q2", "q2", "q2", "q")
Conv1d = fields("weir_conv1d_options", "q", "q", "q", "q")
Pool2d = fields("weir_pool2d_options", "q2", "q2", "q2", "b", "b", "q2")
Pool1d = fields("weir_pool1d_options", "q", "q", "q", "b")
BatchNorm = fields("weir_batch_norm_options", "d", "d", "b")
Sgd = fields("weir_sgd_options", "d", "d", "d", "b", "p")
Adam = fields("weir_adam_options", "d", "d", "d", "d")
Adagrad = fields("weir_adagrad_options", "d", "d", "d", "d", "b")
Rmsprop = fields("weir_rmsprop_options", "d", "d", "d", "d", "b", "b")


def pair_of(a, b):
    """Two int64."""
    return (ctypes.c_int64 * 2)(a, b)


class Device:
    """A device and the calls on it; results live until the next clear()."""

    def __init__(self, path, name="cpu", threads=1):
        self.lib = ctypes.CDLL(path)
        self.held = []
        options = DeviceOptions(threads, 1, None)
        self.at = self.pointer("weir_device_open", name.encode(), ctypes.byref(options))

    def error(self):
        """The sentence of the last failure."""
        self.lib.weir_error.restype = ctypes.c_char_p
        return self.lib.weir_error().decode()

    def pointer(self, name, *args):
        """A function that returns a pointer; arguments are ctypes objects, bytes or ints."""
        fn = getattr(self.lib, name)
        fn.restype = ctypes.c_void_p
        result = fn(*args)
        if not result:
            raise RuntimeError(f"{name}: {self.error()}")
        return ctypes.c_void_p(result)

    def status(self, name, *args):
        """A function that returns a status."""
        fn = getattr(self.lib, name)
        fn.restype = ctypes.c_int
        if fn(*args):
            raise RuntimeError(f"{name}: {self.error()}")

    def desc(self, t):
        """weir_desc of a torch tensor."""
        return Desc(TYPES[t.dtype], t.dim(), (ctypes.c_int64 * 8)(*t.shape))

    def make(self, t, kind="input"):
        """A tensor with the torch tensor's elements; kind: input, param or state."""
        t = t.detach().contiguous()
        extra = () if kind == "input" else (None,)
        made = self.pointer(f"weir_{kind}", self.at, self.desc(t), *extra)
        self.held.append(made)
        size = t.numel() * t.element_size()
        self.status("weir_write", made, ctypes.c_void_p(t.data_ptr()), ctypes.c_size_t(size))
        return made

    def call(self, name, *args):
        """weir_<name>, a tensor; floats pass as doubles, None as NULL."""
        fixed = [ctypes.c_double(a) if isinstance(a, float) else a for a in args]
        return self.pointer(f"weir_{name}", *fixed)

    def desc_of(self, t):
        """The desc of a tensor."""
        self.lib.weir_tensor_desc.restype = Desc
        return self.lib.weir_tensor_desc(t)

    def read(self, t):
        """The elements as a torch tensor."""
        d = self.desc_of(t)
        out = torch.empty([d.dim[i] for i in range(d.ndim)], dtype=TORCH[d.dtype])
        size = out.numel() * out.element_size()
        self.status("weir_read", t, ctypes.c_void_p(out.data_ptr()), ctypes.c_size_t(size))
        return out

    def gradients(self, y, dy, wrt):
        """Gradients of y by dy for the tensors wrt; None where y does not depend on one."""
        n = len(wrt)
        source = (ctypes.c_void_p * n)(*[t.value for t in wrt])
        out = (ctypes.c_void_p * n)()
        self.status("weir_gradients_from", y, dy, ctypes.c_size_t(n), source, out)
        return [ctypes.c_void_p(g) if g else None for g in out]

    def keep(self, t):
        """weir_keep"""
        if t is not None:
            self.pointer("weir_keep", t)
        return t

    def scope(self, name):
        """weir_scope_begin, weir_scope_end"""
        self.status(f"weir_scope_{name}", self.at)

    def clear(self):
        """Releases what make() made."""
        for t in self.held:
            self.lib.weir_release(t)
        self.held = []
