"""sonnx - SINGA's ONNX module: models from files and from the package onnx, run, trained, made.

    rep = sonnx.prepare(onnx.load("resnet18.onnx"), device="CPU")
    y = rep.run([images])[0]
    model = sonnx.to_onnx([x], y)

A model comes as a path, as bytes, or as onnx.ModelProto: the package onnx is not needed.
"""
from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import numpy as np

from weir import _capi as capi
from weir import core
from weir.errors import DeviceError
from weir.interop import Data
from weir.typing import Array, Path
from . import device as devices
from .model import Model
from .onnx import Node, OnnxModel, Serializes, Source
from .onnx.frontend import SingaFrontend
from .tensor import Tensor

OPSET = 21          # of nodes that come without a model
OPERATORS = capi.onnx_operators()
# ONNX's numbers of element types, and SINGA's, for what both have.
_TYPES = {1: core.kFloat32, 6: core.kInt, 7: core.kInt, 9: core.kInt, 10: core.kFloat16,
          11: core.kFloat32}


class NodeProto(Serializes, Protocol):
    """What onnx.NodeProto is."""

    @property
    def input(self) -> Sequence[str]:
        """Names of its inputs."""
        ...

    @property
    def output(self) -> Sequence[str]:
        """Names of its outputs."""
        ...


def onnx_type_to_singa_type(onnx_type: int) -> int:
    """SINGA's number of an element type of ONNX; 64-bit numbers become 32 bits wide."""
    if onnx_type not in _TYPES:
        raise ValueError(f"SINGA has no type for ONNX's number {onnx_type}")
    return _TYPES[onnx_type]


def _device_of(device: str | core.Device) -> core.Device:
    """The Device of "CPU", "CUDA", "CUDA:1", or itself."""
    if isinstance(device, core.Device):
        return device
    kind, _, number = device.lower().partition(":")
    if kind == "cpu":
        return core.default_device() if core.default_device().is_host else core.cpu()
    if kind in ("cuda", "gpu"):
        return devices.create_cuda_gpu_on(int(number or 0))
    raise DeviceError(f"{device!r} is no device (expected CPU, CUDA or CUDA:1)")


class SingaRep:
    """A prepared model: run(inputs) gives its outputs.

    Results are NumPy arrays if the inputs are, Tensors while `is_graph` is True. `layers` are the
    model's nodes, `states` its parameters and states by name; a node is an attribute by its name.
    """

    def __init__(self, model: OnnxModel) -> None:
        self.model = model
        self.is_graph = False
        self.layers: list[Node] = model.nodes
        self.inputs: list[str] = model.inputs
        self.outputs: list[str] = model.outputs
        for node in model.nodes:
            if node.name and not hasattr(self, node.name):
                setattr(self, node.name, node)

    @property
    def states(self) -> dict[str, Tensor]:
        """{name: Tensor} of the parameters and states."""
        return self.model.get_states()

    def run(self, x: Sequence[Tensor | Data], last_layers: int | None = None,
            aux_output: Sequence[str] = ()) -> list[Tensor] | list[Array]:
        """The outputs for these inputs, in order.

        last_layers: how many of the layers run, -1 for all but the last; the outputs are then those
        of the last that runs. aux_output: names of values that are returned behind them.
        """
        names = [*self._outputs_of(last_layers), *aux_output]
        tensors = self.is_graph or any(isinstance(t, Tensor) for t in x)
        ys = self.model.run(x, () if names == self.outputs else names)
        return ys if tensors else [y.numpy() for y in ys]

    def _outputs_of(self, last_layers: int | None) -> list[str]:
        layers = self.layers[:last_layers]
        if len(layers) == len(self.layers) or not layers:
            return list(self.outputs)
        return list(layers[-1].outputs)


class SONNXModel(OnnxModel):
    """A model to derive from: forward(*x) gives the list of its outputs, as SingaRep.run does."""

    def __init__(self, onnx_model: Source, device: str | core.Device = "CPU") -> None:
        super().__init__(onnx_model, _device_of(device))
        self.sg_ir: SingaRep = SingaRep(self)
        self.sg_ir.is_graph = True

    def forward(self, *x: Tensor | Data, aux_output: Sequence[str] = (),
                last_layers: int | None = None) -> list[Tensor]:
        """The outputs for the inputs x; see SingaRep.run for the other arguments."""
        return cast("list[Tensor]", self.sg_ir.run(x, last_layers, aux_output))


# ---- nodes without a model ----

