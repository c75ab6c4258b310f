"""Results of a finished campaign whose figures were changed: files that are whole, and say something else."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from random import Random

from bad_cases import DEMO, OTHER, REPOSITORY, RESULTS, RUN, Case, Special

PUBLISHED = next((REPOSITORY / "results/published").glob("demo_*"))
STAGES = ("collect", "findings", "analyse", "report")
CONFLICT = b"<<<<<<< HEAD\n%s=======\n%s>>>>>>> theirs\n"


def published(name: str) -> bytes:
    """Return the file `name` of the results as it was published."""
    return (PUBLISHED / name.removeprefix(f"{RESULTS}/")).read_bytes()


def _table(change: Callable[[list[list[str]], Random], None]) -> Callable[[bytes, Random], bytes]:
    """Return a change of a CSV file's bytes, by one of its rows below the heading."""

    def changed(good: bytes, random: Random) -> bytes:
        heading, *rows = csv.reader(io.StringIO(good.decode()))
        change(rows, random)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([heading, *rows])
        return text.getvalue().encode()

    return changed


def _put(value: Callable[[float], str]) -> Callable[[list[list[str]], Random], None]:
    """Return a change of one number of a table; zeros stay zeros in most units, so other numbers are preferred."""

    def put(rows: list[list[str]], random: Random) -> None:
        places = [(row, at) for row in rows for at, text in enumerate(row) if _number(text)]
        row, at = random.choice(places)
        row[at] = value(float(row[at]))

    return put


def _number(text: str) -> bool:
    try:
        return float(text) not in (0.0, 1.0)
    except ValueError:
        return False


def _in_milliseconds(rows: list[list[str]], _: Random) -> None:
    """Turn the step times, the third column of steps.csv, into milliseconds."""
    for row in rows:
        row[2] = str(float(row[2]) * 1000)


def _row_twice(rows: list[list[str]], random: Random) -> None:
    rows.append(random.choice(rows))


def _fewer_rows(rows: list[list[str]], random: Random) -> None:
    del rows[random.randrange(len(rows)) :]


def _window(change: Callable[[dict], object]) -> Callable[[bytes, Random], bytes]:
    """Return a change of what training_metrics.json says."""

    def changed(good: bytes, _: Random) -> bytes:
        metrics = json.loads(good)
        change(metrics)
        return json.dumps(metrics, indent=2).encode()

    return changed


def _cut(good: bytes, random: Random) -> bytes:
    return good[: random.randrange(1, len(good) - 2)]


def _conflict(good: bytes, _: Random) -> bytes:
    return CONFLICT % (good, good)


def _later_schema(good: bytes, _: Random) -> bytes:
    return json.dumps(json.loads(good) | {"schema_version": "7.0"}).encode()


ENCODED = {
    "a pointer of Git LFS": lambda good, _: b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n",
    "a byte order mark": lambda good, _: b"\xef\xbb\xbf" + good,
    "in UTF-16": lambda good, _: good.decode().encode("utf-16"),
    "lines of Windows": lambda good, _: good.replace(b"\n", b"\r\n"),
    "more behind its end": lambda good, _: good + b"}}\n",
    "compressed": lambda good, _: gzip.compress(good),
}
TIMES = {
    "a number NaN": _table(_put(lambda number: "nan")),
    "a number negative": _table(_put(lambda number: str(-number))),
    "a number 1.3 times": _table(_put(lambda number: str(number * 1.3))),
    "a row twice": _table(_row_twice),
    "rows gone": _table(_fewer_rows),
    "semicolons": lambda good, _: good.replace(b",", b";"),
    "cut off": _cut,
    "a merge conflict": _conflict,
}
METRICS = {
    "twice the tokens": _window(lambda m: m["window"].update(tokens_processed_global=409600)),
    "half the time": _window(lambda m: m["window"].update(wall_time_sec=m["window"]["wall_time_sec"] / 2)),
    "no time": _window(lambda m: m["window"].update(wall_time_sec=0)),
    "tokens as text": _window(lambda m: m["window"].update(tokens_processed_global="25.600")),
    "no window": _window(lambda m: m.pop("window")),
    "no ranks": _window(lambda m: m.update(ranks=[])),
    "time stamp of words": _window(lambda m: m.update(timestamp_utc="yesterday")),
    "year 9999": _window(lambda m: m.update(timestamp_utc="9999-12-31T23:59:59+00:00")),
    "schema 9": _window(lambda m: m.update(schema_version="9.0")),
    "status odd": _window(lambda m: m.update(status="fine")),
    "of another run": lambda good, random: published(f"{OTHER}/training_metrics.json"),
    "cut off": _cut,
    "a merge conflict": _conflict,
}
# A file, what is changed in it, and whether the audit of a campaign has to see that as well as `verify`.
CHANGES = {
    f"{RUN}/training_metrics.json": (METRICS | ENCODED, True),
    f"{RUN}/steps.csv": (TIMES | {"milliseconds": _table(_in_milliseconds)}, True),
    f"{RESULTS}/cells.csv": (TIMES | ENCODED, False),
    f"{RESULTS}/runs.csv": (TIMES, False),
    f"{RESULTS}/scaling_report.json": (
        {"cut off": _cut, "a merge conflict": _conflict, "schema 7": _later_schema},
        False,
    ),
    f"{RESULTS}/tables/scaling.csv": (TIMES, False),
    f"{RESULTS}/report.html": ({"cut off": _cut, "words": lambda good, _: good.replace(b"</p>", b" x</p>", 1)}, False),
    f"{RESULTS}/campaign.yaml": ({"other steps": lambda good, _: good + b"\n# changed\n"}, False),
}


def changed_results(random: Random) -> Case:
    """Results of which one file says something else: no command that checks them may pass them."""
    name = random.choice(list(CHANGES))
    changes, audited = CHANGES[name]
    what = random.choice([*changes, "gone"])
    bad: bytes | Special = Special.GONE if what == "gone" else changes[what](published(name), random)
    short = name.rpartition("/")[2]
    note = f"{short} {what}"
    commands = [["verify", RESULTS]] * 3 + [["audit", RESULTS]] * audited
    if short == "training_metrics.json":
        commands += [["stage", stage, DEMO] for stage in STAGES]
    words = random.choice(commands)
    if words[0] == "stage":
        return Case(words, [], {name: bad}, (0, 1, 2), f"{note}: {' '.join(words)}")
    named = (short, RUN.rpartition("/runs/")[2])
    return Case(words, [named], {name: bad}, (1, 2), f"{note}: {' '.join(words)}", judged=(1, 2))
