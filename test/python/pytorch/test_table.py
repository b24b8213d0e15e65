"""test_table - rows of the table of ATen overloads against PyTorch: values and gradients."""
import pytest

torch = pytest.importorskip("torch", reason="torch: left out")

from torch.nn import functional as F    # noqa: E402

import weir.torch       # noqa: E402
from weir import errors     # noqa: E402

W = (2, 3, 4)       # the shape of the parameter that each case reads, of values around 0

AT = torch.tensor([[[0, 2, 1, 1], [2, 2, 0, 0]], [[1, 1, 0, 2], [0, 1, 2, 2]]])


def scattered(w):
    y = w * 1.0
    y[:, 1] = 2.0
    y[0] = w[1]
    y[1, 2].zero_()
    return y


def put(w):
    y = w * 1.0
    y[:, torch.tensor([1, 1, -1])] = 3.0
    y[1, :, torch.tensor([2])] = -1.0
    return y


def put_rows(w):
    """Several values, by several tensors that are broadcast, of axes that are apart; of those for
    one place, the last. (PyTorch gives their gradient to all of them, Weir to the last.)"""
    y = w * 1.0
    y[:, torch.tensor([2, 0])] = w[:, :2] * 3
    y[torch.tensor([[1], [0]]), :, torch.tensor([0, -1, 2])] = w[..., :3]
    y[1, torch.tensor([0, 2, 0])] = torch.arange(12.0).view(3, 4)
    return y


def put_sums(w):
    """Sums at places that come twice."""
    y = torch.ops.aten.index_put(w, [None, torch.tensor([1, 0, 1])], w * 2, True)
    y = torch.ops.aten.index_put(y, [torch.tensor([0, 0]), None, torch.tensor([[1], [3]])],
                                 w[0, :, :1].squeeze(1), True)
    return y.index_put((torch.tensor([1, 1]), torch.tensor([0, 0])), w[0, 0], accumulate=True)


def put_masks(w):
    y = w * 1.0
    y[w > 0.4] = -2.0
    y[torch.tensor([[True, False, False], [False, True, True]])] = w[0, 0] * 3
    y[:, torch.tensor([True, False, True])] = w[:, :1]
    return torch.ops.aten.index_put(y, [None, torch.tensor([False, True, True])], w[:, 1:2], True)


def inverse(w):
    order = w.flatten().argsort()
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return w.flatten()[order] * 2 + w.flatten()[back]


def has_grouped_mm():
    """Does torch.export take it in f32? That of PyTorch 2.13 takes bf16 alone."""
    try:
        torch._grouped_mm(torch.ones(2, 4, device="meta"), torch.ones(1, 4, 4, device="meta"),
                          offs=torch.ones(1, dtype=torch.int32, device="meta"))
    except RuntimeError:
        return False
    return True


GROUPED_MM = has_grouped_mm()


def groups(w):
    """Rows in groups of other sizes than blocks have, and none in some."""
    x, m = w.reshape(6, 4), torch.stack([w[0].T @ w[1], w[1].T @ w[1], w[0].T @ w[0]])
    parts = [torch._grouped_mm(x, m, offs=torch.tensor(ends, dtype=torch.int32))
             for ends in ([1, 1, 6], [6, 6, 6], [2, 4, 6])]
    many = m.repeat(3, 1, 1)
    return sum(parts) + torch._grouped_mm(
        x, many, offs=torch.tensor([0, 0, 1, 4, 4, 4, 5, 5, 6], dtype=torch.int32))


def seen(w):
    return torch.ones(3, 3, dtype=torch.bool).tril()


