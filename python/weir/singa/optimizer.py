"""optimizer - SINGA's optimisers of early 2020: apply(epoch, grad, value, name, step) -> value.

They run the same updates of the core as weir.opt, now or in the graph being recorded. The rate is a
number: the one given at construction, or the one of apply_with_lr.
"""
from __future__ import annotations
from collections.abc import Callable
from typing import TypeAlias, Union


from weir import _capi as capi
from . import opt
from .tensor import Tensor


class Regularizer:
    """Adds to gradients."""

    def apply(self, epoch: int, value: Tensor, grad: Tensor, step: int = -1) -> Tensor:
        """Adds the regulariser's gradient to grad; a subclass defines it."""
        raise NotImplementedError


class L2Regularizer(Regularizer):
    """grad += coefficient value."""

    def __init__(self, coefficient: float) -> None:
        self.coefficient = coefficient

    def apply(self, epoch: int, value: Tensor, grad: Tensor, step: int = -1) -> Tensor:
        """grad += coefficient value, in place; returns grad."""
        grad += value.detach() * float(self.coefficient)
        return grad


class Constraint:
    """Limits values or gradients."""

    def apply(self, epoch: int, value: Tensor, grad: Tensor, step: int = -1) -> Tensor:
        """Limits the gradient; a subclass defines how."""
        raise NotImplementedError


class L2Constraint(Constraint):
    """Scales the gradient down so that its L2 norm is at most the threshold."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def apply(self, epoch: int, value: Tensor, grad: Tensor, step: int = -1) -> Tensor:
        """Scales grad in place so that its norm is at most the threshold; returns grad."""
        handles, _ = capi.clip([value.data.handle], [grad.data.handle], float(self.threshold), True)
        grad.data.value.put(handles[0])
        return grad


Change: TypeAlias = Union[Regularizer, Constraint]
Rate: TypeAlias = Union[float, Callable[[int], float]]      # or a function of the epoch


class Optimizer:
    """The base class of these optimisers. lr: a number, or a function of the epoch."""

    def __init__(self, lr: Rate | None = None, momentum: float | None = None,
                 weight_decay: float | None = None, regularizer: Change | None = None,
                 constraint: Change | None = None) -> None:
        self.lr = lr
        self.momentum: float = momentum or 0.0
        self.weight_decay: float = weight_decay or 0.0
        self.regularizer = regularizer
        self.constraint = constraint
        # name -> (regularizer, constraint).
        self._named: dict[str, tuple[Change | None, Change | None]] = {}
        self._opt: opt.Optimizer | None = None

    def _make(self, lr: float, dtype: int) -> opt.Optimizer:
        """The optimiser of weir.opt that does the work."""
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def register(self, name: str, regularizer: Change | None = None,
                 constraint: Change | None = None) -> None:
        """Sets the regularizer and the constraint of one parameter."""
        self._named[name] = (regularizer, constraint)

    def apply(self, epoch: int, grad: Tensor, value: Tensor, name: str | None = None,
              step: int = -1) -> Tensor:
        """Updates value in place and returns it."""
        if self.lr is None:
            raise ValueError(f"{type(self).__name__}: no learning rate was given")
        lr = self.lr(epoch) if callable(self.lr) else self.lr
        return self.apply_with_lr(epoch, lr, grad, value, name, step)

    def apply_with_lr(self, epoch: int, lr: float, grad: Tensor, value: Tensor,
                      name: str | None = None, step: int = -1) -> Tensor:
        """As apply, with the given learning rate."""
        for t, what in ((grad, "grad"), (value, "value")):
            if not isinstance(t, Tensor):
                raise TypeError(f"{type(self).__name__}: {what} is {type(t)}, must be a Tensor; "
                                "the order is (epoch, grad, value, name)")
        if grad.shape != value.shape:
            raise ValueError(f"{type(self).__name__}: grad has shape {grad.shape}, value "
                             f"{value.shape}")
        for own, general in zip(self._named.get(name or "", (None, None)),
                                (self.regularizer, self.constraint)):
            change = own or general
            if change is not None:
                grad = change.apply(epoch, value, grad, step)
        if self._opt is None:
            self._opt = self._make(float(lr), value.dtype)
            self._rate = float(lr)
        elif self._rate != float(lr):
            self._opt.lr = self._rate = float(lr)
        self._opt.apply(name or "", value, grad)
        return value


class SGD(Optimizer):
    """opt.SGD with the interface of early 2020: apply(epoch, grad, value, name)."""

    nesterov = False

    def _make(self, lr: float, dtype: int) -> opt.Optimizer:
        return opt.SGD(lr, self.momentum, weight_decay=self.weight_decay,
                       nesterov=self.nesterov and self.momentum != 0, dtype=dtype)


class Nesterov(SGD):
    """SGD with Nesterov's momentum, 0.9 if none is given."""

    nesterov = True

    def __init__(self, lr: Rate | None = None, momentum: float = 0.9,
                 weight_decay: float | None = None, regularizer: Change | None = None,
                 constraint: Change | None = None) -> None:
        super().__init__(lr, momentum, weight_decay, regularizer, constraint)


class RMSProp(Optimizer):
    """opt.RMSProp with the interface of early 2020."""

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-8, lr: Rate | None = None,
                 weight_decay: float | None = None, regularizer: Change | None = None,
                 constraint: Change | None = None) -> None:
        super().__init__(lr, None, weight_decay, regularizer, constraint)
        self.rho: float = rho
        self.epsilon: float = epsilon

    def _make(self, lr: float, dtype: int) -> opt.Optimizer:
        return opt.RMSProp(lr, self.rho, self.epsilon, self.weight_decay, dtype)


class AdaGrad(Optimizer):
    """opt.AdaGrad with the interface of early 2020."""

    def __init__(self, epsilon: float = 1e-8, lr: Rate | None = None,
                 weight_decay: float | None = None, regularizer: Change | None = None,
                 constraint: Change | None = None) -> None:
        super().__init__(lr, None, weight_decay, regularizer, constraint)
        self.epsilon = epsilon

    def _make(self, lr: float, dtype: int) -> opt.Optimizer:
        return opt.AdaGrad(lr, self.epsilon, self.weight_decay, dtype)


class Adam(Optimizer):
    """Counts a step when a parameter's name is seen again, or takes the count from `step`."""

    def __init__(self, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-8,
                 lr: Rate | None = None, weight_decay: float | None = None,
                 regularizer: Change | None = None, constraint: Change | None = None) -> None:
        super().__init__(lr, None, weight_decay, regularizer, constraint)
        self.beta_1: float = beta_1
        self.beta_2: float = beta_2
        self.epsilon: float = epsilon
        self._done: set[tuple[str | None, int]] = set()

    def _make(self, lr: float, dtype: int) -> opt.Optimizer:
        return opt.Adam(lr, self.beta_1, self.beta_2, self.epsilon, self.weight_decay, dtype)

    def apply_with_lr(self, epoch: int, lr: float, grad: Tensor, value: Tensor,
                      name: str | None = None, step: int = -1) -> Tensor:
        """One update of value by grad at the rate lr; returns value. A parameter that comes again
        begins the next step."""
        key = name, id(value.data.value)
        if key in self._done and self._opt is not None:
            self._opt.step()
            self._done.clear()
        value = super().apply_with_lr(epoch, lr, grad, value, name, step)
        self._done.add(key)
        return value
