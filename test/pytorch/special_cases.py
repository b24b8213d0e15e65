"""special_cases - what special_values.py tries: an operation, PyTorch's, the values, the types.

Halves are expected as weir/op.h promises them: computed in f32, rounded once. Where PyTorch has no
such operation, leaves the answer open (the sign of max(-0, +0)), gives another in the body of a
vector than in its tail, or differs on purpose, the expectation is written out, with a comment.
"""
import torch
import torch.nn.functional as F

from special_weir import TYPES

HALVES = (torch.float16, torch.bfloat16)
REALS = (torch.float32, torch.float64)
FLOAT_TYPES = REALS + HALVES
INTEGERS = (torch.int32, torch.int64, torch.uint8)
NUMBERS = FLOAT_TYPES + INTEGERS
NAN, INF = float("nan"), float("inf")


def specials(dtype):
    """The values, of a type, that operations are most often wrong about."""
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        near = [0, 1, 2, 3, 7, info.max, info.max - 1, info.max // 2, info.min, info.min + 1]
        return torch.tensor(near + ([-1, -2, -7] if info.min else []), dtype=dtype)
    info = torch.finfo(dtype)
    values = [NAN, INF, -INF, 0.0, -0.0, info.smallest_normal / 4, -info.smallest_normal / 4,
              info.smallest_normal, -info.smallest_normal, info.max, -info.max, 1.0, -1.0, 0.5,
              -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 6.0, -6.0, 2.0, -2.0, 20.0, -20.0, 100.0, -100.0]
    t = torch.tensor(values, dtype=torch.float64).to(dtype)
    return torch.cat([t, -t[:1], t[5:6] * 0 + info.smallest_normal * info.eps])


def cycle(values, n, dtype):
    """n elements of a list, over and over."""
    t = values if torch.is_tensor(values) else torch.tensor(values, dtype=torch.float64)
    return t[torch.arange(n) % len(t)].to(dtype)


def unary_inputs(dtype, size):
    """One operand."""
    return [cycle(specials(dtype), size, dtype)]


def pairs(dtype, size):
    """Two operands: all pairs, if size is large enough."""
    s = specials(dtype)
    if len(s) > 14:                         # the classes, once each
        s = s[:12] if size > 100 else s
    at = torch.arange(size)
    return [s[at % len(s)], s[at // len(s) * 5 % len(s) if size <= 100 else at // len(s) % len(s)]]


def ordinary(shape, dtype, seed=1):
    """Small numbers, different and exact in every type."""
    n = 1
    for d in shape:
        n *= d
    at = (torch.arange(n) * 37 + seed * 11) % 64
    return ((at.double() - 31.5) / 16 if dtype.is_floating_point else at).to(dtype).reshape(shape)


def lines(dtype, size, few=False):
    """(rows, size): ordinary numbers with one special in each row, then with two, then three."""
    s = specials(dtype)
    if few and dtype.is_floating_point:     # no sum of these depends on its order
        s = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0], dtype=dtype)
    n = len(s)
    x = ordinary((3 * n, size), dtype)
    for r in range(3 * n):
        x[r, (r * 7 + 3) % size] = s[r % n]
        if r >= n:
            x[r, (r * 5 + 1) % size] = s[(r * 3 + r // n) % n]
        if r >= 2 * n:
            x[r, size // 2] = s[(r * 7) % n]
    return [x]


def few_lines(dtype, size):
    """lines without magnitudes whose sums depend on the order."""
    return lines(dtype, size, True)


class Case:
    """One operation: weir(dev, *tensors), torch(*tensors), inputs(dtype, size)."""

    def __init__(self, name, weir, ref, inputs=unary_inputs, types=FLOAT_TYPES, eps=0.0, grad=True,
                 slope=None, kinds=None, sizes=None, grad_eps=4.0, special_dy=True, half_eps=1.0,
                 grad_near=0.0, near=0.0, rows=True):
        self.name, self.weir, self.ref, self.inputs = name, weir, ref, inputs
        self.types, self.eps, self.grad, self.slope = types, eps, grad, slope
        self.kinds, self.sizes, self.grad_eps = kinds, sizes, grad_eps
        self.special_dy, self.half_eps = special_dy, half_eps
        self.grad_near, self.near = grad_near, near
        self.rows = rows                    # one definition for all instruction sets

    def torch(self, *t):
        """PyTorch's answer; of halves the one in f32, rounded."""
        half = next((x.dtype for x in t if x.dtype in HALVES), None)
        if half is None:
            return self.ref(*t)
        wide = [x.float() if x.dtype in HALVES else x for x in t]
        y = self.ref(*wide)
        return y.to(half) if y.dtype == torch.float32 else y

    def eps_of(self, dtype):
        """Allowed error of a value in units of the type."""
        return (self.half_eps if dtype in HALVES else 1.0) * self.eps if self.eps else 0.0


def plain(name, *args):
    """weir_<name>(t..., args...)"""
    return lambda d, *t: d.call(name, *t, *args)


def round_half_from_zero(x):
    """Half away from zero, which PyTorch lacks."""
    whole = torch.trunc(x)
    up = torch.where((x - whole).abs() >= 0.5, 1.0, 0.0).to(x.dtype)
    return torch.copysign(whole.abs() + up, x)


def sign_kept(x):
    """Zeros and NaN stay; PyTorch makes both 0."""
    return torch.where(x > 0, 1.0, torch.where(x < 0, -1.0, x.detach())).to(x.dtype)


def in_wide(fn):
    """A slope as it is computed for halves: in f32."""
    def slope(dy, y, *x):
        t = dy.dtype
        if t in HALVES:
            dy, y, *x = (v.float() if v.dtype in HALVES else v for v in (dy, y, *x))
        return [g.to(t) for g in fn(dy, y, *x)]
    return slope


def zero(dy):
    """+0 of the gradient's shape."""
    return torch.zeros_like(dy)


# Slopes where PyTorch's vector body and tail disagree at NaN: here NaN goes through.
@in_wide
def slope_relu6(dy, y, _):
    return [torch.where((y <= 0) | (y >= 6), zero(dy), dy)]


@in_wide
def slope_hardswish(dy, _, x):
    return [torch.where(x <= -3, zero(dy), torch.where(x >= 3, dy, dy * (x / 3 + 0.5)))]


@in_wide
def slope_hardsigmoid(dy, _, x):
    """PyTorch's in f64 has a sixth in f32."""
    return [torch.where((x > -3) & (x < 3), dy / 6, zero(dy))]


@in_wide
def slope_softsign(dy, _, x):
    """0 at infinity, where PyTorch, which differentiates a quotient, has NaN."""
    return [dy / ((1 + x.abs()) * (1 + x.abs()))]


def gelu(x):
    """gelu(inf) is inf; PyTorch gives NaN in vectorised f32 code and inf elsewhere."""
    return torch.where(x == INF, x, F.gelu(x))


def hardswish(x):
    """0 from -3 down, at -inf too; PyTorch has -0, and NaN at -inf."""
    return torch.where(x <= -3, zero(x), F.hardswish(x))


def slope_elu(alpha, scale):
    """NaN passes; PyTorch's tail lets dy through there."""
    @in_wide
    def slope(dy, _, x):
        return [torch.where(x > 0, dy * scale, dy * (alpha * scale * torch.exp(x)))]
    return slope


def slope_tie(chosen):
    """max, min: PyTorch's formula."""
    @in_wide
    def slope(dy, _, a, b):
        half = torch.where(a == b, dy * 0.5, dy)
        lost = a < b if chosen == "max" else a > b
        won = a > b if chosen == "max" else a < b
        return [torch.where(lost, zero(dy), half), torch.where(won, zero(dy), half)]
    return slope


def curves():
    """Functions of one number."""
    one = [
        Case("relu", plain("relu"), torch.relu),
        Case("sigmoid", plain("sigmoid"), torch.sigmoid, eps=4),
        Case("tanh", plain("tanh"), torch.tanh, eps=4, grad_near=16),
        Case("exp", plain("exp"), torch.exp, eps=4),
        Case("log", plain("log"), torch.log, eps=4),
        Case("sqrt", plain("sqrt"), torch.sqrt),
        Case("rsqrt", plain("rsqrt"), torch.rsqrt, eps=2, special_dy=False),
        Case("abs", plain("abs"), torch.abs),
        Case("neg", plain("neg"), torch.neg),
        Case("square", plain("square"), torch.square),
        Case("affine", plain("affine", 2.0, 3.0), lambda x: 2 * x + 3, eps=1),
        Case("affine0", plain("affine", 1.0, -0.0), lambda x: 1 * x + -0.0),
        Case("relu6", plain("relu6"), F.relu6, slope=slope_relu6),
        Case("leaky_relu", plain("leaky_relu", 0.25), lambda x: F.leaky_relu(x, 0.25)),
        Case("elu", plain("elu", 1.5), lambda x: F.elu(x, 1.5), eps=4, slope=slope_elu(1.5, 1)),
        Case("selu", plain("selu"), F.selu, eps=4,
             slope=slope_elu(1.6732632423543772, 1.0507009873554805)),
        Case("gelu", plain("gelu"), gelu, eps=8, near=8, grad_eps=64, grad_near=16),
        Case("silu", plain("silu"), F.silu, eps=4, grad_eps=16),
        Case("hardsigmoid", plain("hardsigmoid"), F.hardsigmoid, eps=1,
             slope=slope_hardsigmoid),
        Case("hardswish", plain("hardswish"), hardswish, eps=2, slope=slope_hardswish),
        Case("softplus", plain("softplus"), F.softplus, eps=4, special_dy=False, grad_near=1e-30),
        Case("softsign", plain("softsign"), F.softsign, eps=2, slope=slope_softsign),
        Case("floor", plain("floor"), torch.floor), Case("ceil", plain("ceil"), torch.ceil),
        Case("round", plain("round"), round_half_from_zero, grad=False),
        Case("round_even", plain("round_even"), torch.round),
        Case("sign", plain("sign"), sign_kept, grad=False),
        Case("clamp", plain("clamp", -0.5, 2.0), lambda x: torch.clamp(x, -0.5, 2.0)),
        Case("clamp0", plain("clamp", 0.0, 6.0), lambda x: torch.clamp(x, 0.0, 6.0)),
        Case("reciprocal", plain("reciprocal"), torch.reciprocal, special_dy=False),
        Case("asin", plain("asin"), torch.asin, eps=4, grad_eps=8),
        Case("expm1", plain("expm1"), torch.expm1, eps=4, grad_eps=8),
    ]
    for name in ("erf", "sin", "cos", "tan", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
                 "atanh", "log1p"):
        one.append(Case(name, plain(name), getattr(torch, name), eps=8, grad_eps=16))
    for name in ("abs", "neg", "square"):
        one.append(Case(name, plain(name), getattr(torch, name), types=INTEGERS))
    one.append(Case("sign", plain("sign"), torch.sign, types=INTEGERS))
    one.append(Case("clamp", plain("clamp", -1.0, 5.0), lambda x: torch.clamp(x, -1 if x.dtype !=
                    torch.uint8 else 0, 5), types=INTEGERS))
    return one


def without_zeros(fn):
    """Of -0 and +0 PyTorch's body and tail give different ones: here the second, see weir/op.h."""
    def ref(a, b):
        return torch.where((a == 0) & (b == 0), b, fn(a, b))
    return ref


def between():
    """Functions of two numbers."""
    size = dict(inputs=pairs, sizes=(1, 7, 33, 144, 196))
    two = [
        Case("add", plain("add"), torch.add, **size), Case("sub", plain("sub"), torch.sub, **size),
        Case("mul", plain("mul"), torch.mul, **size),
        Case("div", plain("div"), torch.div, eps=1, grad_eps=4, **size),
        Case("max", plain("max"), without_zeros(torch.maximum), slope=slope_tie("max"), **size),
        Case("min", plain("min"), without_zeros(torch.minimum), slope=slope_tie("min"), **size),
        Case("pow", plain("pow"), torch.pow, eps=8, grad_eps=64, **size),
        Case("prelu", lambda d, x, w: d.call("prelu", x, w), lambda x, w: F.prelu(x, w),
             inputs=lambda t, n: [cycle(specials(t), n, t).reshape(1, n), cycle(
                 specials(t), n, t).flip(0).clone()]),
    ]
    for name in ("add", "sub", "mul"):
        two.append(Case(name, plain(name), getattr(torch, name), types=INTEGERS, **size))
    two.append(Case("max", plain("max"), torch.maximum, types=INTEGERS, **size))
    two.append(Case("min", plain("min"), torch.minimum, types=INTEGERS, **size))
    two.append(Case("div", plain("div"), torch.div, types=INTEGERS, eps=1, **size))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        two.append(Case(name, plain(name), getattr(torch, name), types=NUMBERS, grad=False, **size))
    for name in ("and", "or", "xor"):
        two.append(Case("logical_" + name, plain("logical_" + name),
                        getattr(torch, "logical_" + name), types=(torch.bool,), **size))
    two.append(Case("logical_not", plain("logical_not"), torch.logical_not, types=(torch.bool,)))
    two.append(Case("where", plain("where"), torch.where, types=NUMBERS, sizes=(1, 7, 33, 144),
                    inputs=lambda t, n: [torch.arange(n) % 3 == 0, *pairs(t, n)]))
    return two


def casts():
    """Any type to any; to integers what does not fit is 0, where C and PyTorch leave it open."""
    def fits(to):
        def ref(x):
            if to.is_floating_point or to == torch.bool or not x.dtype.is_floating_point:
                return x.to(to)
            v, info = x.double().trunc(), torch.iinfo(to)
            top = 2.0 ** (8 if to == torch.uint8 else 31 if to == torch.int32 else 63)
            good = (v >= info.min) & (v < top)
            return torch.where(good, v, 0.0).to(to)
        return ref

    made = []
    for to, number in TYPES.items():
        case = Case(f"cast to {str(to)[6:]}", plain("cast", number), fits(to),
                    types=tuple(TYPES), grad=to.is_floating_point, eps=0)
        case.torch = case.ref
        made.append(case)
    return made


def rows_of(name, *args):
    """weir_<name>(x, 1 << 1, false)"""
    return lambda d, x: d.call(name, x, *args, 2, False)


def columns_of(name, *args):
    """The same over axis 0 of the transposed lines."""
    return lambda d, x: d.call(name, x, *args, 1, False)


def turned(dtype, size):
    """few_lines standing."""
    return [few_lines(dtype, size)[0].t().contiguous()]


def first_extreme(largest, d):
    """The gradient of amax, amin goes to the first one, a NaN to the first NaN: weir/op.h; PyTorch
    shares it and loses it at NaN."""
    def slope(dy, _, x):
        pick = torch.argmax if largest else torch.argmin
        g = torch.zeros_like(x)
        g.scatter_(d, pick(x, d, keepdim=True), dy.unsqueeze(d))
        return [g]
    return slope


def product_of_others(d):
    """The gradient of a product, also where another factor is 0, infinite or NaN."""
    def slope(dy, _, x):
        others = torch.stack([torch.cat([x.narrow(d, 0, i), x.narrow(d, i + 1, x.shape[d] - i - 1)],
                                        d).double().prod(d) for i in range(x.shape[d])], d)
        return [(dy.unsqueeze(d).double() * others).to(x.dtype)]
    return slope


def reductions():
    """Along lines, and along columns."""
    made = []
    for where, dim, inputs, call in (("", 1, few_lines, rows_of), (" columns", 0, turned,
                                                                   columns_of)):
        def both(name, ref, where=where, inputs=inputs, **more):
            more.setdefault("eps", 16)
            made.append(Case(name + where, more.pop("weir"), ref, inputs=inputs,
                             sizes=(1, 7, 16, 33, 100), grad_eps=32, **more))
        both("sum", lambda x, d=dim: x.sum(d), weir=call("sum"))
        both("mean", lambda x, d=dim: x.mean(d), weir=call("mean"))
        both("prod", lambda x, d=dim: x.prod(d), weir=call("prod"), types=REALS,
             slope=product_of_others(dim))
        both("amax", lambda x, d=dim: x.amax(d), weir=call("amax"), eps=0,
             slope=first_extreme(True, dim))
        both("amin", lambda x, d=dim: x.amin(d), weir=call("amin"), eps=0,
             slope=first_extreme(False, dim))
        both("argmax", lambda x, d=dim: x.argmax(d), eps=0,
             weir=lambda d, x, k=dim: d.call("argmax", x, k, False))
        both("argmin", lambda x, d=dim: x.argmin(d), eps=0,
             weir=lambda d, x, k=dim: d.call("argmin", x, k, False))
        both("cumsum", lambda x, d=dim: x.cumsum(d), weir=lambda d, x, k=dim:
             d.call("cumsum", x, k, False))
        both("var", lambda x, d=dim: x.var(d, correction=0), types=REALS,
             weir=lambda d, x, k=dim: d.call("var", x, 1 << k, 0, False))
        both("norm 1", lambda x, d=dim: torch.linalg.vector_norm(x, 1, d), weir=lambda d, x, k=dim:
             d.call("norm", x, 1, 1 << k, False), types=REALS)
        both("norm 2", lambda x, d=dim: torch.linalg.vector_norm(x, 2, d), weir=lambda d, x, k=dim:
             d.call("norm", x, 2, 1 << k, False), types=REALS, special_dy=False)
        both("softmax", lambda x, d=dim: x.softmax(d), weir=lambda d, x, k=dim:
             d.call("softmax", x, k), grad_near=8)
        both("log_softmax", lambda x, d=dim: x.log_softmax(d), weir=lambda d, x, k=dim:
             d.call("log_softmax", x, k), grad_near=32)
    whole = dict(types=INTEGERS, inputs=lambda t, n: [lines(t, n)[0]], sizes=(1, 7, 33, 100))
    for name in ("sum", "prod", "amax", "amin"):
        made.append(Case(name, rows_of(name), lambda x, f=name: getattr(x, f)(1), **whole))
    made.append(Case("argmax", lambda d, x: d.call("argmax", x, 1, False), lambda x: x.argmax(1),
                     **whole))
    made.append(Case("argmin", lambda d, x: d.call("argmin", x, 1, False), lambda x: x.argmin(1),
                     **whole))
    return made
