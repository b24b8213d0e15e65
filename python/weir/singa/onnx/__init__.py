"""onnx - models in ONNX files: read, run and trained as any other Model; models as ONNX files.

    net = weir.onnx.load("resnet18.onnx", frozen="*")
    y = net(weir.array(images))
    weir.onnx.save(net, "resnet18.onnx", [weir.array(images)])

The package onnx is not needed: a model comes as the path of a file, as bytes, or as any object with
SerializeToString, such as onnx.ModelProto.
"""
from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Union

import numpy as np

from weir import _capi as capi
from weir import core
from weir.errors import GraphWarning, InvalidError
from weir.interop import Data, array
from weir.typing import Handle, Path
from ..model import Model
from ..raw.tensor import CTensor, result
from ..tape import Core
from ..taping import is_training
from ..tensor import Tensor


class Serializes(Protocol):
    """What onnx.ModelProto is."""

    def SerializeToString(self) -> bytes:
        """The message as bytes."""
        ...


Source = Union[Path, bytes, bytearray, memoryview, Serializes]


@dataclass(frozen=True)
class Node:
    """A node of a model: its name, which may be "", its operator, the names of its outputs."""

    name: str
    op_type: str
    outputs: tuple[str, ...]


def _opened(source: Source, device: core.Device, dims: str | None, values: str | None,
            frozen: str | None) -> capi.weir_onnx:
    if isinstance(source, (str, os.PathLike)):
        return capi.onnx_open(device.handle, os.fspath(source), None, dims, values, frozen)
    data = source if isinstance(source, (bytes, bytearray, memoryview)) \
        else source.SerializeToString()
    return capi.onnx_open(device.handle, None, data, dims, values, frozen)


def _list(names: str | Iterable[str] | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names)


class _Apply(Core):
    """A model as one operator: of its inputs, and behind them its parameters and states."""

    single = False

    def __init__(self, model: capi.weir_onnx, inputs: int) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs

    def forward(self, *raws: CTensor) -> Sequence[CTensor]:
        ys = capi.onnx_apply(self.model, [raw.handle for raw in raws[:self.inputs]], is_training())
        return [result(y, raws[0].device()) for y in ys]


