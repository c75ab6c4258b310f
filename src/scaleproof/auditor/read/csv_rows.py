"""What the rows of a CSV file say about its form: a log that goes on, or a row for each configuration."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from scaleproof.auditor.read.csv_layout import Layout
from scaleproof.auditor.read.fields import figure
from scaleproof.auditor.read.kinds import RESULTS
from scaleproof.auditor.read.printed_figures import gave_no_figures, is_nothing
from scaleproof.auditor.read.row_figures import counts_devices

LOOKED_AT = 2_000  # rows that show the form of a file
OUTCOMES = RESULTS | {"loss", "val_loss", "perplexity", "accuracy", "power_w", "energy_j", "cost", "data_time_s"}
MOST_LENGTHS = 24  # of runs in one table
Records = Sequence[list[str]]


def settle_keys(layout: Layout, records: Records) -> None:
    """Correct `layout.keys`, the columns that tell the runs of a file apart, once its rows are seen.

    A column `gpu` of utilisation is none. Where an epoch is there more than once, columns of settings that nobody
    knows ("num_workers", "optimizer") are, if each epoch of their runs is there once.
    """
    layout.keys = [k for k in layout.keys if layout.columns[k].kind != "device" or _names_devices(records, k)]
    if not _repeated(layout, records, layout.keys):
        return
    settings = [k for k in range(len(layout.names)) if k not in layout.keys and _is_setting(layout, records, k)]
    for further in (*([k] for k in settings), settings):
        if further and not _repeated(layout, records, [*layout.keys, *further]):
            layout.keys = sorted({*layout.keys, *further})
            return


def goes_on(layout: Layout, records: Records) -> bool:
    """Whether the steps or epochs of at least one run go on from row to row, as they do in a log."""
    sequences = _sequences(layout, records, layout.keys)
    return any(_is_sequence(places) for places in sequences if len(places) > 1)


def _is_sequence(places: list[int]) -> bool:
    """Whether numbers are of a log: in order, or in an order that two runs that write to one file can make."""
    if len(places) < 2 or len(set(places)) < 2:
        return False
    if places == sorted(places) or len(places) > MOST_LENGTHS:
        return True
    inside = sorted(set(places))
    gaps = {b - a for a, b in pairwise(inside)}
    return len(gaps) == 1  # 10, 5, 20 are lengths of runs, fastest first


def _repeated(layout: Layout, records: Records, keys: list[int]) -> bool:
    return any(len(set(places)) < len(places) for places in _sequences(layout, records, keys))


def _sequences(layout: Layout, records: Records, keys: list[int]) -> list[list[int]]:
    """Return the steps or epochs of each run, in the order of the file; `keys` are the columns that tell runs apart."""
    at = layout.places["step" if layout.kind == "steps" else "epoch"]
    epoch = layout.places.get("epoch")  # steps may count from 0 in every epoch
    group: str | None = None
    runs: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for record in records:
        if len(record) <= at or (value := figure(record[at])) is None:
            continue
        if layout.group is not None and layout.group < len(record):
            group = record[layout.group] if group is None else group
            if record[layout.group] != group:
                continue
        key = [_cell(record, k) for k in keys]
        if epoch is not None and epoch != at and layout.columns[epoch].kind == "epoch":
            key.append(_cell(record, epoch))
        runs[tuple(key)].append(int(value))
    return list(runs.values())


def _is_setting(layout: Layout, records: Records, k: int) -> bool:
    """Whether a column has a few values, each of which stands for several rows: neither a result nor a place."""
    if k in layout.places.values() or k == layout.group or layout.columns[k].kind in OUTCOMES:
        return False
    values = {_cell(record, k) for record in records}
    return 2 <= len(values) <= len(records) // 2 and not any(is_nothing(value) for value in values)


def _names_devices(records: Records, k: int) -> bool:
    """Whether a column `gpu` has names or numbers of devices."""
    return counts_devices([_cell(record, k) for record in records])


def has_no_figures(record: list[str], figures: Sequence[int]) -> bool:
    """Whether a row says that its run gave no figures: its cells are empty, or one says that it ran out of memory."""
    return all(is_nothing(_cell(record, k)) for k in figures) or any(gave_no_figures(cell) for cell in record)


def _cell(record: list[str], k: int) -> str:
    return record[k].strip() if k < len(record) else ""
