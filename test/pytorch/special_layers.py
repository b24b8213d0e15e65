"""special_layers - cases of special_values.py beyond single rows: pooling, products, convolutions,
normalisation, losses, moves, updates.

Sums meet NaN and infinities only, never magnitudes whose order of adding counts.
"""
import ctypes

import torch
import torch.nn.functional as F

from special_cases import Case, FLOAT_TYPES, NAN, NUMBERS, REALS, cycle, few_lines, ordinary
from special_weir import (Adagrad, Adam, BatchNorm, Conv1d, Conv2d, ConvTranspose2d, Pair, Pool1d,
                          Pool2d, Rmsprop, Sgd, pair_of)

INF = float("inf")
FEW = [NAN, INF, -INF, 0.0, -0.0]


def sprinkled(shape, dtype, every, seed=1):
    """Ordinary numbers with a special one at each every-th place."""
    t = ordinary(shape, dtype, seed).reshape(-1)
    at = torch.arange(seed % every, t.numel(), every)
    t[at] = cycle(FEW, len(at), dtype)
    return t.reshape(shape)


def image(dtype, size):
    """x (2, size, 6, 5): vectors run over the channels."""
    return [sprinkled((2, size, 6, 5), dtype, 7)]


def pool(name, kernel, stride, pad, exclude=False):
    """weir_<name> of images."""
    o = Pool2d(pair_of(kernel, kernel), pair_of(stride, stride), pair_of(pad, pad), exclude)
    return lambda d, x: d.call(name, x, ctypes.byref(o))


def images():
    """Pooling and upsampling."""
    same = dict(inputs=image, sizes=(1, 7, 16, 33))
    line = dict(inputs=lambda t, n: [sprinkled((2, n, 9), t, 5)], sizes=(1, 7, 33))
    return [
        Case("max_pool2d 2", pool("max_pool2d", 2, 2, 0), lambda x: F.max_pool2d(x, 2), **same),
        Case("max_pool2d 3", pool("max_pool2d", 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1),
             **same),
        Case("max_pool2d overlapping", pool("max_pool2d", 3, 1, 1),
             lambda x: F.max_pool2d(x, 3, 1, 1), grad_near=8, **same),
        Case("avg_pool2d", pool("avg_pool2d", 2, 2, 0), lambda x: F.avg_pool2d(x, 2), eps=8, near=4,
             **same),
        Case("avg_pool2d 3", pool("avg_pool2d", 3, 2, 1, True), lambda x: F.avg_pool2d(
            x, 3, 2, 1, count_include_pad=False), eps=8, near=4, grad_near=8, **same),
        Case("global_avg_pool2d", lambda d, x: d.call("global_avg_pool2d", x),
             lambda x: x.mean((2, 3), keepdim=True), eps=16, near=4, **same),
        Case("max_pool1d", lambda d, x: d.call("max_pool1d", x, ctypes.byref(Pool1d(3, 2, 1))),
             lambda x: F.max_pool1d(x, 3, 2, 1), **line),
        Case("avg_pool1d", lambda d, x: d.call("avg_pool1d", x, ctypes.byref(Pool1d(3, 3, 0))),
             lambda x: F.avg_pool1d(x, 3, 3), eps=8, near=4, **line),
        Case("upsample", lambda d, x: d.call("upsample", x, ctypes.c_int64(2), ctypes.c_int64(2)),
             lambda x: F.interpolate(x, scale_factor=2), grad_near=8, **same),
    ]


def matrices(dtype, size):
    """(5, size) (size, 7), a row and a column of each free of specials."""
    a, b = sprinkled((5, size), dtype, 11), sprinkled((size, 7), dtype, 13)
    a[2], b[:, 3] = ordinary((size,), dtype), ordinary((size,), dtype)
    return [a, b]


def by_rows(q, k, v):
    """Causal attention as it is defined, each row by what it sees."""
    rows = []
    for i in range(q.shape[1]):
        s = (q[:, i:i + 1] @ k[:, :i + 1].transpose(1, 2)) / q.shape[2] ** 0.5
        rows.append(s.softmax(2) @ v[:, :i + 1])
    return torch.cat(rows, 1)