def _varint(n: int) -> bytes:
    low, rest = n & 127, n >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _model_of(node: NodeProto, opset: int) -> bytes:
    """A model of one node, as bytes: its ports have names and no types."""
    def ports(number: int, names: Sequence[str]) -> bytes:
        return b"".join(_field(number, _field(1, name.encode()))
                        for name in dict.fromkeys(names) if name)
    graph = _field(1, node.SerializeToString()) + ports(11, node.input) + ports(12, node.output)
    version = _varint(2 << 3) + _varint(opset)
    return _varint(1 << 3) + _varint(10) + _field(7, graph) + _field(8, version)


class SingaBackend:
    """What ONNX calls a backend."""

    # ONNX operators that can be imported, and what they are called here.
    _rename_operators = {name: name for name in OPERATORS}

    @classmethod
    def prepare(cls, model: Source, device: str | core.Device = "CPU",
                **kwargs: object) -> SingaRep:
        """Opens a model for run. Of kwargs, frozen and values are those of weir.onnx.load."""
        options = {key: cast("str | None", kwargs[key]) for key in ("frozen", "values", "dims")
                   if key in kwargs}
        return SingaRep(OnnxModel(model, _device_of(device), **options))

    @classmethod
    def run_node(cls, node: NodeProto, inputs: Sequence[Tensor | Data],
                 device: str | core.Device = "CPU", opset_version: int = OPSET,
                 **kwargs: object) -> list[Tensor] | list[Array]:
        """The outputs of one node. Integers and shapes among the inputs are read at once."""
        del kwargs
        given = [name for name in node.input if name]
        whole = [name for name, x in zip(given, inputs) if not isinstance(x, Tensor)
                 and np.asarray(x).dtype.kind in "iu"]
        model = OnnxModel(_model_of(node, opset_version), _device_of(device), values=whole)
        return SingaRep(model).run(inputs)

    _run_node = run_node

    @classmethod
    def get_op(cls, node: NodeProto, opset_version: int = OPSET
               ) -> Callable[..., list[Tensor] | list[Array]]:
        """A function of the node's inputs that gives the list of its outputs."""
        def operator(*xs: Tensor | Data) -> list[Tensor] | list[Array]:
            return cls.run_node(node, xs, opset_version=opset_version)
        return operator

    @classmethod
    def supports_device(cls, device_str: str) -> bool:
        """True if prepare takes the device's name."""
        kind = device_str.lower().partition(":")[0]
        return kind == "cpu" or kind in ("cuda", "gpu") and capi.weir_device_count("cuda") > 0


# ---- files ----

def load(path: Path) -> Source:
    """A model from a file: onnx.ModelProto where the package onnx is installed, else its bytes."""
    try:
        return cast("Source", importlib.import_module("onnx").load(os.fspath(path)))
    except ImportError:
        with open(path, "rb") as file:
            return file.read()


def save(model: Source, path: Path) -> None:
    """Writes a model, as bytes or onnx.ModelProto, to a file."""
    data = model if isinstance(model, (bytes, bytearray, memoryview)) \
        else cast(Serializes, model).SerializeToString()
    with open(path, "wb") as file:
        file.write(data)


# ---- SingaBackend's methods as functions ----

def prepare(model: Source, device: str | core.Device = "CPU", **kwargs: object) -> SingaRep:
    """SingaBackend.prepare."""
    return SingaBackend.prepare(model, device, **kwargs)


def run_node(node: NodeProto, inputs: Sequence[Tensor | Data], device: str | core.Device = "CPU",
             opset_version: int = OPSET, **kwargs: object) -> list[Tensor] | list[Array]:
    """SingaBackend.run_node."""
    return SingaBackend.run_node(node, inputs, device, opset_version, **kwargs)


def get_op(node: NodeProto, opset_version: int = OPSET
           ) -> Callable[..., list[Tensor] | list[Array]]:
    """SingaBackend.get_op."""
    return SingaBackend.get_op(node, opset_version)


def supports_device(device_str: str) -> bool:
    """SingaBackend.supports_device."""
    return SingaBackend.supports_device(device_str)


def to_onnx(inputs: Sequence[Tensor], outputs: Tensor | Sequence[Tensor] | Model,
            model_name: str = "sonnx", opset: int = 18) -> Serializes | bytes:
    """SingaFrontend.singa_to_onnx_model."""
    return SingaFrontend.singa_to_onnx_model(inputs, outputs, model_name, opset)
