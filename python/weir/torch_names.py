"""torch_names - parameters and states under PyTorch's names and in its layouts, both ways.

Layers are found by their paths, which are to be PyTorch's ("block.conv1"), or are given by `names`.
A table here says for each kind of layer which arrays of PyTorch make its tensors, and how;
parameters of a script's own layers keep their attribute's name. The C library's layers have the
same names and layouts. PyTorch itself is not imported.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from . import layer as layers
from .layers.base import Layer, copy_into
from .raw.recurrent import weight_shapes
from .tensor import Tensor
from .typing import Array, ArrayLike, Shape


class Part(NamedTuple):
    """A Tensor of a layer, and the arrays of PyTorch that it is made of.

    take: elements of the Tensor, of all those arrays. give: writes the share of the Tensor's
    elements in array number i. summed: the Tensor is the sum of the arrays.
    """

    tensor: Tensor
    needs: list[tuple[str, Shape]]
    take: Callable[..., Array]
    give: Callable[[Array, int, Array], None]
    summed: bool = False


def _copy(value: Array, _: int, out: Array) -> None:
    out[...] = value


def _copy_turned(value: Array, _: int, out: Array) -> None:
    out[...] = value.T


def _same(layer: Layer, **names: str) -> list[Part]:
    """Parts as they are: attribute=name."""
    return [Part(t, [(name, t.shape)], lambda a: a, _copy) for attribute, name in names.items()
            if (t := getattr(layer, attribute)) is not None]


def _turned(tensor: Tensor, name: str) -> Part:
    return Part(tensor, [(name, tensor.shape[::-1])], lambda a: a.T, _copy_turned)


def _rows(tensor: Tensor, name: str, i: int, of: int) -> Part:
    """Block i of the `of` blocks of rows of an array; matrices are turned."""
    h = tensor.shape[-1]

    def give(value: Array, _: int, out: Array) -> None:
        out[i * h:(i + 1) * h] = value.T

    return Part(tensor, [(name, (of * h, *tensor.shape[:-1]))],
                lambda a: a[i * h:(i + 1) * h].T, give)


def _linear(layer: layers.Linear) -> list[Part]:
    return [_turned(layer.W, "weight"), *_same(layer, b="bias")]


def _conv(layer: Layer) -> list[Part]:
    return _same(layer, W="weight", b="bias")


def _batch_norm(layer: Layer) -> list[Part]:
    return _same(layer, scale="weight", bias="bias", running_mean="running_mean",
                 running_var="running_var")


def _norm(layer: Layer) -> list[Part]:
    return _same(layer, scale="weight", bias="bias")


def _rnn(layer: layers.RNN) -> list[Part]:
    parts = [_turned(layer.Wx, "weight_ih_l0"), _turned(layer.Wh, "weight_hh_l0")]
    if layer.b is not None:     # one of Weir's is the sum of PyTorch's two
        shape = layer.b.shape

        def give(value: Array, i: int, out: Array) -> None:
            out[...] = value if i == 0 else -0.0        # x + -0.0 is x, for x = -0.0 too

        parts.append(Part(layer.b, [("bias_ih_l0", shape), ("bias_hh_l0", shape)],
                          lambda a, b: a + b, give, summed=True))
    return parts


def _lstm(layer: Layer) -> list[Part]:
    """Four matrices of each kind are one of PyTorch's, one gate below the other."""
    kinds = {"Wx": "weight_ih_l0", "Wh": "weight_hh_l0", "Bx": "bias_ih_l0", "Bh": "bias_hh_l0"}
    return [_rows(getattr(layer, f"{kind}_{gate}"), name, i, 4) for kind, name in kinds.items()
            for i, gate in enumerate("ifgo") if hasattr(layer, f"{kind}_{gate}")]


