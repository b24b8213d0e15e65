"""module - Module: SINGA's short-lived class of March 2020, before Model.

A script gives forward, loss and optim and calls them one after the other. Results of each may be
read at once, so they run at once: a plan needs the whole step, which is Model.train_one_batch.
graph() is accepted and changes nothing but speed and memory, as it always should.
"""
from __future__ import annotations
from collections.abc import Callable
from typing import TYPE_CHECKING, Self


from weir import core
from . import autograd
from .layers.base import Layer


class Module(Layer):
    """forward(*input), loss(*input), optim(*input); module(...) is forward."""

    training: bool
    graph_mode: bool
    sequential: bool
    device: core.Device

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        self = super().__new__(cls)
        vars(self).update(training=True, graph_mode=False, sequential=False, device=core.cpu())
        return self

    def on_device(self, device: core.Device) -> None:
        """The device that the script's inputs are on; parameters follow the inputs."""
        self.device = device

    def train(self, mode: bool = True) -> None:
        """Training (True) or evaluation, of this module and of operators called from now on."""
        self.training = autograd.training = bool(mode)

    def eval(self) -> None:
        """train(False)."""
        self.train(False)

    def graph(self, mode: bool = True, sequential: bool = False) -> None:
        """Whether steps run as graphs, and whether these keep the recorded order."""
        self.graph_mode, self.sequential = bool(mode), bool(sequential)

    if TYPE_CHECKING:       # what a script defines may take any number of arguments
        loss: Callable[..., object]
        optim: Callable[..., object]
    else:
        def loss(self, *args, **kwargs):
            """The loss of results and targets, which a script defines."""
            raise NotImplementedError(f"{type(self).__name__} does not define loss")

        def optim(self, *args, **kwargs):
            """Gradients and updates of a loss, which a script defines."""
            raise NotImplementedError(f"{type(self).__name__} does not define optim")
