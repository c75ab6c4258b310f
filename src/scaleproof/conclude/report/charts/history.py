"""The chart of throughput over commits."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from scaleproof.conclude.report.chart_style import ALARM, COLOURS, LINES, MARKERS, MOST_LINES, SMALL, tip, write_chart
from scaleproof.ground.number_format import fixed, number

Rate = tuple[float, float | None, float | None]  # tokens/s of a session with its interval over runs
Track = Mapping[int, Rate]  # place in the order of sessions -> rate


def draw_history(
    tracks: Mapping[str, Track], labels: Sequence[str], shifts: Mapping[str, Sequence[int]], out: Path
) -> None:
    """Write `out`.svg and .png: each cell's rate relative to its first session, with intervals over runs.

    `tracks`: cell -> its rates. `labels`: of the sessions, in their order. `shifts`: series -> places of the sessions
    before which its rate changed.
    """
    write_chart(out, 4.2, lambda axes: _draw(axes, tracks, labels, shifts))


def _draw(axes: Axes, tracks: Mapping[str, Track], labels: Sequence[str], shifts: Mapping[str, Sequence[int]]) -> None:
    """Draw each cell's rate as a change in percent since its first session; arguments as of `draw_history`."""
    for nth, (cell, track) in enumerate(list(tracks.items())[:MOST_LINES]):
        first_session = min(track)
        first_rate = track[first_session][0]
        changes = {session: 100 * (rate / first_rate - 1) for session, (rate, _low, _high) in sorted(track.items())}
        shade = COLOURS[nth % len(COLOURS)]
        line = LINES[nth // len(COLOURS) % len(LINES)]
        axes.plot(list(changes), list(changes.values()), ls=line, color=shade, lw=1.2)
        for session, change in changes.items():
            rate, low, high = track[session]
            if low is not None and high is not None:
                bounds = [100 * (bound / first_rate - 1) for bound in (low, high)]
                axes.plot([session, session], bounds, color=shade, lw=1, alpha=0.5)
            marker = MARKERS[nth % len(MARKERS)]
            (mark,) = axes.plot([session], [change], marker, color=shade, ms=6, mec="white", mew=0.6)
            mark.set_label(cell if session == first_session else None)  # one entry of the legend
            tip(mark, f"{cell}, {labels[session]}: {number(rate, 4)} tokens/s, {fixed(change, 2, signed=True)} %")
    for session in sorted({session for sessions in shifts.values() for session in sessions}):
        axes.axvline(session - 0.5, color=ALARM, lw=1.2, ls="--")
    axes.axhline(0, color="0.5", lw=1, zorder=0)
    crowded = len(labels) > 4
    axes.set_xticks(range(len(labels)), labels, rotation=60 if crowded else 0, ha="right" if crowded else "center")
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.set_ylabel("change since the first (%)")
    more = f", the first {MOST_LINES} of {len(tracks)} cells" if len(tracks) > MOST_LINES else ""
    axes.set_title(f"tokens/s over {len(labels)} results; dashed: a shift{more}")