def _sequence(layer: layers.CudnnRNN | layers.GRU) -> list[Part]:
    """One vector: the matrices of each layer and direction, then the biases."""
    rows = weight_shapes(layer, 1)[0][0]
    ways = 2 if layer.bidirectional else 1
    known = sum(int(np.prod(s)) for s in weight_shapes(layer, 0))
    shapes = weight_shapes(layer, int((layer.W.shape[0] - known) // (rows * ways)))
    ends = [f"l{n}{way}" for n in range(layer.num_layers) for way in ("", "_reverse")[:ways]]
    names = [f"{kind}_{end}" for kinds in (("weight_ih", "weight_hh"), ("bias_ih", "bias_hh"))
             for end in ends for kind in kinds]
    begins = np.cumsum([0, *(int(np.prod(s)) for s in shapes)])

    def give(value: Array, i: int, out: Array) -> None:
        out[...] = value[begins[i]:begins[i + 1]].reshape(out.shape)

    return [Part(layer.W, list(zip(names, shapes)),
                 lambda *parts: np.concatenate([a.reshape(-1) for a in parts]), give)]


def _attention(layer: layers.MultiHeadAttention) -> list[Part]:
    parts = [_rows(getattr(layer, f"W{part}"), "in_proj_weight", i, 3)
             for i, part in enumerate("qkv")]
    parts.append(_turned(getattr(layer, "Wo"), "out_proj.weight"))
    if layer.bias:
        parts += [_rows(getattr(layer, f"b{part}"), "in_proj_bias", i, 3)
                  for i, part in enumerate("qkv")]
        parts += _same(layer, bo="out_proj.bias")
    return parts


def _own(layer: Layer) -> list[Part]:
    """Of a script's layer: the attributes that are parameters or states, by their names."""
    return _same(layer, **{name: name for name, value in vars(layer).items()
                           if isinstance(value, Tensor)
                           and (value.stores_grad or name in layer.state_names)})


KINDS: dict[type[Layer], Callable[..., list[Part]]] = {
    layers.Linear: _linear, layers.Conv2d: _conv, layers.ConvTranspose2d: _conv,
    layers.BatchNorm2d: _batch_norm, layers.Embedding: lambda layer: _same(layer, W="weight"),
    layers.LayerNorm: _norm, layers.GroupNorm: _norm,
    layers.RMSNorm: lambda layer: _same(layer, scale="weight"),
    layers.RNN: _rnn, layers.LSTM: _lstm, layers.CudnnRNN: _sequence, layers.GRU: _sequence,
    layers.MultiHeadAttention: _attention,
}


def _parts(layer: Layer) -> list[Part]:
    for kind in type(layer).__mro__:
        if kind in KINDS:
            return KINDS[kind](layer)
    return _own(layer)


def _all_layers(layer: Layer, path: str = "") -> Iterator[tuple[str, Layer]]:
    """(path, layer) of the layer and all below it that are in use."""
    yield path, layer
    for attribute, below in layer._layers.items():
        if below._initialized:
            yield from _all_layers(below, f"{path}{Layer.sep}{attribute}" if path else attribute)


def _renamed(path: str, names: Mapping[str, str]) -> str:
    """The path in PyTorch: with the longest beginning that `names` has replaced."""
    words = path.split(Layer.sep) if path else []
    for n in range(len(words), 0, -1):
        if Layer.sep.join(words[:n]) in names:
            return Layer.sep.join([names[Layer.sep.join(words[:n])], *words[n:]])
    return path


def torch_parts(model: Layer, names: Mapping[str, str] | None = None) -> list[Part]:
    """The parts of all layers in use, their arrays under whole names ("block.conv1.weight")."""
    found = []
    for path, layer in _all_layers(model):
        there = _renamed(path, names or {})
        before = there + "." if there else ""
        for part in _parts(layer):
            needs = [(before + name, tuple(int(n) for n in shape)) for name, shape in part.needs]
            found.append(part._replace(needs=needs))
    return found


def _ignored(model: Layer, names: Mapping[str, str] | None) -> set[str]:
    """What a state_dict has and no layer here: a batch norm's num_batches_tracked."""
    paths = [_renamed(path, names or {}) for path, layer in _all_layers(model)
             if isinstance(layer, layers.BatchNorm2d)]
    return {f"{path}.num_batches_tracked" if path else "num_batches_tracked" for path in paths}


class _TorchTensor(Protocol):
    """What is used of a tensor of PyTorch."""

    @property
    def dtype(self) -> object: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def detach(self) -> _TorchTensor: ...
    def cpu(self) -> _TorchTensor: ...
    def float(self) -> _TorchTensor: ...
    def contiguous(self) -> _TorchTensor: ...
    def __dlpack__(self) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


Value = Tensor | Array | _TorchTensor


def _array(value: Value | ArrayLike) -> Array:
    """A NumPy array of a tensor of PyTorch, a Tensor or an array; bfloat16 as float32."""
    if isinstance(value, Tensor):
        return value.numpy()
    if hasattr(value, "detach"):
        there = cast("_TorchTensor", value).detach().cpu()
        there = there.float() if str(there.dtype) == "torch.bfloat16" else there
        elements = cast("NDArray[np.float32]", there.contiguous())     # or of another type
        return np.from_dlpack(elements)
    return np.asarray(value)


def load_torch_state_dict(model: Layer, state: Mapping[str, Value], strict: bool = True,
                          names: Mapping[str, str] | None = None) -> tuple[list[str], list[str]]:
    """Copies the elements of a PyTorch state_dict (tensors of PyTorch or arrays by name) into the
    model's parameters and states, turned and joined as its layers have them.

    names: {path of a layer here: its path there}, for those below it too, where they differ:
    {"Linear_0": "0"}. The model was called or compiled before, which makes its parameters.
    Missing and unexpected names and wrong shapes are one ValueError, and nothing is copied. With
    strict=False other names may be missing or left over: gives (missing, unexpected). A batch
    norm's num_batches_tracked has no part here.
    """
    used = _ignored(model, names)
    missing: list[str] = []
    wrong: list[str] = []
    found = []
    for part in torch_parts(model, names):
        used.update(name for name, _ in part.needs)
        absent = [name for name, _ in part.needs if name not in state]
        missing += absent
        wrong += [f"{name} has shape {tuple(state[name].shape)}, must have {shape}"
                  for name, shape in part.needs
                  if name in state and tuple(state[name].shape) != shape]
        if not absent:
            found.append(part)
    missing = list(dict.fromkeys(missing))
    unexpected = [name for name in state if name not in used]
    mistakes = list(dict.fromkeys(wrong))
    if strict and missing:
        mistakes.append("missing: " + ", ".join(missing))
    if strict and unexpected:
        mistakes.append("unexpected: " + ", ".join(unexpected))
    if not used:
        mistakes.append("the model has no parameters yet, compile() it first")
    if mistakes:
        raise ValueError("load_torch_state_dict: " + "; ".join(mistakes))
    for part in found:
        copy_into(part.tensor, part.take(*[_array(state[name]) for name, _ in part.needs]))
    return missing, unexpected


def to_torch_state_dict(model: Layer, names: Mapping[str, str] | None = None) -> dict[str, Array]:
    """The model's parameters and states as arrays, copies, under PyTorch's names and in its
    layouts: what load_torch_state_dict takes, and what {name: torch.from_numpy(a)} makes a
    state_dict of. bfloat16 becomes float32."""
    state: dict[str, Array] = {}
    for part in torch_parts(model, names):
        value = part.tensor.numpy()
        for i, (name, shape) in enumerate(part.needs):
            if name not in state:
                state[name] = np.empty(shape, value.dtype)
            part.give(value, i, state[name])
    return state