def attended(dtype, size):
    """q, k, v: a row of q is NaN, so is an element of v that early rows do not see; a column of v
    is infinite from the first step on."""
    q, k, v = (ordinary((1, 9, size), dtype, seed) for seed in (1, 2, 3))
    q[0, 4, 0], v[0, 0, 0], v[0, 5, -1] = NAN, INF, NAN
    return [q, k, v]


def products():
    """Matrix products, convolutions, attention."""
    sums = dict(eps=64, near=256, grad_eps=64, grad_near=256, special_dy=False, half_eps=4,
                rows=False)
    flat, size = dict(inputs=matrices, sizes=(1, 7, 16, 33, 100)), ctypes.c_int64
    one = Conv2d(pair_of(1, 1), pair_of(0, 0), pair_of(1, 1), 1)
    up = ConvTranspose2d(pair_of(2, 2), pair_of(0, 0), pair_of(1, 1), pair_of(0, 0), 1)
    conv = dict(inputs=lambda t, n: [sprinkled((2, n, 7, 6), t, 41), ordinary((4, n, 3, 3), t)],
                sizes=(1, 7, 16), types=REALS)
    return [
        Case("matmul", lambda d, a, b: d.call("matmul", a, b), torch.matmul, **flat, **sums),
        Case("batch matmul", lambda d, a, b: d.call("matmul", a, b), torch.matmul,
             inputs=lambda t, n: [sprinkled((3, 4, n), t, 17), sprinkled((3, n, 5), t, 19)],
             **sums),
        Case("gemm", lambda d, a, b, c: d.call("gemm", a, b, c, 2.0, 0.5, False, False),
             lambda a, b, c: 2 * (a @ b) + 0.5 * c,
             inputs=lambda t, n: matrices(t, n) + [sprinkled((5, 7), t, 6)], **sums),
        Case("linear", lambda d, x, w, b: d.call("linear", x, w, b), F.linear, inputs=lambda t, n: [
            sprinkled((6, n), t, 11), sprinkled((9, n), t, 37), cycle(FEW, 9, t)], **sums),
        Case("conv2d", lambda d, x, w: d.call("conv2d", x, w, None, ctypes.byref(one)), F.conv2d,
             **conv, **sums),
        Case("conv1d", lambda d, x, w: d.call("conv1d", x, w, None,
                                              ctypes.byref(Conv1d(1, 0, 1, 1))), F.conv1d,
             inputs=lambda t, n: [sprinkled((2, n, 20), t, 31), ordinary((4, n, 3), t)],
             sizes=(1, 7, 16), types=REALS, **sums),
        Case("conv_transpose2d", lambda d, x, w: d.call("conv_transpose2d", x, w, None,
                                                        ctypes.byref(up)),
             lambda x, w: F.conv_transpose2d(x, w, stride=2), inputs=lambda t, n: [
                 sprinkled((2, n, 5, 4), t, 41), ordinary((n, 4, 2, 2), t)], sizes=(1, 7, 16),
             types=REALS, **sums),
        Case("causal attention", lambda d, q, k, v: d.call("attention", q, k, v, size(1), True),
             by_rows, inputs=lambda t, n: [*attended(t, n)[:2], ordinary((1, 9, n), t, 3)],
             sizes=(4, 16, 33), types=REALS, grad=False, **sums),
        Case("attention", lambda d, q, k, v: d.call("attention", q, k, v, size(1), False),
             lambda q, k, v: ((q @ k.transpose(1, 2)) / q.shape[2] ** 0.5).softmax(2) @ v,
             inputs=attended, sizes=(4, 16), types=REALS, **sums),
    ]


def with_scale(make, axis):
    """x of make, then a scale and a bias as long as the axis."""
    def inputs(dtype, size):
        x = make(dtype, size)
        n = x.shape[axis]
        return [x, ordinary((n,), dtype, 2) + 3, ordinary((n,), dtype, 3)]
    return inputs


