"""updates - torch's optimisers as updates of the core: numbers, states, formulae.

A rule names the numbers that the core reads from a vector before each run (so schedulers, which
change param_groups, work), and the states that a parameter has, under torch's names.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypedDict, cast

import torch

from .. import _capi as capi
from ..options import options
from ..typing import Handle


class Group(TypedDict):
    """What torch keeps in param_groups; each optimiser has some of it."""

    params: list[torch.Tensor]
    lr: float
    momentum: float
    dampening: float
    nesterov: bool
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    decoupled_weight_decay: bool
    alpha: float
    centered: bool
    lr_decay: float


class Update(Protocol):
    """Records one update."""

    def __call__(self, param: Handle, grad: Handle, states: Mapping[str, Handle], step: Handle,
                 numbers: Handle, group: Group) -> None:
        """The parameter changes by its gradient; `numbers` is the vector of the group."""
        ...


@dataclass(frozen=True)
class Rule:
    """How an optimiser of torch updates a parameter."""

    numbers: Callable[[Group, int], list[float]]    # of a group at a step, counted from 1
    states: Callable[[Group], list[str]]
    update: Update
    fixed: tuple[str, ...]          # settings of a group that are recorded: changes are errors
    refused: tuple[str, ...]        # settings that must be false


def _sgd_numbers(g: Group, step: int) -> list[float]:
    return [float(g["lr"]), g["momentum"], g["weight_decay"], 0.0 if step == 1 else g["dampening"]]


def _sgd(param: Handle, grad: Handle, states: Mapping[str, Handle], step: Handle, numbers: Handle,
         group: Group) -> None:
    how = options(capi.weir_sgd_options, momentum=group["momentum"], nesterov=group["nesterov"])
    capi.weir_sgd_update(param, grad, states.get("momentum_buffer"), numbers, how)


def _adam_numbers(g: Group, step: int) -> list[float]:
    beta1, beta2 = g["betas"]
    return [float(g["lr"]), float(beta1), float(beta2), g["eps"], g["weight_decay"]]


def _adam(param: Handle, grad: Handle, states: Mapping[str, Handle], step: Handle, numbers: Handle,
          group: Group) -> None:
    decoupled = group.get("decoupled_weight_decay")
    update = capi.weir_adamw_update if decoupled else capi.weir_adam_update
    update(param, grad, states["exp_avg"], states["exp_avg_sq"], step, numbers, None)


def _adamw(param: Handle, grad: Handle, states: Mapping[str, Handle], step: Handle,
           numbers: Handle, group: Group) -> None:
    capi.weir_adamw_update(param, grad, states["exp_avg"], states["exp_avg_sq"], step, numbers,
                           None)


def _rmsprop_states(g: Group) -> list[str]:
    return ["square_avg", *["momentum_buffer"] * bool(g["momentum"]),
            *["grad_avg"] * bool(g["centered"])]


def _rmsprop(param: Handle, grad: Handle, states: Mapping[str, Handle], step: Handle,
             numbers: Handle, group: Group) -> None:
    how = options(capi.weir_rmsprop_options, centered=bool(group["centered"]),
                  momentum=group["momentum"])
    capi.weir_rmsprop_update(param, grad, states["square_avg"], states.get("momentum_buffer"),
                             states.get("grad_avg"), numbers, how)


def _adagrad(param: Handle, grad: Handle, states: Mapping[str, Handle], step: Handle,
             numbers: Handle, group: Group) -> None:
    capi.weir_adagrad_update(param, grad, states["sum"], numbers, None)


RULES: dict[type[torch.optim.Optimizer], Rule] = {
    torch.optim.SGD: Rule(_sgd_numbers,
                          lambda g: ["momentum_buffer"] if g["momentum"] else [], _sgd,
                          ("nesterov",), ("maximize", "differentiable")),
    torch.optim.Adam: Rule(_adam_numbers, lambda g: ["exp_avg", "exp_avg_sq"], _adam,
                           ("decoupled_weight_decay",), ("amsgrad", "maximize", "differentiable")),
    torch.optim.AdamW: Rule(_adam_numbers, lambda g: ["exp_avg", "exp_avg_sq"], _adamw,
                            (), ("amsgrad", "maximize", "differentiable")),
    torch.optim.RMSprop: Rule(
        lambda g, step: [float(g["lr"]), g["alpha"], g["eps"], g["weight_decay"], g["momentum"]],
        _rmsprop_states, _rmsprop, ("centered",), ("maximize", "differentiable")),
    torch.optim.Adagrad: Rule(
        lambda g, step: [g["lr"] / (1 + (step - 1) * g["lr_decay"]), g["eps"], g["weight_decay"]],
        lambda g: ["sum"], _adagrad, (), ("maximize", "differentiable")),
}


def groups_of(optimizer: torch.optim.Optimizer) -> list[Group]:
    """Its param_groups."""
    return cast("list[Group]", optimizer.param_groups)


def rule_of(optimizer: torch.optim.Optimizer) -> Rule | None:
    """The rule of an optimiser; None: torch itself updates. A subclass may do something else."""
    rule = RULES.get(type(optimizer))
    if rule and any(group.get(name) for group in optimizer.param_groups for name in rule.refused):
        return None
    return rule
