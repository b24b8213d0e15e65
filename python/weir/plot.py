"""plot - pictures of a planned step with matplotlib: timeline, address map, budget curve.

Each function draws into the axes given, or into new ones, and returns them. What is drawn comes
from the plan itself (weir.Graph.json).
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from .graph import Document, Graph, Plan

# Those of the SVG pictures.
COLOURS = {"param": "#5b6b7b", "state": "#8fa0b0", "input": "#7fb39b", "output": "#b9cf94",
           "activation": "#4c86c6", "gradient": "#ee9440", "workspace": "#c65b7c"}
OTHER = "#66737f"
MIB = 2.0**20


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("weir.plot needs matplotlib: pip install weir[plot]") from error
    return pyplot.subplots(figsize=(10, 5))[1]


def _plan(graph: Graph | Document) -> Plan:
    """The plan of a weir.Graph, or of its JSON."""
    document = graph if isinstance(graph, dict) else graph.json()
    return document["plan"]


def live_bytes(graph: Graph | Document) -> dict[str, list[int]]:
    """{kind: bytes of the arena that live during each instruction}."""
    plan = _plan(graph)
    steps = len(plan["instructions"])
    live: dict[str, list[int]] = {}
    for item in plan["items"]:
        row = live.setdefault(item["kind"], [0] * steps)
        for i in range(item["first"], min(item["last"] + 1, steps)):
            row[i] += item["bytes"]
    return live


def timeline(graph: Graph | Document, ax: Axes | None = None) -> Axes:
    """Live bytes of the arena by kind over the instructions; as lines the planned peak and, of a
    weir.Graph with a budget, what the budget leaves for the arena beside persistent tensors."""
    axes = _axes(ax)
    live = live_bytes(graph)
    steps = range(len(_plan(graph)["instructions"]))
    if live:
        axes.stackplot(steps, *([b / MIB for b in row] for row in live.values()),
                       labels=list(live), colors=[COLOURS.get(kind, OTHER) for kind in live],
                       step="mid")
    peak = _plan(graph)["arena_bytes"] / MIB
    axes.axhline(peak, color="black", linewidth=1, linestyle="--",
                 label=f"planned peak of the arena {peak:.3f} MiB")
    title = f"A step of {len(steps)} instructions"
    if not isinstance(graph, dict):
        stats = graph.stats
        persistent, most = stats["persistent_bytes"], stats["budget_bytes"]
        title += f"; beside the arena {persistent / MIB:.3f} MiB are persistent"
        if most:
            axes.axhline((most - persistent) / MIB, color="#c0392b", linewidth=1,
                         label=f"budget {most / MIB:.3f} MiB, less what is persistent")
    axes.set(xlabel="instruction", ylabel="live in the arena, MiB", ylim=(0, None), title=title)
    axes.legend(loc="upper right")
    return axes


def addresses(graph: Graph | Document, ax: Axes | None = None) -> Axes:
    """Lifetime x offset of everything in the arena, as rectangles."""
    from matplotlib.patches import Rectangle
    axes = _axes(ax)
    plan = _plan(graph)
    seen = set()
    for item in plan["items"]:
        kind = item["kind"]
        axes.add_patch(Rectangle(
            (item["first"] - 0.5, item["offset"] / MIB), item["last"] - item["first"] + 1,
            item["bytes"] / MIB, facecolor=COLOURS.get(kind, OTHER), edgecolor="white",
            linewidth=0.5, label=None if kind in seen else kind))
        seen.add(kind)
    axes.set(xlabel="instruction", ylabel="offset in the arena, MiB",
             title=f"Addresses of {len(plan['items'])} tensors and workspaces",
             xlim=(-0.5, max(len(plan["instructions"]), 1) - 0.5),
             ylim=(0, max(plan["arena_bytes"], 1) / MIB))
    if seen:
        axes.legend(loc="upper right")
    return axes


def budget(points: Iterable[tuple[float, float]], ax: Axes | None = None, label: str | None = None,
           floor: float | None = None) -> Axes:
    """Time of a step against its memory: points are (bytes, seconds); floor: bytes below which no
    plan exists."""
    axes = _axes(ax)
    points = sorted(points)
    axes.plot([b / MIB for b, _ in points], [s * 1e3 for _, s in points], marker="o", label=label)
    if floor is not None:
        axes.axvline(floor / MIB, color="black", linewidth=1, linestyle="--",
                     label="smallest budget")
    axes.set(xlabel="budget, MiB", ylabel="time of a step, ms", title="Time against memory")
    if label is not None or floor is not None:
        axes.legend()
    return axes
