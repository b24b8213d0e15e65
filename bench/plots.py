# plots.py - pictures of graph_mode.py: time and memory, planned and measured peaks, operations.
"""Needs matplotlib. Off is grey and on blue throughout; every bar carries its number, because
models differ by a factor of a thousand and are therefore drawn relative to graph off."""
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt     # after the back end was chosen

OFF, ON, MARK = "#9aa3ad", "#2368a2", "#c8102e"
SHOWN = 9               # operations with a colour of their own; the rest is "other"
WIDTH = 10.5            # inches


def save(figure, folder, name):
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    return paths


def rows_figure(count, panels=1):
    """A figure of `count` rows a panel, tall enough for its text."""
    return plt.subplots(1, panels, figsize=(WIDTH, 1.5 + 0.55 * count), layout="constrained",
                        squeeze=False)


def plain(axes):
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#e3e6ea")
    axes.set_axisbelow(True)


def milliseconds(value):
    return f"{value:.3g} ms" if value < 100 else f"{value:.0f} ms"


def size(value):
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def off_on_bars(axes, names, off, on, text):
    """Two bars for each name, in percent of graph off, with the absolute figures beside them."""
    for row, (a, b) in enumerate(zip(off, on)):
        for value, y, colour, what in ((a, row - 0.2, OFF, "off"), (b, row + 0.2, ON, "on")):
            percent = 100 * value / max(a, 1e-12)
            axes.barh(y, percent, 0.38, color=colour, label=f"graph {what}" if row == 0 else None)
            note = f" {text(value)}" + ("" if what == "off" else f"  ({percent:.0f} %)")
            axes.text(percent, y, note, va="center", fontsize=8.5)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_xlim(0, 1.3 * max(100, *(100 * b / max(a, 1e-12) for a, b in zip(off, on))))
    axes.set_xlabel("percent of graph off")
    plain(axes)


def time_picture(folder, cases, names):
    figure, ((axes,),) = rows_figure(len(names))
    off_on_bars(axes, names, [off["step_ms_median"] for off, _ in cases],
                [on["step_ms_median"] for _, on in cases], milliseconds)
    axes.set_title("Time of a training step, graph off and on (median)")
    axes.legend(loc="lower right", framealpha=1)
    return save(figure, folder, "time")


def bound_marks(axes, cases):
    """Where no placement of the planned step gets below."""
    for row, (off, on) in enumerate(cases):
        at = 100 * on["lower_bound_bytes"] / max(1, off["step_peak_bytes"])
        axes.plot([at, at], [row + 0.01, row + 0.39], color=MARK, linewidth=2,
                  label="lower bound" if row == 0 else None)


def planned_measured(axes, cases, names):
    """Planned on one axis, measured on the other: on the line they are the same."""
    points = sorted((on["planned_peak_bytes"], on["measured_peak_bytes"], name)
                    for name, (_, on) in zip(names, cases))
    low, high = points[0][0] / 3, points[-1][0] * 3
    axes.plot([low, high], [low, high], color="#b9c0c7", linewidth=1, zorder=1)
    axes.scatter([p for p, _, _ in points], [m for _, m, _ in points], color=ON, zorder=2)
    for i, (planned, measured, name) in enumerate(points):
        right = i % 2 == 0      # neighbours write on different sides of the line
        difference = measured - planned
        axes.annotate(f"{name}" + (f" ({difference:+d} B)" if difference else ""),
                      (planned, measured), xytext=(8 if right else -8, -3 if right else 3),
                      textcoords="offset points", ha="left" if right else "right", fontsize=8.5,
                      va="top" if right else "bottom")
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high),
             xlabel="planned peak, bytes", ylabel="measured peak, bytes")
    exact = sum(p == m for p, m, _ in points)
    axes.set_title(f"Planned and measured: equal to the byte\nfor {exact} of {len(points)}")
    plain(axes)
    axes.grid(axis="y", color="#e3e6ea")


def memory_picture(folder, cases, names):
    figure, ((left, right),) = rows_figure(max(len(names), 6), 2)
    off_on_bars(left, names, [off["step_peak_bytes"] for off, _ in cases],
                [on["step_peak_bytes"] for _, on in cases], size)
    bound_marks(left, cases)
    left.set_title("Memory of a step beyond parameters,\nstate and inputs")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.5 / max(len(names), 6) - 0.03), ncols=3,
                frameon=False)
    planned_measured(right, cases, [on["model"] for _, on in cases])
    return save(figure, folder, "memory")


def short(operation):
    return operation if len(operation) <= 26 else operation[:24] + ".."


def stacked(axes, names, parts, colours):
    """parts: {label: [percent for each name]}."""
    left = [0.0] * len(names)
    for label, values in parts.items():
        axes.barh(range(len(names)), values, 0.7, left=left, color=colours[label], label=label,
                  edgecolor="white", linewidth=0.6)
        for row, value in enumerate(values):
            if value >= 7:
                axes.text(left[row] + value / 2, row, f"{value:.0f}", ha="center", va="center",
                          fontsize=8, color="white")
        left = [a + b for a, b in zip(left, values)]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_xlim(0, 100)
    axes.set_xlabel("percent of the step")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.55 / len(names) - 0.08), ncols=3,
                fontsize=8, frameon=False)
    plain(axes)


def by_operation(profiles):
    """{operation: [share in each model]}, the largest ones by name, then the others together."""
    shares = []
    for p in profiles:
        sums = {}
        for row in p["operations"]:
            sums[row["operation"]] = sums.get(row["operation"], 0) + row["share"]
        shares.append(sums)
    weight = {}
    for sums in shares:
        for operation, share in sums.items():
            weight[operation] = weight.get(operation, 0) + share
    best = sorted(weight, key=lambda o: (-weight[o], o))[:SHOWN]
    parts = {short(o): [sums.get(o, 0) for sums in shares] for o in best}
    if len(weight) > SHOWN:
        parts["other"] = [max(0, 100 - sum(column)) for column in zip(*parts.values())]
    return parts


def operations_picture(folder, profiles, names):
    figure, ((left, right),) = plt.subplots(
        1, 2, figsize=(WIDTH, 2.6 + 0.4 * len(names)), layout="constrained", squeeze=False,
        width_ratios=(1, 2))
    totals = [p["phases"]["total"] for p in profiles]
    phases = {k: [100 * p["phases"][k] / t if t else 0 for p, t in zip(profiles, totals)]
              for k in profiles[0]["phases"] if k != "total"}
    stacked(left, names, phases, dict(zip(phases, ("#2368a2", "#7a3b8f", "#d98324"))))
    left.set_title("By phase (verbosity 1)")
    parts = by_operation(profiles)
    wheel = dict(zip(parts, plt.get_cmap("tab10").colors))
    wheel["other"] = "#9aa3ad"
    stacked(right, names, parts, wheel)
    right.set_yticks(range(len(names)), [""] * len(names))
    right.set_title("By operation (verbosity 2), graph on")
    return save(figure, folder, "operations")


def draw(folder, cases, profiles, title):
    """All pictures of `cases`, pairs (off, on), into `folder`; the paths."""
    names = [title(on) for _, on in cases]
    return [*time_picture(folder, cases, names), *memory_picture(folder, cases, names),
            *operations_picture(folder, [profiles[on["model"]] for _, on in cases], names)]
