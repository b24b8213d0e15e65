"""tensor - SINGA's module of tensors: the Tensor, NumPy in and out, functions of Tensors.

Functions here compute or are recorded but are not differentiated: see weir.autograd.
"""
import numpy as np

from weir import core
from .asserted import ArgumentError, ShapeError
from . import singa_wrap as singa
from .raw.tensor import CTensor  # noqa: F401
from .tensor_class import Tensor, plain_array

float32 = core.kFloat32
float16 = core.kFloat16
int32 = core.kInt
float64 = core.kDouble
int64 = core.kInt64
uint8 = core.kUChar
bool_ = core.kBool
bfloat16 = core.kBFloat16

PlaceHolder = Tensor


# ---- NumPy ----

def from_numpy(np_array, dev=None):
    """A new Tensor: int64 becomes int32, float64 float32, as in SINGA."""
    if not isinstance(np_array, (np.ndarray, np.generic, list, tuple)):
        raise ArgumentError(f"from_numpy: np_array is a {type(np_array).__name__}, must be a NumPy "
                            "array or a list of numbers")
    array = plain_array(np_array)
    return Tensor(data=array, device=dev, dtype=core.dtype_number(array.dtype))


def to_numpy(t):
    """A new array of the Tensor's elements."""
    return t.data.to_numpy()


def to_host(t):
    """A copy on the host's device."""
    return Tensor(data=t.data.Clone(t.device.host()), requires_grad=t.requires_grad)


def copy_from_numpy(data, np_array):
    """Copies an array to a raw tensor of as many elements."""
    if np_array.size != data.Size():
        raise ShapeError(f"copy_from_numpy: an array of shape {np_array.shape} does not fit a "
                         f"tensor of shape {data.shape()}")
    data.from_numpy(plain_array(np_array))


# ---- raw tensors ----

def from_raw_tensor(t):
    """A Tensor that shares a raw tensor."""
    return Tensor(data=t)


def from_raw_tensors(tt):
    """Tensors that share the elements of raw tensors."""
    return [from_raw_tensor(t) for t in tt]


def _raw(x):
    return x.data if isinstance(x, Tensor) else x


def _call_singa_func(func, *args):
    """A Tensor of what a function of singa_wrap gives; Tensors become raw ones."""
    return from_raw_tensor(func(*[_raw(x) for x in args]))


# ---- making Tensors ----

def _filled(shape, device, x, dtype):
    device = core.default_device() if device is None else device
    t = Tensor(shape, device, dtype)
    t.set_value(x)
    return t


def zeros(shape, device=None, dtype=float32):
    """A Tensor of zeros on a device (None: the default one)."""
    return _filled(shape, device, 0.0, dtype)


def ones(shape, device=None, dtype=float32):
    """A Tensor of ones on a device (None: the default one)."""
    return _filled(shape, device, 1.0, dtype)


def full(shape, value, device=None, dtype=float32):
    """A Tensor whose elements are `value`, on a device (None: the default one)."""
    return _filled(shape, device, value, dtype)


def zeros_like(t):
    """A Tensor of zeros with the shape, element type and device of t."""
    return _filled(t.shape, t.device, 0.0, t.dtype)


def ones_like(t):
    """A Tensor of ones with the shape, element type and device of t."""
    return _filled(t.shape, t.device, 1.0, t.dtype)


def random(shape, device=None):
    """Numbers in [0, 1)."""
    return Tensor(shape, device).uniform(0, 1)


def product(shape):
    """The product of the sizes of a shape: its number of elements."""
    return singa.Product(shape)


def sizeof(dtype):
    """Bytes of one element."""
    return singa.SizeOf(core.dtype_number(dtype))


# ---- copies and shapes ----

def copy_data_to_from(dst, src, size, dst_offset=0, src_offset=0):
    """`size` elements of src from src_offset on to dst from dst_offset on."""
    singa.CopyDataToFrom(dst.data, src.data, size, dst_offset, src_offset)


def reshape(tensor, shape):
    """A Tensor with the elements in another shape; not differentiated."""
    return from_raw_tensor(singa.Reshape(tensor.data, shape))


def contiguous(tensor):
    """A Tensor whose elements lie in row-major order; not differentiated."""
    return from_raw_tensor(singa.Contiguous(tensor.data))


def transpose(t, axes=None):
    """A view with the axes in another order, reversed by default."""
    return from_raw_tensor(singa.DefaultTranspose(t.data) if axes is None
                           else singa.Transpose(t.data, axes))


def repeat(t, repeats, axis=None):
    """NumPy's repeat; without an axis, of the elements in a row."""
    return t.detach().repeat(repeats, axis)


def concatenate(tensors, axis):
    """Tensors joined along `axis`; not differentiated (autograd.cat is)."""
    return from_raw_tensor(singa.ConcatOn(singa.VecTensor(t.data for t in tensors), axis))


# ---- elements ----

def _named(function, name, doc):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name, func):
    def function(t):
        return from_raw_tensor(func(t.data))
    return _named(function, name, f"{name} of each element.")


