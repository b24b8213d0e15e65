"""plot - pictures of a planned step with matplotlib: timeline, address map, budget curve.

Each function draws into the axes given, or into new ones, and returns them. What is drawn comes
from the plan itself (weir.Graph.json).
"""
from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from .graph import Document, Graph

# Those of the SVG pictures.
COLOURS = {"param": "#5b6b7b", "state": "#8fa0b0", "input": "#7fb39b", "output": "#b9cf94",
           "activation": "#4c86c6", "gradient": "#ee9440", "workspace": "#c65b7c"}
OTHER = "#66737f"
PHASES = {"fwd": ("forward", "#d6e6f7"), "bwd": ("backward", "#fce3c8"),
          "opt": ("update", "#e2d5f0")}
WIRE, WAIT = "#3d5a80", "#dc4c3f"
MIB = 2.0**20


def _axes(ax: Axes | None, height: float = 5) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("weir.plot needs matplotlib: pip install weir[plot]") from error
    return pyplot.subplots(figsize=(10, height))[1]


def _document(graph: Graph | Document) -> Document:
    """The JSON of a weir.Graph, or what is it already."""
    return graph if isinstance(graph, dict) else graph.json()


def live_bytes(graph: Graph | Document) -> dict[str, list[int]]:
    """{kind: bytes of the arena that live during each instruction}."""
    plan = _document(graph)["plan"]
    steps = len(plan["instructions"])
    live: dict[str, list[int]] = {}
    for item in plan["items"]:
        row = live.setdefault(item["kind"], [0] * steps)
        for i in range(item["first"], min(item["last"] + 1, steps)):
            row[i] += item["bytes"]
    return live


def _known(times: Iterable[float | None]) -> list[float]:
    """The times, or none at all if one is not known."""
    listed = list(times)
    known = [t for t in listed if t is not None]
    return known if len(known) == len(listed) else []


class _TimeRows:
    """Rows of a step with collectives: computing and the wire as predicted, computing as profiled.
    Their axis is time, since a wait of any length is one instruction. Times are milliseconds."""

    def __init__(self, document: Document) -> None:
        plan = document["plan"]
        steps = plan["instructions"]
        self.document = document
        self.collectives = plan.get("collectives", [])
        # When each instruction begins and the step ends; empty: not known.
        self.predicted = _known([*(i.get("begin_ms") for i in steps), plan.get("step_ms")])
        self.measured = _known([*(i.get("measured_begin_ms") for i in steps),
                                plan.get("measured_step_ms")])
        self.names = (["compute", "wire"] if self.predicted else []) + \
            (["measured"] if self.measured else [])

    def spans(self) -> list[tuple[float, float, float]]:
        """(begin, end, exposed) of each collective on the wire, as predicted."""
        return [(c["begin_ms"], c["begin_ms"] + c["wire_ms"], c["exposed_ms"])
                for c in self.collectives if c["begin_ms"] is not None
                and c["wire_ms"] is not None and c["exposed_ms"] is not None]

    def waits(self) -> list[tuple[float, float]]:
        """(begin, duration) of each wait of computing, as predicted."""
        return [(end - exposed, exposed) for _, end, exposed in self.spans() if exposed > 0]

    def measured_waits(self) -> list[tuple[float, float]]:
        """The same as profiled: an instruction that awaits a collective ends with its wait."""
        found = [(self.measured[c["wait"] + 1], c["measured_exposed_ms"])
                 for c in self.collectives if c["measured_exposed_ms"] is not None]
        return [(end - wait, wait) for end, wait in found if wait > 0]

    def exposed(self) -> list[tuple[float, float]]:
        """(begin, duration) of what computing waits for on the wire. It may wait for a collective
        while the wire is busy with those ahead of it."""
        parts = [(max(begin, wait), min(end, wait + duration))
                 for begin, end, _ in self.spans() for wait, duration in self.waits()]
        return [(begin, end - begin) for begin, end in parts if end > begin]

    def phases(self) -> list[str]:
        """The phase of each instruction."""
        return [self.document["ops"][i["op"]]["phase"]
                for i in self.document["plan"]["instructions"]]

    def draw(self, axes: Axes) -> None:
        """Draws the rows into axes below these."""
        from mpl_toolkits.axes_grid1 import make_axes_locatable
        rows = make_axes_locatable(axes).append_axes("bottom", 0.3 * len(self.names), pad=0.85)
        if self.predicted:
            self._draw_computing(rows, 0, self.predicted, self.waits())
            self._draw_wire(rows, 1)
        if self.measured:
            self._draw_computing(rows, len(self.names) - 1, self.measured, self.measured_waits())
        rows.set(xlabel="time, ms", ylim=(len(self.names) - 0.5, -0.5),
                 xlim=(0, max(self.predicted[-1:] + self.measured[-1:]) or 1))
        rows.set_yticks(range(len(self.names)), self.names)
        self._legend(rows)

    def _draw_computing(self, rows: Axes, row: int, begins: list[float],
                        waits: list[tuple[float, float]]) -> None:
        first = 0
        for phase, run in itertools.groupby(self.phases()):
            end = first + len(list(run))
            rows.broken_barh([(begins[first], begins[end] - begins[first])], (row - 0.35, 0.7),
                             facecolors=PHASES[phase][1])
            first = end
        rows.broken_barh(waits, (row - 0.35, 0.7), facecolors=WAIT,
                         gid=f"weir-{self.names[row]}-waits")

    def _draw_wire(self, rows: Axes, row: int) -> None:
        bars = [(begin, end - begin) for begin, end, _ in self.spans()]
        for name, found, colour in (("wire", bars, WIRE), ("exposed", self.exposed(), WAIT)):
            rows.broken_barh(found, (row - 0.35, 0.7), facecolors=colour, edgecolor="white",
                             linewidth=0.4, gid=f"weir-{name}")

    def _legend(self, rows: Axes) -> None:
        from matplotlib.patches import Patch
        plan, phases = self.document["plan"], self.phases()
        wire, exposed = plan.get("wire_ms"), plan.get("exposed_ms")
        waits = [f"{exposed:.4f} ms predicted"] if exposed is not None else []
        if self.measured:
            waits.append(f"{sum(wait for _, wait in self.measured_waits()):.4f} ms measured")
        keys = [Patch(facecolor=colour, label=name)
                for phase, (name, colour) in PHASES.items() if phase in phases]
        if wire is not None:
            keys.append(Patch(facecolor=WIRE, label=f"wire {wire:.4f} ms"))
        keys.append(Patch(facecolor=WAIT, label=f"computing waits: {', '.join(waits)}"))
        rows.legend(handles=keys, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(keys),
                    frameon=False, fontsize="small", borderaxespad=0.2)


