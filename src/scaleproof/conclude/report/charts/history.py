"""The chart of throughput over commits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from scaleproof.conclude.report.chart_style import ALARM, COLOURS, LINES, MARKERS, MOST_LINES, tip, write_chart
from scaleproof.ground.number_format import fixed, number

Rate = tuple[float, float | None, float | None]  # tokens/s of a session, and bounds over its runs
Track = Mapping[int, Rate]  # index of a session, in their order -> rate


def draw_history(
    tracks: Mapping[str, Track], labels: Sequence[str], shifts: Mapping[str, Sequence[int]], out: Path
) -> None:
    """Write `out`.svg and .png: each cell's rate relative to its first session, with intervals over runs.

    `tracks`: cell -> its rates. `labels`: the label of each session, in their order. `shifts`: series -> indices of the
    sessions before which its rate changed.
    """
    write_chart(out, 4.2, lambda axes: _draw(axes, tracks, labels, shifts))


def _draw(axes: Axes, tracks: Mapping[str, Track], labels: Sequence[str], shifts: Mapping[str, Sequence[int]]) -> None:
    """Draw each cell's rate as a change in percent since its first session. Arguments: as in `draw_history`."""
    for nth, (cell, track) in enumerate(list(tracks.items())[:MOST_LINES]):
        _draw_track(axes, nth, cell, track, labels)
    for session in sorted({session for sessions in shifts.values() for session in sessions}):
        # Between a session and the one before it.
        axes.axvline(session - 0.5, color=ALARM, lw=1.2, ls="--")
    axes.axhline(0, color="0.5", lw=1, zorder=0)
    tick_style: dict[str, Any] = {"rotation": 60, "ha": "right"} if len(labels) > 4 else {"rotation": 0, "ha": "center"}
    axes.set_xticks(range(len(labels)), labels, **tick_style)
    axes.set_ylabel("change since the first (%)")
    selection = f", the first {MOST_LINES} of {len(tracks)} cells" if len(tracks) > MOST_LINES else ""
    axes.set_title(f"tokens/s over {len(labels)} results; dashed: a shift{selection}")


def _draw_track(axes: Axes, nth: int, cell: str, track: Track, labels: Sequence[str]) -> None:
    """Draw the changes of one cell's rate; `nth`, from 0 on, decides on its colour, marker and dashes."""
    first_session = min(track)
    first_rate, _, _ = track[first_session]

    def change_in_percent(rate: float) -> float:
        return 100 * (rate / first_rate - 1)

    shade = COLOURS[nth % len(COLOURS)]
    changes = {session: change_in_percent(rate) for session, (rate, _, _) in sorted(track.items())}
    axes.plot(list(changes), list(changes.values()), ls=LINES[nth // len(COLOURS) % len(LINES)], color=shade, lw=1.2)
    for session, change in changes.items():
        rate, low, high = track[session]
        if low is not None and high is not None:
            bounds = [change_in_percent(low), change_in_percent(high)]
            axes.plot([session, session], bounds, color=shade, lw=1, alpha=0.5)
        marker = MARKERS[nth % len(MARKERS)]
        (mark,) = axes.plot([session], [change], marker, color=shade, ms=6, mec="white", mew=0.6)
        mark.set_label(cell if session == first_session else None)  # one entry of the legend
        tip(mark, f"{cell}, {labels[session]}: {number(rate, 4)} tokens/s, {fixed(change, 2, signed=True)} %")
