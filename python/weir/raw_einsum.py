"""raw_einsum - products over several axes, made of one batched matrix product of the core."""
from . import arith
from . import capi
from .raw import result
from .raw_shape import Product


def TensorDot(A, B, axes=2):
    """The sum over pairs of axes of A and B; axes: how many, or (axes of A, axes of B)."""
    if isinstance(axes, int):
        ours, theirs = range(A.nDim() - axes, A.nDim()), range(axes)
    else:
        ours, theirs = ([a] if isinstance(a, int) else a for a in axes)
    ours = [a % max(A.nDim(), 1) for a in ours]
    theirs = [b % max(B.nDim(), 1) for b in theirs]
    if [A.shape(a) for a in ours] != [B.shape(b) for b in theirs]:
        raise ValueError(f"tensordot: axes {ours} of {A.shape()} and {theirs} of {B.shape()} do "
                         "not fit")
    left = [chr(97 + i) for i in range(A.nDim())]
    right = [chr(65 + i) for i in range(B.nDim())]
    for a, b in zip(ours, theirs):
        right[b] = left[a]
    kept = [x for x in left if x not in right] + [x for x in right if x not in left]
    return _product(A, B, left, right, kept)


def Einsum(ops, A, B):
    """NumPy's einsum of two tensors, each letter at most once in an operand."""
    text = ops.replace(" ", "")
    inputs, arrow, out = text.partition("->")
    parts = inputs.split(",")
    if not arrow or len(parts) != 2:
        raise ValueError(f"einsum: {ops!r} is not of the form ab,bc->ac")
    for labels, t in zip(parts, (A, B)):
        if len(labels) != t.nDim() or len(set(labels)) != len(labels):
            raise ValueError(f"einsum: {labels!r} does not name each axis of {t.shape()} once")
    if len(set(out)) != len(out) or not set(out) <= set(inputs):
        raise ValueError(f"einsum: the result of {ops!r} repeats a letter or has a new one")
    sizes = {}
    for label, size in zip(parts[0] + parts[1], A.shape() + B.shape()):
        if sizes.setdefault(label, size) != size:
            raise ValueError(f"einsum: {label!r} is {sizes[label]} and {size} of {ops!r}")
    return _product(A, B, list(parts[0]), list(parts[1]), list(out))


def _alone(handle, labels, others):
    """Sums over the axes that neither the other operand nor the result has."""
    gone = [i for i, label in enumerate(labels) if label not in others]
    if gone:
        handle = capi.weir_sum(handle, sum(1 << i for i in gone), False)
    return handle, [label for label in labels if label in others]


def _arranged(handle, labels, groups, sizes):
    """The axes in the order of the groups of labels, each group as one axis."""
    order = [labels.index(label) for group in groups for label in group]
    if order != list(range(len(order))):
        handle = capi.weir_transpose(handle, order)
    return capi.weir_reshape(handle, [Product([sizes[x] for x in group]) for group in groups])


def _product(A, B, left, right, out):
    """The tensor with axes `out` of the product of A and B, whose axes are left and right."""
    sizes = dict(zip(left + right, A.shape() + B.shape()))
    number = arith.result_type(A.data_type(), B.data_type())
    within = number if arith.is_float(number) else arith.kDouble
    a, left = _alone(arith.cast(A, within), left, right + out)
    b, right = _alone(arith.cast(B, within), right, left + out)
    batch = [x for x in left if x in right and x in out]
    inner = [x for x in left if x in right and x not in out]
    rows = [x for x in left if x not in right]
    columns = [x for x in right if x not in left]
    a = _arranged(a, left, (batch, rows, inner), sizes)
    b = _arranged(b, right, (batch, inner, columns), sizes)
    labels = batch + rows + columns
    y = capi.weir_reshape(capi.weir_matmul(a, b), [sizes[x] for x in labels] or [1])
    if labels != out:
        y = capi.weir_copy(capi.weir_transpose(y, [labels.index(x) for x in out]))
    return result(arith.to(y, number), A.device())