class OnnxModel(Model):
    """A model from an ONNX file. Its parameters and states have their names in the file (behind an
    attribute of that name "_"); forward takes the model's inputs in order and gives its output, or
    a list of several.

    `inputs` and `outputs` are names, `nodes` the model's Nodes in the order in which they run.
    """

    def __init__(self, source: Source, device: core.Device | None = None,
                 dims: str | Mapping[str, int] | None = None,
                 values: str | Iterable[str] | None = None,
                 frozen: str | Iterable[str] | None = None) -> None:
        super().__init__()
        device = core.default_device() if device is None else device
        sizes = ",".join(f"{k}={v}" for k, v in dims.items()) if isinstance(dims, Mapping) else dims
        self._model = _opened(source, device, sizes, _list(values), _list(frozen))
        self._device = device
        self._selected: tuple[str, ...] = ()
        self._warned = False
        self.inputs: list[str] = capi.onnx_inputs(self._model)
        self.outputs: list[str] = capi.onnx_outputs(self._model)
        self.nodes: list[Node] = [Node(name, op, tuple(outputs))
                                  for name, op, outputs in capi.onnx_nodes(self._model)]
        self._tensors: list[tuple[Tensor, Handle]] = []
        states: list[str] = []
        for name, role, handle in capi.onnx_tensors(self._model):
            trains = capi.weir_tensor_needs_grad(handle)
            t = Tensor(data=CTensor.over(core.Value.of(handle, device)), device=device, name=name,
                       requires_grad=trains, stores_grad=trains)
            self._tensors.append((t, handle))
            attribute = name + "_" if hasattr(self, name) else name     # "training" is the model's
            vars(self)[attribute] = t
            if role == capi.WEIR_ROLE_STATE or not trains:
                states.append(attribute)
        vars(self).update(state_names=tuple(states), _initialized=True)

    def train(self, mode: bool = True) -> None:
        """Training, or evaluation. A warning, once, if an exporter may have folded the model's
        BatchNormalization into its convolutions: it would be trained without."""
        folded = capi.weir_onnx_folded(self._model) if mode and not self._warned else 0
        if folded:
            vars(self)["_warned"] = True
            warnings.warn(f"{folded} convolutions have a bias and nothing is a BatchNormalization: "
                          "if the exporter folded it, the model trains without; export it for "
                          "training", GraphWarning, stacklevel=2)
        super().train(mode)

    def __repr__(self) -> str:
        return (f"<weir.OnnxModel ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}), "
                f"{len(self.nodes)} nodes>")

    def as_input(self, i: int, x: Tensor | Data) -> Tensor:
        """What is given as input number i, as a Tensor of the device and of the input's type:
        integers and floats of another width are converted."""
        t = x if isinstance(x, Tensor) else array(x, device=self._device)
        try:
            wanted = capi.onnx_input(self._model, i)[0]
        except InvalidError:        # a size is not known before the input is
            return t
        have = capi.weir_tensor_desc(t.data.handle)[0]
        kinds = [np.dtype(core.numpy_dtype(core.singa_dtype(d))).kind for d in (wanted, have)]
        if wanted != have and kinds[0] == kinds[1]:
            return t.as_type(core.singa_dtype(wanted))
        return t

    def run(self, xs: Sequence[Tensor | Data], outputs: Sequence[str] = ()) -> list[Tensor]:
        """The outputs for these inputs; `outputs`: values by name in their place, which may be any
        inside the model. Nodes that they do not need are left out."""
        if len(xs) > len(self.inputs):
            raise InvalidError(f"the model takes {len(self.inputs)} inputs "
                               f"({', '.join(self.inputs)}), not {len(xs)}")
        for t, handle in self._tensors:
            if t.data.value.handle is not handle:
                raise InvalidError(f"the elements of {t.name!r} were replaced: copy into the "
                                   "tensor (copy_from), as the model reads its own memory")
        if tuple(outputs) != self._selected:
            capi.weir_onnx_select(self._model, ",".join(outputs) if outputs else None)
            self._selected = tuple(outputs)
        given = [self.as_input(i, x) for i, x in enumerate(xs)]
        if not given and not self._tensors:
            handles = capi.onnx_apply(self._model, [], is_training())
            return [Tensor(data=result(y, self._device), requires_grad=False) for y in handles]
        return list(_Apply(self._model, len(given))(*given, *[t for t, _ in self._tensors]))

    def _port_names(self, inputs: Sequence[object]) -> tuple[Sequence[str], Sequence[str]]:
        return self.inputs, self._selected or self.outputs

    def forward(self, *xs: Tensor | Data) -> Tensor | list[Tensor]:
        """The model's output for its inputs, in order; a list if it has several."""
        ys = self.run(xs)
        return ys[0] if len(ys) == 1 else ys


def load(source: Source, device: core.Device | None = None,
         dims: str | Mapping[str, int] | None = None, values: str | Iterable[str] | None = None,
         frozen: str | Iterable[str] | None = None) -> OnnxModel:
    """Opens a model. dims: sizes of named dims, "batch=8" or {"batch": 8}; values: inputs whose
    elements are read while it is recorded (shapes, axes); frozen: parameters that are not trained,
    "*": all. The model is in evaluation until train() or compile()."""
    model = OnnxModel(source, device, dims, values, frozen)
    vars(model)["training"] = False
    return model


def save(model: Model, path: Path, inputs: Sequence[object], opset: int = 18,
         external: bool = False) -> None:
    """Writes model.forward(*inputs) to an ONNX file: Model.to_onnx."""
    model.to_onnx(path, inputs, opset, external)


def as_bytes(model: Model, inputs: Sequence[object], opset: int = 18) -> bytes:
    """The bytes of the file that save writes, with the weights inside."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        model.to_onnx(path, inputs, opset)
        with open(path, "rb") as file:
            return file.read()
