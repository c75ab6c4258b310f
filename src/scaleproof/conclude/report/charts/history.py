"""The chart of throughput over commits."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from scaleproof.conclude.report.charts.style import (
    ALARM,
    COLOURS,
    LINES,
    MARKERS,
    MOST_LINES,
    SMALL,
    tip,
    write_chart,
)
from scaleproof.ground.number_format import fixed, number

Rate = tuple[float, float | None, float | None]  # tokens/s of a session with its interval over runs
Track = Mapping[int, Rate]  # place in the order of sessions -> rate


def draw_history(
    tracks: Mapping[str, Track], labels: Sequence[str], steps: Mapping[str, Sequence[int]], out: Path
) -> None:
    """Write `out`.svg and .png: each cell's rate relative to its first session, with intervals over runs.

    `labels`: of the sessions, in their order. `steps`: series -> places before which it changed.
    """
    write_chart(out, 4.2, lambda axes: _fill(axes, tracks, labels, steps))


def _fill(axes: Axes, tracks: Mapping[str, Track], labels: Sequence[str], steps: Mapping[str, Sequence[int]]) -> None:
    for nth, (cell, track) in enumerate(list(tracks.items())[:MOST_LINES]):
        places = sorted(track)
        first = track[places[0]][0]
        shade = COLOURS[nth % len(COLOURS)]
        values = [100 * (track[i][0] / first - 1) for i in places]
        axes.plot(places, values, ls=LINES[nth // len(COLOURS) % len(LINES)], color=shade, lw=1.2)
        for i, value in zip(places, values, strict=True):
            rate, low, high = track[i]
            if low is not None and high is not None:
                axes.plot([i, i], [100 * (low / first - 1), 100 * (high / first - 1)], color=shade, lw=1, alpha=0.5)
            (mark,) = axes.plot([i], [value], MARKERS[nth % len(MARKERS)], color=shade, ms=6, mec="white", mew=0.6)
            mark.set_label(cell if i == places[0] else None)
            tip(mark, f"{cell}, {labels[i]}: {number(rate, 4)} tokens/s, {fixed(value, 2, signed=True)} %")
    for place in sorted({place for of_series in steps.values() for place in of_series}):
        axes.axvline(place - 0.5, color=ALARM, lw=1.2, ls="--")
    axes.axhline(0, color="0.5", lw=1, zorder=0)
    axes.set_xticks(
        range(len(labels)), labels, rotation=60 if len(labels) > 4 else 0, ha="right" if len(labels) > 4 else "center"
    )
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.set_ylabel("change since the first (%)")
    more = f", the first {MOST_LINES} of {len(tracks)} cells" if len(tracks) > MOST_LINES else ""
    axes.set_title(f"tokens/s over {len(labels)} results; dashed: a step{more}")
