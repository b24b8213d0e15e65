"""options - structs of options of the core: how a device is opened, how a step is planned."""
from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable
from typing import TypedDict, TypeVar

from . import _capi as capi
from .errors import InvalidError
from .typing import Budget, Path


T = TypeVar("T")


class PlanOptions(TypedDict, total=False):
    """How a step is planned: arguments of plan_options, which says what each means."""

    level: int
    disable: str | Iterable[str] | None
    budget: Budget | None
    policy: str | None
    placement: str | None
    measure: bool
    cache: Path | None
    guided: int
    shared_budget: bool


def options(kind: Callable[[], T], **fields: object) -> T:
    """An options struct of the core with these fields, all others 0."""
    struct = kind()
    for name, value in fields.items():
        setattr(struct, name, value)
    return struct


def _text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a string or None, not {value!r}")
    return value


def pass_names(names: str | Iterable[str] | None) -> str | None:
    """Names of passes, a list or a text with commas, as the text of weir_plan_options.disable."""
    return names if names is None or isinstance(names, str) else ",".join(names)


def budget_text(budget: Budget | None) -> str | None:
    """A budget as the core reads it: None, a number of bytes or a text."""
    fraction = (isinstance(budget, float) and not budget.is_integer()
                or isinstance(budget, str) and re.fullmatch(r"\d*\.\d+", budget.strip()))
    if fraction:
        raise InvalidError(f"budget {budget}: must be a whole number of bytes, or a text such as "
                           '"512MB", "0.5GiB" or "75%"')
    return None if budget is None else str(int(budget) if isinstance(budget, float) else budget)


def plan_options(level: int = 0, disable: str | Iterable[str] | None = None,
                 budget: Budget | None = None, policy: str | None = None,
                 placement: str | None = None, measure: bool = False, cache: Path | None = None,
                 guided: int = 0, shared_budget: bool = False,
                 **unknown: object) -> capi.weir_plan_options:
    """How a step is planned: a capi.weir_plan_options, which says more.

    level: 0 or 1, every pass that keeps the bits; -1: none. disable: passes to leave out, names or
    a text with commas. budget: bytes that the whole step may take, a number or a text ("512MB",
    "75%" of what it takes without). policy: how it is met ("auto", "dtr", ...; the table is in
    docs/user/policies.md). placement: how offsets are found ("auto", "tstack", "exact", ...).
    measure: kernels are timed while planning, else times are estimated. cache: a folder that keeps
    plans; "": none; None: $WEIR_PLAN_CACHE. guided: the number of steps to measure, after which the
    graph is planned again if their times differ from the prediction, and collectives are predicted
    from them. shared_budget: the budget is one for all graphs of the device that are planned with
    this option; a percentage is a share of what they take together without a budget. No option
    changes a bit of what is computed, except policies that say so.
    """
    if unknown:
        raise TypeError(f"unknown plan option {next(iter(unknown))!r} (expected level, disable, "
                        "budget, policy, placement, measure, cache, guided or shared_budget)")
    texts = {"disable": pass_names(disable), "budget": budget_text(budget),
             "policy": _text("policy", policy), "placement": _text("placement", placement),
             "cache": None if cache is None else os.fspath(cache)}
    return options(capi.weir_plan_options, level=level, measure=bool(measure),
                   shared_budget=bool(shared_budget),
                   profile_steps=operator.index(guided),
                   **{name: text for name, text in texts.items() if text is not None})
