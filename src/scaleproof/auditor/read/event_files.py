"""TensorBoard's event files (`events.out.tfevents.*`): the scalars in them.

The format is read here, without `tensorboard`, which is no dependency of this program and would bring a web server: a
file is a sequence of TFRecords (length, its checksum, data, its checksum), each of them a protocol buffer `Event`
(tensorflow/core/util/event.proto) of which four fields are needed. Checksums are not verified.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

PREFIX = "events.out.tfevents."
MARK = b"brain.Event:"  # what the first record of every event file states
LARGEST = 1 << 20  # bytes of a record with scalars; pictures and histograms are larger, and left out
VARINT, EIGHT_BYTES = 0, 1
BYTES, FOUR_BYTES = 2, 5
FLOAT, DOUBLE = 1, 2  # DataType of a tensor

Value = int | float | bytes


def is_event_file(path: Path, start: bytes) -> bool:
    return PREFIX in path.name and MARK in start[:200]


def scalars(path: Path) -> Iterator[tuple[int, float, str, float]]:
    """Yield (step, wall time in seconds, tag, value) of each scalar, up to a record that is cut off or broken."""
    with path.open("rb") as file:
        while len(header := file.read(12)) == 12:
            (length,) = struct.unpack_from("<Q", header)
            if length > LARGEST:
                file.seek(length + 4, 1)
                continue
            record = file.read(length)
            if len(record) < length or len(file.read(4)) < 4:
                return
            try:
                yield from _event(record)
            except (ValueError, IndexError, struct.error):
                return


def _event(record: bytes) -> Iterator[tuple[int, float, str, float]]:
    """Yield (step, wall time in seconds, tag, value) of each scalar of one `Event`."""
    wall_time, step = 0.0, 0
    summaries: list[bytes] = []
    for number, kind, value in _fields(record):
        if (number, kind) == (1, EIGHT_BYTES) and isinstance(value, bytes):
            (wall_time,) = struct.unpack("<d", value)
        elif (number, kind) == (2, VARINT) and isinstance(value, int):
            step = value
        elif (number, kind) == (5, BYTES) and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, _, value in _fields(summary):
            if number == 1 and isinstance(value, bytes) and (scalar := _summary_value(value)):
                yield step, wall_time, *scalar


def _summary_value(data: bytes) -> tuple[str, float] | None:
    """Return the tag and value of a scalar: `simple_value`, or a tensor with one number (TensorBoard 2)."""
    tag, scalar = "", None
    for number, kind, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            tag = value.decode("utf-8", "replace")
        elif (number, kind) == (2, FOUR_BYTES):
            (scalar,) = struct.unpack("<f", value)
        elif (number, kind) == (8, BYTES):
            scalar = _tensor(value)
    return None if scalar is None or not tag else (tag, scalar)


def _tensor(data: bytes) -> float | None:
    """Return the number of a tensor that has one, as raw content or in its list of floats or doubles; else None."""
    dtype: Value = 0
    values: list[bytes] = []
    for number, _, value in _fields(data):
        if number == 1:
            dtype = value
        elif number in (4, 5, 6) and isinstance(value, bytes):
            values.append(value)
    layout = {FLOAT: "<f", DOUBLE: "<d"}.get(dtype if isinstance(dtype, int) else 0)
    if layout is None or len(values) != 1 or len(values[0]) != struct.calcsize(layout):
        return None
    (scalar,) = struct.unpack(layout, values[0])
    return float(scalar)


def _fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield (number, wire type, value) of the fields of a protocol buffer; fixed-size and nested values stay bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            length, at = _varint(data, at)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > len(data):
            raise ValueError("cut off")
        yield key >> 3, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode the whole number at a place: 7 bits a byte, the lowest first. Return it and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("no varint")