CASES = {
    "arithmetic": lambda w: (w + 2) * 3 - (1 - w) / (w * w + 1.5) + w.pow(3) - (w + w.neg()) ** 2,
    "alpha": lambda w: torch.add(w, w[0], alpha=3) + torch.sub(w, w[1], alpha=2),
    "integers": lambda w: w * (torch.arange(4) * 2 + 1) + torch.arange(3).unsqueeze(-1) // 2,
    "unary": lambda w: w.exp() + w.sin() * w.cos() + w.abs() + (w * w + 1).sqrt()
    + (w * w + 1).log() + w.erf() + w.tanh() + w.sigmoid() + (w * w + 1).rsqrt(),
    "activations": lambda w: F.relu(w) + F.gelu(w) + F.gelu(w, approximate="tanh") + F.silu(w)
    + F.hardswish(w) + F.hardsigmoid(w) + F.elu(w) + F.leaky_relu(w, 0.1) + F.softplus(w)
    + F.mish(w) + F.relu6(w * 9) + F.hardtanh(w, -0.5, 0.7) + F.logsigmoid(w) + F.selu(w),
    "compare": lambda w: torch.where(w > 0.1, w, -w) + w.masked_fill(w.le(-0.3), 5.0)
    + w * (w.ge(w[0]) & w.ne(0.0)),
    "fused": lambda w: torch.addcmul(w, w[0], w[1], value=2) + torch.addcdiv(w, w[0], w * w + 1)
    + F.threshold(w, 0.2, -3.0) + torch.cat([F.glu(w), F.glu(w, -1)], -1),
    "clamp": lambda w: w.clamp(-0.5, 0.5) + w.clamp_min(0.1) + torch.maximum(w, w[0]),
    "views": lambda w: (w.permute(2, 0, 1).reshape(8, 3).t().unsqueeze(0).expand(2, 3, 8) * 2)
    .flatten(1).unflatten(1, (4, 6)).transpose(0, 2).squeeze(),
    "parts": lambda w: torch.cat([w[:, :1], w[:, -2:], w[..., :3, :]], dim=1)[:, ::2],
    "split": lambda w: torch.stack([a * b for a, b in zip(w.split(2, -1), w.chunk(2, dim=-1))])
    + w.unbind(1)[0][:, :2].unsqueeze(1),
    "roll-flip": lambda w: torch.roll(w, (1, -2), (1, 2)) * torch.flip(w, (0, 2)),
    "pad": lambda w: F.pad(w, (1, 2, 0, 1), value=3.0) + F.pad(w, (1, 2)).sum(1, keepdim=True),
    "crop-reflect": lambda w: F.pad(w, (-1, 1)) + F.pad(w, (2, 1), mode="reflect")[..., 1:5],
    "repeat": lambda w: w.repeat(2, 1, 2) * 2 + w.tile(2, 1, 2) + w.repeat(2, 1, 1).tile((2,)),
    "triangle": lambda w: (w @ w.mT).tril() + (w @ w.mT).triu(1),
    "index": lambda w: w[torch.tensor([[1, 0], [-1, 1]])] * 2,
    "index-two": lambda w: w[:, torch.tensor([2, 0]), torch.tensor([1, -1])],
    "index-select": lambda w: w.index_select(2, torch.tensor([3, 0, 0])),
    "gather": lambda w: w.gather(1, torch.tensor([[[0, 2, 1, 1]], [[1, 1, 0, 2]]])),
    "scatter": scattered,
    "scatter-family": lambda w: w.scatter_add(1, AT, w[:, 1:] * 2) + w.scatter(2, AT, 0.5)
    + w.index_add(2, torch.tensor([3, 0]), w[..., :2], alpha=2)
    + w.index_put((torch.tensor([1, 1]), torch.tensor([0, -1])), w[0, :2], accumulate=True)
    + put(w),
    "put-rows": put_rows,
    "put-sums": put_sums,
    "put-masks": put_masks,
    "put-inverse": inverse,
    "scatter-several": lambda w: w.scatter(2, torch.tensor([[[3, 0], [1, 2], [2, 1]]]),
                                           w[1:, :, :2] * 2)
    + w.scatter(1, AT, torch.arange(24.0).view(W)),
    "histogram": lambda w: w * torch.histc(w.detach(), 4, -0.7, 0.9)
    + torch.histc(w.detach(), 4) * 0.1 + torch.histc(w.detach().double(), 4, 0.5, 0.5)
    + torch.histc(w.detach() * 0, 4) * 0.1,
    **({"groups": groups} if GROUPED_MM else {}),
    "extremes": lambda w: w.max(1).values * w.min(1, keepdim=True).values[:, 0]
    + w.max(1).indices,
    "order": lambda w: w.topk(2).values * w.topk(2, 1, largest=False).values.mT[:, :1, :2]
    .repeat(1, 3, 1) + w.sort(dim=2, descending=True, stable=True).values[..., 1:3]
    + w.argsort(1)[..., :2] + w.flatten().topk(3).indices[1],
    "order-of-truths": lambda w: w[..., 2:] * (w > 0).sort(dim=2, stable=True).indices[..., 2:]
    * (w > 0).sort(dim=2, stable=True).values[..., 2:],
    "interleave": lambda w: w.repeat_interleave(2, 1)[:, :3] + w.repeat_interleave(2)[:12]
    .view(3, 4),
    "reduce": lambda w: w.sum((0, 2)) + w.mean(-1).mean(0) + w.var(-1).sum() + w.std()
    + w.amax(2).sum() + w.amin((0, 1)).sum() + w.norm() + w.prod(2).sum() + w.logsumexp(-1).sum(),
    "moments": lambda w: torch.cat([a.flatten() for a in (*torch.var_mean(w, 1),
                                                        *torch.std_mean(w, (0, 2)))]),
    "places": lambda w: w.argmin(1) + w.argmax() * w[:, 0] + w.argmin(1, keepdim=True)[:, 0],
    "running": lambda w: w.cumsum(1) + w.cumprod(2),
    "softmax": lambda w: w.softmax(-1) * w.log_softmax(1),
    "products": lambda w: w @ w.mT + torch.bmm(w, w.transpose(1, 2)),
    "einsum": lambda w: torch.einsum("bij,bkj->bik", w, w * 2),
    "linear": lambda w: F.linear(w, w[0], w[1, :, 0]),
    "norms": lambda w: F.layer_norm(w, (4,)) + F.rms_norm(w, (3, 4)) * F.layer_norm(w, W[1:]),
    "group-norm": lambda w: F.group_norm(w.reshape(2, 4, 3, 1), 2, w[0, 0], w[1, 0]),
    "group-norm-1d": lambda w: F.group_norm(w.reshape(2, 4, 3), 2, w[0, 0], w[1, 0])
    + F.instance_norm(w.reshape(2, 4, 3), weight=w[1, 0]),
    "batch-norm-alone": lambda w: F.batch_norm(w, None, None, w[0, :, 0], training=True),
    "conv": lambda w: F.conv2d(w.unsqueeze(1), w[:, :2, :2].unsqueeze(1), padding=1, stride=2),
    "conv-same": lambda w: F.conv2d(w.unsqueeze(1), w[:, :2, :3].unsqueeze(1), padding="same"),
    "conv1d": lambda w: F.conv1d(w, w[:, :, :2], padding=1, dilation=2),
    "conv-transpose": lambda w: F.conv_transpose2d(w.unsqueeze(1), w[:1, :2, :2].unsqueeze(0),
                                                   stride=2),
    "max-pool": lambda w: F.max_pool2d(w.unsqueeze(1), 2, 2, ceil_mode=True),
    "avg-pool": lambda w: F.avg_pool2d(w.unsqueeze(1), 2, 1, padding=1)
    + F.avg_pool2d(w.unsqueeze(1), 2, 1, padding=1, count_include_pad=False),
    "adaptive": lambda w: F.adaptive_avg_pool2d(w.unsqueeze(1), (2, 3)),
    "upsample": lambda w: F.interpolate(w.unsqueeze(1), scale_factor=2, mode="bilinear")
    + F.interpolate(w.unsqueeze(1), scale_factor=2),
    "nearest": lambda w: F.interpolate(w.unsqueeze(1), (5, 3)) * 2
    + F.interpolate(w.unsqueeze(1), (5, 3), mode="nearest-exact"),
    "nearest-1d": lambda w: F.interpolate(w, 7) + F.interpolate(w, 7, mode="linear"),
    "bilinear": lambda w: F.interpolate(w.unsqueeze(1), (5, 3), mode="bilinear")
    + F.interpolate(w.unsqueeze(1), (5, 3), mode="bilinear", align_corners=True),
    "scale": lambda w: F.interpolate(w.unsqueeze(1), scale_factor=(1.7, 0.8), mode="bilinear")
    + F.interpolate(w.unsqueeze(1), scale_factor=(1.7, 0.8)),
    "bicubic": lambda w: F.interpolate(w.unsqueeze(1), (5, 9), mode="bicubic")
    + F.interpolate(w.unsqueeze(1), (5, 9), mode="bicubic", align_corners=True),
    "antialias": lambda w: F.interpolate(w.unsqueeze(1), (2, 3), mode="bicubic", antialias=True)
    + F.interpolate(w.unsqueeze(1), (2, 3), mode="bilinear", antialias=True),
    "columns": lambda w: F.unfold(w.unsqueeze(1), (2, 3), padding=1, stride=(1, 2)),
    "columns-back": lambda w: F.fold(w.reshape(1, 4, 6), (5, 4), (2, 2), stride=(2, 1))
    + F.fold(w.reshape(1, 4, 6), (5, 4), 2, dilation=(2, 2), padding=(1, 1), stride=(2, 2)),
    "windows": lambda w: w.unfold(1, 2, 1).unfold(2, 2, 2),
    "shuffle": lambda w: F.pixel_shuffle(w.reshape(1, 4, 3, 2), 2)
    + F.pixel_unshuffle(w.reshape(1, 1, 6, 4), 2).reshape(1, 1, 6, 4)
    + F.channel_shuffle(w.reshape(1, 6, 2, 2), 3).reshape(1, 1, 6, 4),
    "sequences": lambda w: F.max_pool1d(w, 2, 1) + F.avg_pool1d(w, 2, 1)
    + F.adaptive_avg_pool1d(w, 3),
    "attention": lambda w: F.scaled_dot_product_attention(w, w * 2, w + 1, is_causal=True),
    "attention-mask": lambda w: F.scaled_dot_product_attention(
        w.unsqueeze(1), w.unsqueeze(1), w.unsqueeze(1), attn_mask=seen(w), scale=0.3),
    "attention-windows": lambda w: F.scaled_dot_product_attention(
        w.reshape(2, 1, 3, 2, 2), w.reshape(2, 1, 3, 2, 2) * 2, w.reshape(2, 1, 3, 2, 2) + 1),
    "attention-own-mask": lambda w: F.scaled_dot_product_attention(
        w, w * 2, w + 1, attn_mask=w @ w.mT.detach()),
    "attention-one-key": lambda w: F.scaled_dot_product_attention(
        w.reshape(1, 2, 3, 4), w[:1].unsqueeze(0), w[1:].unsqueeze(0)),
    "losses": lambda w: F.mse_loss(w[0], w[1]) + F.l1_loss(w[0], w[1], reduction="sum")
    + F.smooth_l1_loss(w[0], w[1], beta=0.3) + F.huber_loss(w[0], w[1], delta=0.4)
    + F.binary_cross_entropy_with_logits(w[0], torch.ones(3, 4)),
    "cross-entropy": lambda w: F.cross_entropy(w.reshape(6, 4), torch.tensor([0, 3, -100, 1, 2, 0]),
                                               label_smoothing=0.1)
    + F.cross_entropy(w, torch.tensor([[0, 1, 2, 0], [2, 2, 1, -100]]))
    + F.cross_entropy(w[0], w[1].softmax(-1).detach())
    + F.nll_loss(w[0].log_softmax(-1), torch.tensor([3, 0, 1])),
    "types": lambda w: w.double().mul(2).type_as(w) + w.half().float().detach() + w.to(torch.int64),
    "embedding": lambda w: F.embedding(torch.tensor([[0, 2], [1, 0]]), w[0], padding_idx=0),
}


