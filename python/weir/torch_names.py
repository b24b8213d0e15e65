"""torch_names - a PyTorch state_dict into a model: its names, its layouts, its gates.

Layers are found by their paths, which are to be PyTorch's ("block.conv1"), or are given by `names`.
What each kind of layer takes stands in a table here; parameters of a script's own layers keep their
attribute's name. PyTorch itself is not imported.
"""
import numpy as np

from . import layer as layers
from .layers.base import Layer, copy_into
from .operators.recurrent import weight_shapes
from .tensor import Tensor


class Part:
    """A Tensor of a layer: made of elements of these PyTorch names and shapes."""

    def __init__(self, tensor, needs, make):
        self.tensor, self.needs, self.make = tensor, needs, make


def _same(layer, **names):
    """Parts as they are: attribute=name."""
    return [Part(getattr(layer, attribute), [(name, getattr(layer, attribute).shape)], lambda a: a)
            for attribute, name in names.items() if getattr(layer, attribute) is not None]


def _turned(tensor, name):
    return Part(tensor, [(name, tensor.shape[::-1])], lambda a: a.T)


def _linear(layer):
    return [_turned(layer.W, "weight")] + _same(layer, b="bias")


def _conv(layer):
    return _same(layer, W="weight", b="bias")


def _batch_norm(layer):
    return _same(layer, scale="weight", bias="bias", running_mean="running_mean",
                 running_var="running_var")


def _rnn(layer):
    parts = [_turned(layer.Wx, "weight_ih_l0"), _turned(layer.Wh, "weight_hh_l0")]
    if layer.b is not None:     # one of Weir's is the sum of PyTorch's two
        shape = layer.b.shape
        parts.append(Part(layer.b, [("bias_ih_l0", shape), ("bias_hh_l0", shape)],
                          lambda a, b: a + b))
    return parts


def _lstm(layer):
    """Four matrices of each kind are one of PyTorch's, one gate below the other."""
    parts, h = [], layer.hidden_size
    kinds = {"Wx": "weight_ih_l0", "Wh": "weight_hh_l0", "Bx": "bias_ih_l0", "Bh": "bias_hh_l0"}
    for kind, name in kinds.items():
        for i, gate in enumerate("ifgo"):
            tensor = getattr(layer, f"{kind}_{gate}", None)
            if tensor is not None:
                parts.append(Part(tensor, [(name, (4 * h,) + tensor.shape[:-1])],
                                  lambda a, i=i: a[i * h:(i + 1) * h].T))
    return parts


def _sequence(layer):
    """One vector: the matrices of each layer and direction, then the biases."""
    rows = weight_shapes(layer, 1)[0][0]
    ways = 2 if layer.bidirectional else 1
    known = sum(np.prod(s) for s in weight_shapes(layer, 0))
    shapes = weight_shapes(layer, int((layer.W.shape[0] - known) // (rows * ways)))
    ends = [f"l{n}{way}" for n in range(layer.num_layers) for way in ("", "_reverse")[:ways]]
    names = [f"{kind}_{end}" for kinds in (("weight_ih", "weight_hh"), ("bias_ih", "bias_hh"))
             for end in ends for kind in kinds]
    return [Part(layer.W, list(zip(names, shapes)),
                 lambda *parts: np.concatenate([a.reshape(-1) for a in parts]))]


def _attention(layer):
    width = layer.Wq.shape[0]
    parts = [Part(getattr(layer, f"W{part}"), [("in_proj_weight", (3 * width, width))],
                  lambda a, i=i: a[i * width:(i + 1) * width].T) for i, part in enumerate("qkv")]
    parts.append(_turned(layer.Wo, "out_proj.weight"))
    if layer.bias:
        parts += [Part(getattr(layer, f"b{part}"), [("in_proj_bias", (3 * width,))],
                       lambda a, i=i: a[i * width:(i + 1) * width])
                  for i, part in enumerate("qkv")]
        parts += _same(layer, bo="out_proj.bias")
    return parts


def _own(layer):
    """Of a script's layer: the attributes that are parameters or states, by their names."""
    return _same(layer, **{name: name for name, value in vars(layer).items()
                           if isinstance(value, Tensor)
                           and (value.stores_grad or name in layer.state_names)})


KINDS = {
    layers.Linear: _linear, layers.Conv2d: _conv, layers.BatchNorm2d: _batch_norm,
    layers.Embedding: lambda layer: _same(layer, W="weight"),
    layers.LayerNorm: lambda layer: _same(layer, scale="weight", bias="bias"),
    layers.RMSNorm: lambda layer: _same(layer, scale="weight"),
    layers.RNN: _rnn, layers.LSTM: _lstm, layers.CudnnRNN: _sequence, layers.GRU: _sequence,
    layers.MultiHeadAttention: _attention,
}


def _parts(layer):
    for kind in type(layer).__mro__:
        if kind in KINDS:
            return KINDS[kind](layer)
    return _own(layer)


def _all_layers(layer, path=""):
    """(path, layer) of the layer and all below it that are in use."""
    yield path, layer
    for attribute, below in layer._layers.items():
        if below._initialized:
            yield from _all_layers(below, f"{path}{Layer.sep}{attribute}" if path else attribute)


def _renamed(path, names):
    """The path in PyTorch: with the longest beginning that `names` has replaced."""
    words = path.split(Layer.sep) if path else []
    for n in range(len(words), 0, -1):
        if Layer.sep.join(words[:n]) in names:
            return Layer.sep.join([names[Layer.sep.join(words[:n])], *words[n:]])
    return path


def _array(value):
    """A NumPy array of a tensor of PyTorch, a Tensor or an array; bfloat16 as float32."""
    if isinstance(value, Tensor):
        return value.numpy()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return np.from_dlpack(value.contiguous())
    return np.asarray(value)


def load_torch_state_dict(model, state, strict=True, names=None):
    """Copies the elements of a PyTorch state_dict (tensors of PyTorch or arrays by name) into the
    model's parameters and states, turned and joined as its layers have them.

    names: {path of a layer here: its path there}, for those below it too, where they differ:
    {"Linear_0": "0"}. The model was called or compiled before, which makes its parameters.
    Missing and unexpected names and wrong shapes are one ValueError, and nothing is copied. With
    strict=False other names may be missing or left over: gives (missing, unexpected). A batch
    norm's num_batches_tracked has no part here.
    """
    used, missing, wrong, found = set(), [], [], []
    for path, layer in _all_layers(model):
        there = _renamed(path, names or {})
        before = there + "." if there else ""
        if isinstance(layer, layers.BatchNorm2d):
            used.add(before + "num_batches_tracked")
        for part in _parts(layer):
            needs = [(before + name, tuple(int(n) for n in shape)) for name, shape in part.needs]
            used.update(name for name, _ in needs)
            absent = [name for name, _ in needs if name not in state]
            missing += absent
            wrong += [f"{name} has shape {tuple(state[name].shape)}, must have {shape}"
                      for name, shape in needs
                      if name in state and tuple(state[name].shape) != shape]
            if not absent:
                found.append((part, [name for name, _ in needs]))
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
    for part, needs in found:
        copy_into(part.tensor, part.make(*[_array(state[name]) for name in needs]))
    return missing, unexpected
