"""Reads with a tracker's own library what was exported for it, and prints it: run -> its settings, figures and losses.

    python tests/tracker_readers.py tensorboard|wandb|mlflow FOLDER

A process of its own, in which the library can be imported.
"""

import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32768
Runs = dict[str, dict[str, Any]]


def tensorboard(folder: Path) -> Runs:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    def opened(place: Path) -> EventAccumulator:
        return EventAccumulator(str(place), size_guidance={"scalars": 0}).Reload()

    runs = {}
    for place in sorted({file.parent for file in folder.rglob("events.*")} - {folder}):
        events = opened(place)
        series = {name: [[e.step, e.value] for e in events.Scalars(name)] for name in events.Tags()["scalars"]}
        content = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
        settings = metadata.parse_session_start_info_plugin_data(content).hparams
        runs[str(place.relative_to(folder))] = {
            "settings": {name: value.string_value or value.number_value for name, value in settings.items()},
            "figures": {name: values[-1][1] for name, values in series.items() if name.startswith("run/")},
            "losses": series.get("loss", []),
        }
    (tensor,) = opened(folder).Tensors("cells")
    runs["cells"] = {"text": tensor.tensor_proto.string_val[0].decode()}
    return runs


def log_records(data: bytes) -> Iterator[bytes]:
    """The records of a log of LevelDB, whose form W&B's files have, behind a head of seven bytes.

    Blocks of 32 KiB hold pieces: checksum, length, whether whole (1), first, middle or last (4) of a record, and bytes.
    """
    place, record = 7, b""
    while place < len(data):
        left = BLOCK - place % BLOCK
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def wandb(folder: Path) -> Runs:
    from wandb.proto.wandb_internal_pb2 import Record

    runs: Runs = {}
    for file in sorted(folder.rglob("*.wandb")):
        found: dict[str, Any] = {"settings": {}, "figures": {}, "losses": [], "exit": None}
        name = ""
        for record in map(Record.FromString, log_records(file.read_bytes())):
            name = record.run.display_name or name
            for item in record.run.config.update:
                found["settings"][item.key] = json.loads(item.value_json)
            row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            if "loss" in row:
                found["losses"].append([record.history.step.num, row["loss"]])
            for item in record.summary.update:
                if item.key.startswith("run/"):
                    found["figures"][item.key] = json.loads(item.value_json)
            if record.HasField("exit"):
                found["exit"] = record.exit.exit_code
        runs[name] = found
    (table,) = folder.rglob("*.table.json")
    runs["cells"]["text"] = table.read_text()
    return runs


def mlflow(folder: Path) -> Runs:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=folder.as_uri())
    experiment = client.get_experiment_by_name("demo")
    runs = {}
    for run in client.search_runs([experiment.experiment_id], max_results=1000):
        losses = client.get_metric_history(run.info.run_id, "loss") if "loss" in run.data.metrics else []
        runs[run.info.run_name] = {
            "settings": run.data.params,
            "figures": {name: value for name, value in run.data.metrics.items() if name.startswith("run/")},
            "losses": [[metric.step, metric.value] for metric in losses],
            "status": run.info.status,
        }
    (table,) = folder.rglob("cells.csv")
    runs["cells"]["text"] = table.read_text()
    return runs


if __name__ == "__main__":
    tracker, folder = sys.argv[1:]
    print(json.dumps({"tensorboard": tensorboard, "wandb": wandb, "mlflow": mlflow}[tracker](Path(folder))))