class Case(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        values = torch.randn(W, generator=torch.Generator().manual_seed(5))
        self.w = torch.nn.Parameter(values)

    def forward(self, x):
        y = self.function(self.w)
        weights = torch.arange(y.numel(), dtype=torch.float32).reshape(y.shape) / y.numel() + 0.5
        return (y * weights).sum() + x.sum()        # each element has its own gradient


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_pytorch(name):
    model, x = Case(CASES[name]), torch.zeros(1)
    loss = model(x)
    loss.backward()
    want = model.w.grad.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = weir.torch.Step(model, None, optimizer, x, gradients=True)
    torch.testing.assert_close(step(x), loss.detach(), rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(step.gradients()["w"], want, rtol=1e-4, atol=1e-5)


def step_of(model, *batch):
    return weir.torch.Step(model, None, torch.optim.SGD(model.parameters(), lr=0.0), batch,
                           gradients=True)


class Outside(torch.nn.Module):
    """Attributes that the table does not know."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        mask = x > 0
        y = torch.ops.aten.index_put(self.w, [mask], x[0], False)
        y = torch.ops.aten.index_put(y, [mask[0], torch.tensor([1])], x[0, 0], False)
        same = torch.ops.aten.index_put(mask, [torch.tensor([0, 1])], mask[0], True)
        y = y.sum() + same.sum()
        if not GROUPED_MM:
            return y
        ends = torch.tensor([2, 4], dtype=torch.int32)
        return y + torch._grouped_mm(self.w, x, offs=ends).sum()


def test_attributes_outside_of_the_table_are_refused_by_one_error():
    with pytest.raises(weir.torch.UnsupportedError) as caught:
        step_of(Outside(), torch.ones(4, 4))
    for why in ("values for each element where a mask is true", "a mask as an index",
                "sums of bools", *(["operands of 2 and 2 axes"] if GROUPED_MM else [])):
        assert why in str(caught.value)


class Picked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3, 4))

    def forward(self, index):
        return self.w[torch.zeros_like(index), index].sum() + self.w.gather(
            0, index.unsqueeze(0) * 0).sum()


def test_an_index_outside_of_its_axis_is_an_error():
    step = step_of(Picked(), torch.tensor([1, -1]))
    assert step(torch.tensor([3, -4])).item() == 4.0
    with pytest.raises(errors.OutOfRangeError):          # not the element 0 of the next row
        step(torch.tensor([0, 4]))


def test_rows_behind_the_last_group_are_0():
    pytest.importorskip("transformers.integrations.moe", reason="transformers: left out")

    class Groups(torch.nn.Module):
        def __init__(self):
            super().__init__()
            draw = torch.Generator().manual_seed(4)
            self.w = torch.nn.Parameter(torch.randn(3, 4, 5, generator=draw))
            self.x = torch.nn.Parameter(torch.randn(7, 4, generator=draw))

        def forward(self, ends):
            y = torch.ops.transformers.grouped_mm_fallback(self.x, self.w, ends)
            return (y * torch.arange(35.0).view(7, 5)).sum()

    model = Groups()
    step = step_of(model, torch.tensor([0, 0, 0]))
    for ends in ([0, 0, 0], [5, 5, 5], [1, 2, 6], [0, 7, 7], [2, 4, 7]):
        model.zero_grad()
        loss = model(torch.tensor(ends))
        loss.backward()
        want = {name: p.grad for name, p in model.named_parameters()}
        torch.testing.assert_close(step(torch.tensor(ends)), loss.detach(), rtol=2e-5, atol=2e-5)
        torch.testing.assert_close(step.gradients(), want, rtol=1e-4, atol=1e-5)
