"""frontend - what autograd remembers of results, or a Model's forward, as an ONNX model.

Operators are called again, in evaluation and recorded, on the inputs; what they read beside them
becomes initializers.
"""
from __future__ import annotations

import copy
import importlib
import os
import tempfile
from collections.abc import Sequence
from typing import Protocol, cast

from weir.errors import InvalidError
from ..capture import recorded_once
from ..model import Model, training_is
from ..tape import Dummy, Operator
from ..tensor import Tensor
from . import Serializes, as_bytes

OPSET = 18
_FORGOTTEN = ("to_onnx: a result was computed outside of training, so autograd does not remember "
              "how: set autograd.training, or give the Model")


class _Loads(Protocol):
    """What the package onnx is."""

    def load_model_from_string(self, s: bytes) -> Serializes:
        """A message from its bytes."""
        ...


def _creator(t: Tensor) -> Operator:
    made = t.creator
    if made is None:
        raise InvalidError(_FORGOTTEN)
    return made


def _in_order(outputs: Sequence[Tensor]) -> list[Operator]:
    """The operators behind the outputs, each behind those that it reads."""
    order: list[Operator] = []
    seen: set[int] = set()
    todo = [(_creator(y), False) for y in reversed(outputs)]
    while todo:
        operator, ready = todo.pop()
        if ready:
            order.append(operator)
        elif id(operator) not in seen:
            seen.add(id(operator))
            if not isinstance(operator, Dummy) and not operator.src:
                raise InvalidError(_FORGOTTEN)
            todo.append((operator, True))
            todo.extend((source[0], False) for source in reversed(operator.src))
    return order


class _Again:
    """Calls the operators behind the outputs again, on other inputs."""

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.inputs = [_creator(x) for x in inputs]
        self.outputs = [(_creator(y), id(y)) for y in outputs]
        self.order = _in_order(outputs)
        self.leaves: dict[int, Tensor] = {}
        for operator in self.order:
            for creator, _, tensor, _ in operator.src:
                if isinstance(creator, Dummy):
                    self._add_leaf(creator, cast("Tensor | None", tensor))

    def _add_leaf(self, creator: Dummy, tensor: Tensor | None) -> None:
        found = tensor if tensor is not None else creator._tensor()
        if found is not None:
            self.leaves[id(creator)] = found

    def __call__(self, *xs: Tensor) -> list[Tensor]:
        made: dict[int, Sequence[Tensor]] = {id(op): (x,) for op, x in zip(self.inputs, xs)}
        with training_is(False):
            for operator in self.order:
                if id(operator) not in made:
                    made[id(operator)] = self._made(operator, made)
        return [made[id(op)][op.y_id2idx.get(number, 0)] for op, number in self.outputs]

    def _made(self, operator: Operator, made: dict[int, Sequence[Tensor]]) -> Sequence[Tensor]:
        if not isinstance(operator, Dummy):
            return copy.copy(operator)(*[made[id(creator)][creator.y_id2idx.get(number, 0)]
                                         for creator, number, _, _ in operator.src])
        if id(operator) not in self.leaves:
            raise InvalidError(f"to_onnx: the tensor {operator.name!r}, which a result was "
                               "computed from, no longer exists")
        return (self.leaves[id(operator)],)

    def states(self) -> dict[str, Tensor]:
        """What is read beside the inputs, by name."""
        own = {id(op) for op in self.inputs}
        return {t.name: t for number, t in self.leaves.items() if number not in own}


def _bytes_of(inputs: Sequence[Tensor], outputs: Sequence[Tensor], opset: int) -> bytes:
    again = _Again(inputs, outputs)
    states = again.states()
    found = recorded_once(again, tuple(inputs))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        found.to_onnx(path, [x._name or f"x{i}" for i, x in enumerate(inputs)],
                      [f"y{i}" for i in range(len(outputs))], states,
                      {name: t for name, t in states.items() if t.stores_grad}, opset, False)
        with open(path, "rb") as file:
            return file.read()


class SingaFrontend:
    """Makes ONNX models: onnx.ModelProto where the package onnx is installed, else its bytes."""

    @classmethod
    def singa_to_onnx_model(cls, inputs: Sequence[Tensor],
                            y: Tensor | Sequence[Tensor] | Model, model_name: str = "sonnx",
                            opset: int = OPSET) -> Serializes | bytes:
        """A model of these inputs: of results that were computed from them in training, or of the
        forward of a Model. model_name becomes the graph's name in a message."""
        if isinstance(y, Model):
            data = as_bytes(y, inputs, opset)
        else:
            data = _bytes_of(inputs, [y] if isinstance(y, Tensor) else list(y), opset)
        try:
            package = cast(_Loads, importlib.import_module("onnx"))
        except ImportError:
            return data
        message = package.load_model_from_string(data)
        setattr(getattr(message, "graph"), "name", model_name)
        return message

    @classmethod
    def singa_to_onnx_graph(cls, inputs: Sequence[Tensor], y: Tensor | Sequence[Tensor] | Model,
                            model_name: str = "sonnx") -> object:
        """The graph of that model, which needs the package onnx."""
        model = cls.singa_to_onnx_model(inputs, y, model_name)
        if isinstance(model, bytes):
            raise InvalidError("singa_to_onnx_graph: the package onnx is not installed")
        return getattr(model, "graph")