def timeline(graph: Graph | Document, ax: Axes | None = None) -> Axes:
    """Live bytes of the arena by kind over the instructions; as lines the planned peak and, of a
    weir.Graph with a budget, what the budget leaves for the arena beside persistent tensors.

    A step with collectives has rows below, in axes of their own over milliseconds: computing and
    the wire as predicted, computing as profiled, with the time in which it waits for the wire."""
    document = _document(graph)
    rows = _TimeRows(document)
    drawn = bool(rows.collectives and rows.names)
    axes = _axes(ax, 6.5 if drawn else 5)
    live = live_bytes(document)
    steps = range(len(document["plan"]["instructions"]))
    if live:
        axes.stackplot(steps, *([b / MIB for b in row] for row in live.values()),
                       labels=list(live), colors=[COLOURS.get(kind, OTHER) for kind in live],
                       step="mid")
    peak = document["plan"]["arena_bytes"] / MIB
    axes.axhline(peak, color="black", linewidth=1, linestyle="--",
                 label=f"planned peak of the arena {peak:.3f} MiB")
    title = f"A step of {len(steps)} instructions"
    if rows.collectives and not drawn:
        title += f", {len(rows.collectives)} collectives of unknown time"
    if not isinstance(graph, dict):
        stats = graph.stats
        persistent, most = stats["persistent_bytes"], stats["budget_bytes"]
        title += f"; beside the arena {persistent / MIB:.3f} MiB are persistent"
        if most:
            axes.axhline((most - persistent) / MIB, color="#c0392b", linewidth=1,
                         label=f"budget {most / MIB:.3f} MiB, less what is persistent")
    axes.set(xlabel="instruction", ylabel="live in the arena, MiB", ylim=(0, None), title=title)
    axes.legend(loc="upper right")
    if drawn:
        rows.draw(axes)
    return axes


def addresses(graph: Graph | Document, ax: Axes | None = None) -> Axes:
    """Lifetime x offset of everything in the arena, as rectangles."""
    from matplotlib.patches import Rectangle
    axes = _axes(ax)
    plan = _document(graph)["plan"]
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