abs = _unary("abs", singa.Abs)
exp = _unary("exp", singa.Exp)
ceil = _unary("ceil", singa.Ceil)
floor = _unary("floor", singa.Floor)
log = _unary("log", singa.Log)
relu = _unary("relu", singa.ReLU)
sigmoid = _unary("sigmoid", singa.Sigmoid)
sign = _unary("sign", singa.Sign)
sqrt = _unary("sqrt", singa.Sqrt)
square = _unary("square", singa.Square)
tanh = _unary("tanh", singa.Tanh)


def _into(raw, out):
    """A new Tensor, or the one given for the result."""
    if out is None:
        return from_raw_tensor(raw)
    out.data.put(raw.handle)
    return out


def _binary(name, func, doc):
    def function(lhs, rhs, ret=None):
        return _into(func(_raw(lhs), _raw(rhs)), ret)
    return _named(function, name, doc)


def _comparison(name, func, doc):
    def function(t, x, ret=None):
        return _into(func(_raw(t), _raw(x)), ret)
    return _named(function, name, doc)


add = _binary("add", singa.Add, "lhs + rhs; rhs may be a number, ret the place of the result.")
sub = _binary("sub", singa.Sub, "lhs - rhs")
eltwise_mult = _comparison("eltwise_mult", singa.EltwiseMult, "lhs rhs, element by element")
div = _binary("div", singa.Div, "lhs / rhs")
lt = _comparison("lt", singa.LT, "1 where t < x, else 0")
le = _comparison("le", singa.LE, "1 where t <= x, else 0")
gt = _comparison("gt", singa.GT, "1 where t > x, else 0")
ge = _comparison("ge", singa.GE, "1 where t >= x, else 0")
eq = _comparison("eq", singa.EQ, "1 where t == x, else 0")


def pow(t, x, out=None):
    """t to the power x, a Tensor or a number."""
    return _into(singa.Pow(t.data, _raw(x)), out)


def softmax(t, out=None):
    """Softmax of each row; of a vector, of all its elements."""
    return _into(singa.SoftMax(t.data), out)


# ---- reductions ----

def sum(t, axis=None, out=None):
    """Sum along an axis, several, or all: then of shape (1,)."""
    return _into(singa.Sum(t.data, axis), out)


def average(t, axis=None):
    """Mean along an axis; without one a Python number."""
    if axis is not None:
        return from_raw_tensor(singa.Average(t.data, axis))
    return singa.AverageAsFloat(t.data)


def sum_columns(M):
    """The sum of the columns, (rows, 1)."""
    if M.ndim() != 2:
        raise ShapeError(f"sum_columns: M has shape {M.shape}, must have 2 axes")
    ret = Tensor((M.shape[0], 1), M.device)
    singa.SumColumns(M.data, ret.data)
    return ret


def sum_rows(M):
    """The sum of the rows, (1, columns)."""
    if M.ndim() != 2:
        raise ShapeError(f"sum_rows: M has shape {M.shape}, must have 2 axes")
    ret = Tensor((1, M.shape[1]), M.device)
    singa.SumRows(M.data, ret.data)
    return ret


# ---- matrices ----

def mult(A, B, C=None, alpha=1.0, beta=0.0):
    """alpha A B, or C = alpha A B + beta C in place."""
    if C is not None:
        singa.MultWithScale(alpha, A.data, B.data, beta, C.data)
        return C
    raw = singa.Mult(A.data, B.data)
    return from_raw_tensor(raw if alpha == 1 else singa.MultFloat(raw, alpha))


def axpy(alpha, x, y):
    """y += alpha x, in place; alpha is a number or a Tensor of one element."""
    singa.Axpy(_raw(alpha), x.data, y.data)
    return y


def tensordot(A, B, axes=2):
    """NumPy's tensordot: the last `axes` axes of A with the first of B, or pairs of axes. Of all
    axes the shape is (1,)."""
    return from_raw_tensor(singa.TensorDot(A.data, B.data, axes))


def einsum(ops, *args):
    """NumPy's einsum of two Tensors, with an explicit "->"."""
    if len(args) != 2:
        raise TypeError(f"einsum: {len(args)} operands given, expected 2")
    return from_raw_tensor(singa.Einsum(ops, args[0].data, args[1].data))


# ---- fills and rows, in place ----

def bernoulli(p, t):
    """1 with probability p, else 0."""
    return t.bernoulli(p)


def gaussian(mean, std, t):
    """Fills t with normal numbers, in place; returns t."""
    return t.gaussian(mean, std)


def uniform(low, high, t):
    """Numbers in [low, high)."""
    return t.uniform(low, high)


def add_column(alpha, v, beta, M):
    """Each column of M becomes alpha v + beta column."""
    singa.AddColumnWithScale(float(alpha), float(beta), v.data, M.data)
    return M


def add_row(alpha, v, beta, M):
    """Each row of M becomes alpha v + beta row."""
    singa.AddRowWithScale(float(alpha), float(beta), v.data, M.data)
    return M
