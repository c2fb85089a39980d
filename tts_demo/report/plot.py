"""Word errors against speed as one SVG: a point a setting, and the line of those that none beats in both."""

import io

from ..measure.summary import Point
from ..methods import COLOURS, colour

MARKERS = "os^DvPX*<>ph"  # a method is told by its shape too
LABEL_OFFSETS = (((7, 0), "left", "center"), ((-7, 0), "right", "center"), ((0, 7), "center", "bottom"))  # of a name


def front(found: list[Point]) -> list[Point]:
    """Those that no other point beats in both, fastest first."""
    best: list[Point] = []
    for point in sorted(found, key=lambda p: (p.time, p.errors)):
        if not best or point.errors < best[-1].errors:
            best.append(point)
    return best


def draw(found: list[Point]) -> str:
    """SVG on a white ground, readable on dark pages too; the same points give the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    best, picture = front(found), io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "", "font.family": "sans-serif", "axes.axisbelow": True}):
        figure = Figure((8.4, 5), layout="constrained")
        axes = figure.subplots()
        axes.plot([p.time for p in best], [p.errors for p in best], "--", color="#999999", linewidth=1)
        for i, method in enumerate(dict.fromkeys(p.method for p in found)):
            look = {"c": COLOURS[colour(method)], "marker": MARKERS[i % len(MARKERS)], "label": method}
            mine = [p for p in found if p.method == method]
            axes.scatter([p.time for p in mine], [p.errors for p in mine], s=42, zorder=30 - i, gid=method, **look)
        axes.set(xlim=(0, None), ylim=(0, None), ylabel="WER %, lower is better")
        axes.set_xlabel("time of the language model over the baseline's, lower is faster")
        axes.grid(color="#e4e4e4")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", frameon=False)
        figure.draw_without_rendering()
        _label(axes, best, found)
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def _label(axes: object, best: list[Point], found: list[Point]) -> None:
    """The names of the best, each on no point and no other name; left out where there is no such place."""
    from matplotlib.transforms import Bbox

    dots = [axes.transData.transform((p.time, p.errors)) for p in found]
    taken = [Bbox.from_extents(x - 5, y - 5, x + 5, y + 5) for x, y in dots]
    for point in best:
        for offset, side, row in LABEL_OFFSETS:
            position = {"xytext": offset, "textcoords": "offset points", "ha": side, "va": row, "fontsize": 9}
            label = axes.annotate(point.short, (point.time, point.errors), **position)
            box = label.get_window_extent()
            if not box.count_overlaps(taken) and axes.bbox.x0 < box.x0 and box.x1 < axes.bbox.x1:
                taken.append(box)
                break
            label.remove()