def batch(dtype, size):
    """(8, size): some columns have specials."""
    x = ordinary((8, size), dtype)
    x[3, ::5], x[4, 1::7], x[1, 2::9] = NAN, INF, -0.0
    return x


def nan_mean(y, mean):
    """The mean of a channel with an infinity is NaN: weir/op.h; PyTorch's is infinite."""
    mean.data[torch.isinf(mean)] = NAN
    return y


def norms():
    """Normalisation: NaN and infinities stay in their channel or row."""
    loose = dict(eps=64, near=64, grad_eps=256, grad_near=2048, types=REALS, special_dy=False)
    train, evaluate = BatchNorm(1e-5, 0.1, True), BatchNorm(1e-5, 0.1, False)
    running = lambda t, n: [*with_scale(batch, 1)(t, n), ordinary((n,), t, 5),     # noqa: E731
                            ordinary((n,), t, 6).abs() + 1]
    lines = with_scale(lambda t, n: few_lines(t, n)[0], 1)
    made = []
    for name, options in (("train", train), ("evaluate", evaluate)):
        made.append(Case(
            f"batch_norm {name}", lambda d, x, w, b, m, v, o=options: d.call(
                "batch_norm", x, w, b, m, v, ctypes.byref(o)),
            lambda x, w, b, m, v, o=options: nan_mean(F.batch_norm(x, m, v, w, b, o is train, 0.1,
                                                                   1e-5), m),
            inputs=running, kinds=["param", "param", "param", "state", "state"],
            sizes=(1, 7, 33, 100), **loose))
    made.append(Case("layer_norm", lambda d, x, w, b: d.call("layer_norm", x, w, b, 1e-5),
                     lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5), inputs=lines,
                     sizes=(7, 33, 100), **loose))
    made.append(Case("rms_norm", lambda d, x, w: d.call("rms_norm", x, w, 1e-5), lambda x, w: x * (
        x.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w, inputs=lambda t, n: lines(t, n)[:2],
                     sizes=(7, 33, 100), **loose))
    made.append(Case("group_norm", lambda d, x, w, b: d.call("group_norm", x, ctypes.c_int64(2), w,
                                                             b, 1e-5),
                     lambda x, w, b: F.group_norm(x, 2, w, b, 1e-5), inputs=with_scale(
                         lambda t, n: sprinkled((3, 6, n, 2), t, 29), 1), sizes=(7, 33), **loose))
    return made


def targets(low, high):
    """x of specials, targets between."""
    def inputs(dtype, size):
        return [cycle([1.5, *FEW, -2.0], size, dtype), (torch.arange(size) % 3 / 2 * (high - low) +
                                                        low).to(dtype)]
    return inputs


def chances(dtype, size):
    """Probabilities 0, 1 and between, with targets."""
    return [cycle([0.0, 0.25, 1.0, 0.5], size, dtype),
            (torch.arange(size) // 4 % 3 / 2).to(dtype)]


def logits(dtype, size):
    """(1, size), one special: each alone, for a mean hides the others."""
    made = ordinary((1, size), dtype)
    made[0, size // 2] = [INF, -INF, NAN, -0.0][size % 4]
    return made


def slope_bce(dy, _, p, t):
    """PyTorch's in f64 ends at 1e-12 in f32."""
    return [dy / p.numel() * (p - t) / (p * (1 - p)).clamp(min=1e-12)]


def losses():
    """Losses: one number, so NaN anywhere is NaN."""
    loose = dict(eps=32, near=16, grad_eps=64, grad_near=64, types=REALS)
    each = dict(inputs=targets(0, 1), kinds=["param", "input"])
    return [
        Case("mse_loss", lambda d, a, b: d.call("mse_loss", a, b), F.mse_loss, **each, **loose),
        Case("bce_logits_loss", lambda d, a, b: d.call("bce_logits_loss", a, b),
             F.binary_cross_entropy_with_logits, **each, **loose),
        Case("bce_loss", lambda d, a, b: d.call("bce_loss", a, b), F.binary_cross_entropy,
             inputs=chances, kinds=["param", "input"], slope=slope_bce, **loose),
        Case("ranking_loss", lambda d, a, b: d.call("ranking_loss", a, b, 0.5),
             lambda a, b: torch.relu(0.5 - (a - b)).mean(), **each, **loose),
        Case("cross_entropy", lambda d, x, t: d.call("cross_entropy", x, t),
             lambda x, t: F.cross_entropy(x, t), inputs=lambda t, n: [logits(t, n),
                                                                      torch.tensor([n - 1])],
             kinds=["param", "input"], sizes=(2, 7, 8, 9, 10, 33, 34, 100), special_dy=False,
             **loose),
        Case("cross_entropy of probabilities", lambda d, x, t: d.call("cross_entropy", x, t),
             lambda x, t: F.cross_entropy(x, t), inputs=lambda t, n: [
                 logits(t, n), torch.full((1, n), 1 / n, dtype=t)], kinds=["param", "input"],
             sizes=(2, 7, 8, 9, 10, 33, 34, 100), special_dy=False, **loose),
        Case("cosine_similarity", lambda d, a, b: d.call("cosine_similarity", a, b, 1e-8),
             lambda a, b: F.cosine_similarity(a, b, 1, 1e-8), inputs=lambda t, n: [
                 few_lines(t, n)[0], few_lines(t, n)[0].flip(0) + 1], sizes=(7, 33, 100),
             grad=False, **{**loose, "near": 64}),
    ]


def sides(d, before, after, value):
    """weir_pad by a constant along the last of two axes."""
    b, a = pair_of(0, before), pair_of(0, after)
    return lambda x: d.call("pad", x, b, a, 0, value)


def joined(d, a, b):
    """weir_concat along the last axis."""
    both = (ctypes.c_void_p * 2)(a.value, b.value)
    return d.call("concat", 2, both, 1)


def moves():
    """What moves elements changes none of them."""
    line = dict(inputs=few_lines, types=FLOAT_TYPES)
    return [
        Case("copy", lambda d, x: d.call("copy", x), lambda x: x.clone(), types=NUMBERS),
        Case("transpose", lambda d, x: d.call("copy", d.call("transpose", x, None)),
             lambda x: x.t().clone(), **line),
        Case("pad", lambda d, x: sides(d, 1, 2, NAN)(x), lambda x: F.pad(x, (1, 2), value=NAN),
             **line),
        Case("concat", joined, lambda a, b: torch.cat([a, b], 1), inputs=lambda t, n: [
            few_lines(t, n)[0], few_lines(t, n + 3)[0]]),
        Case("gather", lambda d, x, i: d.call("gather", x, i), lambda x, i: x[i],
             inputs=lambda t, n: [few_lines(t, n)[0], torch.tensor([3, 0, 3, 2])],
             kinds=["param", "input"], grad_near=4),
        Case("scatter_add", lambda d, x, i, u: d.call("scatter_add", x, i, u),
             lambda x, i, u: x.index_add(0, i, u), inputs=lambda t, n: [
                 few_lines(t, n)[0], torch.tensor([3, 0, 2]), few_lines(t, n)[0][4:7]],
             kinds=["param", "input", "param"], eps=1, types=REALS),
    ]


def updated(name, options, buffers, ref):
    """One step of an optimiser; inputs: param, grad, buffers, lr."""
    def weir(d, p, g, *rest):
        d.status(f"weir_{name}_update", p, g, *rest, ctypes.byref(options))
        return d.call("copy", p)

    def inputs(dtype, size):
        made = [ordinary((size,), dtype), cycle([0.5, *FEW, -2.0], size, dtype)]
        made += [ordinary((size,), dtype, 4).abs() for _ in range(buffers)]
        made += [torch.tensor(1.0, dtype=torch.float64)] if "adam" in name else []
        return made + [torch.tensor(0.5, dtype=dtype)]

    kinds = ["state", "input"] + ["state"] * buffers + (["state"] if "adam" in name else [])
    return Case(name, weir, ref, inputs=inputs, types=REALS, grad=False, eps=16, near=16,
                kinds=kinds + ["input"])


def step_sgd(p, g, m, lr):
    """torch.optim.SGD with momentum and weight decay."""
    m.mul_(0.5).add_(g + 0.25 * p)
    return p.sub_(lr * m).clone()


def step_adam(p, g, m, v, _, lr):
    """torch.optim.Adam, step 1."""
    m.mul_(0.9).add_(g * (1 - 0.9))
    v.mul_(0.999).add_(g * g * (1 - 0.999))
    return p.sub_(lr / (1 - 0.9) * m / (v.sqrt() / (1 - 0.999) ** 0.5 + 1e-8)).clone()


def step_adagrad(p, g, s, lr):
    """torch.optim.Adagrad"""
    s.add_(g * g)
    return p.sub_(lr * g / (s.sqrt() + 1e-10)).clone()


def step_rmsprop(p, g, s, lr):
    """torch.optim.RMSprop"""
    s.mul_(0.99).add_(g * g * (1 - 0.99))
    return p.sub_(lr * g / (s.sqrt() + 1e-8)).clone()


def clipped(d, p, g, call):
    """One gradient through weir_clip_value or weir_clip_norm."""
    pair, made = Pair(p.value, g.value), Pair()
    call(ctypes.byref(pair), ctypes.c_size_t(1), made)
    return ctypes.c_void_p(made.grad)


def by_norm(x):
    """torch.nn.utils.clip_grad_norm_"""
    return x * torch.clamp(1.5 / (x.double().square().sum().sqrt() + 1e-6), max=1.0).to(x.dtype)


def updates():
    """One step with gradients that are NaN or infinite, and what limits gradients."""
    none = ctypes.c_void_p(None)
    return [
        updated("sgd", Sgd(0.5, 0.25, 0, False), 1, step_sgd),
        updated("adam", Adam(0, 0, 0, 0), 2, step_adam),
        updated("adamw", Adam(0, 0, 0, 0), 2, step_adam),
        Case("adagrad", lambda d, p, g, s, lr: (d.status(
            "weir_adagrad_update", p, g, s, lr, ctypes.byref(Adagrad())), d.call("copy", p))[1],
             step_adagrad, inputs=updated("adagrad", None, 1, None).inputs, types=REALS, grad=False,
             eps=16, near=16, kinds=["state", "input", "state", "input"]),
        Case("rmsprop", lambda d, p, g, s, lr: (d.status(
            "weir_rmsprop_update", p, g, s, none, none, lr, ctypes.byref(Rmsprop())),
            d.call("copy", p))[1], step_rmsprop, inputs=updated("rmsprop", None, 1, None).inputs,
             types=REALS, grad=False, eps=16, near=16, kinds=["state", "input", "state", "input"]),
        Case("clip_value", lambda d, p, g: clipped(d, p, g, lambda pair, n, to: d.status(
            "weir_clip_value", pair, n, ctypes.c_double(1.0), ctypes.byref(to))),
             lambda p, g: g.clamp(-1.0, 1.0), inputs=lambda t, n: [
                 ordinary((n,), t), cycle([0.5, *FEW, -2.0], n, t)], grad=False, types=REALS,
             kinds=["param", "input"]),
        Case("clip_norm", lambda d, p, g: clipped(d, p, g, lambda pair, n, to: d.status(
            "weir_clip_norm", pair, n, ctypes.c_double(1.5), ctypes.byref(to), none)),
             lambda p, g: by_norm(g), inputs=lambda t, n: [
                 ordinary((n,), t), logits(t, n)[0]], grad=False, types=REALS, eps=16,
             sizes=(1, 2, 3, 4, 33), kinds=["param", "input"]),
    ]
