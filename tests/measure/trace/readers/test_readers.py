"""Exports of several versions, traces of torch's profiler, and files that are none."""

import gzip
import json
import sqlite3

import pytest
from synthetic_traces import trace, write_sqlite

from scaleproof.ground.errors import UserError
from scaleproof.measure.trace.readers.kineto import _load_events
from scaleproof.measure.trace.readers.open_trace import read_trace, trace_kind, traces_at
from scaleproof.measure.trace.summarise import summarise_files


@pytest.mark.parametrize("version", ["2022.4.2.1", "2025.1.3"])
def test_an_export_is_read_back_as_it_was_written(tmp_path, version):
    made = trace(ranks=3, late={2: 10}, lag=25)
    found = read_trace([write_sqlite(tmp_path / "a.sqlite", made, version)])
    columns = ["rank", "stream", "name", "launched", "start", "end"]
    assert sorted(map(tuple, found.work[columns].astype({"name": str}).to_numpy().tolist())) == sorted(
        map(tuple, made.work[columns].astype({"name": str}).to_numpy().tolist())
    )
    assert found.source.tool == f"nsys {version}"
    assert found.source.ranks_from == "the trace"
    assert len(found.ranges) == len(made.ranges)
    assert set(found.ranges["name"]) == {"step", "data", "forward", "backward", "optimizer"}
    assert found.host[found.host["kind"] == "osrt"][["name", "calls", "total_ns"]].to_numpy().tolist() == [
        ["poll", 1, 900]
    ]


def test_an_export_is_summarised_exactly(tmp_path):
    path = write_sqlite(tmp_path / "a.sqlite", trace(late={1: 20}, lag=300))
    found = summarise_files([path])
    assert (found.per_step[0].exposed_ms, found.per_step[0].overlapped_ms, found.per_step[0].compute_ms) == (
        0.04,
        0.05,
        0.12,
    )
    assert found.slowest.rank == 1
    assert found.unknown == {}


def test_ranks_are_what_they_say_whatever_devices_they_drive(tmp_path):
    """CUDA_VISIBLE_DEVICES may turn the order of devices around; calls outside of steps are not the step's."""
    path = write_sqlite(tmp_path / "a.sqlite", made := trace(ranks=3, late={2: 10}))
    with sqlite3.connect(path) as base:
        base.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 2 - deviceId")
        base.execute("UPDATE OSRT_API SET start = start + :shift, end = end + :shift", {"shift": 10**9})
    found = read_trace([path])
    assert found.work[["rank", "start"]].to_numpy().tolist() == made.work[["rank", "start"]].to_numpy().tolist()
    assert not len(found.host)
    assert summarise_files([path]).slowest.rank == 2


def test_two_nodes_are_one_trace(tmp_path):
    first, second = (write_sqlite(tmp_path / f"{n}.sqlite", trace(), say_ranks=False) for n in "ab")
    found = summarise_files([first, second])
    assert found.ranks == [0, 1, 2, 3]
    assert found.ranks_from == "the order of processes by device"
    assert found.collectives["all_reduce"].calls == 2


def test_what_the_tool_says_it_lost_is_believed(tmp_path):
    path = write_sqlite(
        tmp_path / "a.sqlite", trace(), lost="1,234 CUDA events were dropped because a buffer overflowed"
    )
    found = summarise_files([path])
    assert found.coverage.dropped_events == 1234
    assert "lost 1,234 events" in found.unknown["communication"]
    quiet = write_sqlite(tmp_path / "b.sqlite", trace(), lost="Profiling has started.")
    assert summarise_files([quiet]).coverage.diagnostics == []


def test_a_graph_hides_its_kernels_and_so_its_collectives(tmp_path):
    import sqlite3

    path = write_sqlite(tmp_path / "a.sqlite", trace())
    with sqlite3.connect(path) as base:
        base.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, "
            "streamId INTEGER, correlationId INTEGER, globalPid INTEGER)"
        )
        base.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE "
            "SELECT start, end + 500000, deviceId, streamId, 999999, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL"
        )
    assert "[CUDA graph]" in summarise_files([path]).unknown["communication"]


def chrome(rank: int | None = 0, events: list | None = None) -> dict:
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 2}}
    return {"baseTimeNanoseconds": 10**18, **info, "traceEvents": EVENTS if events is None else events}


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "pid": 5, "tid": tid, "ts": ts, "dur": dur, "args": args}


EVENTS = [
    event("user_annotation", "step", 1000, 1000),
    event("user_annotation", "data", 1000, 20),
    event("cpu_op", "autograd::engine::evaluate_function: AccumulateGrad", 1100, 800),  # waits inside
    event("cpu_op", "aten::linear", 1100, 300),
    event("cpu_op", "aten::addmm", 1120, 200),
    event("cpu_op", "c10d::allreduce_", 1400, 150),
    event("user_annotation", "gloo:all_reduce", 1350.5, 449.5, tid=9),
    event("cpu_op", "aten::add", 1800, 100),
    {"ph": "i", "name": "not an interval", "ts": 5},
]


@pytest.mark.parametrize("packed", [True, False])
def test_a_profiler_trace_of_a_cpu_rank(tmp_path, packed):
    path = tmp_path / ("rank1.json.gz" if packed else "rank1.json")
    text = b"\n" + json.dumps(chrome(1)).encode()  # as the profiler writes it
    path.write_bytes(gzip.compress(text) if packed else text)
    found = summarise_files([path], ranks=2)
    row = found.per_step[0]
    assert found.ranks == [1]
    assert (row.wall_ms, row.compute_ms, row.communication_ms) == (1.0, 0.4, 0.4495)
    assert (row.overlapped_ms, row.exposed_ms) == (0.0495, 0.4)
    assert found.classes_ms == {"communication": 0.4495, "elementwise": 0.1, "gemm": 0.3}
    assert found.collectives["all_reduce"].calls == 1
    assert found.ranges[0].path == "step"


def test_ranks_whose_files_are_absent_are_known_by_those_that_are_there(tmp_path):
    path = tmp_path / "rank1.json"
    path.write_text(json.dumps(chrome(1)))
    assert summarise_files([path]).unknown["waiting"] == "rank 0 is not in the trace"
    path.write_text(json.dumps(chrome(None)))
    assert summarise_files([path]).unknown["waiting"] == "one rank waits for nobody"


@pytest.mark.parametrize("has_own", [False, True])
def test_steps_of_the_profiler_count_where_the_program_names_none(tmp_path, has_own):
    """As `profiler.step()` writes them; a program's own `step` may leave out what lies between."""
    events = [event("user_annotation", f"ProfilerStep#{k}", 1000 * k, 990) for k in range(3)]
    events += [event("cpu_op", "aten::linear", 1000 * k + 100, 300) for k in range(3)]
    events += [event("user_annotation", "step", 1050, 400)] if has_own else []
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(chrome(0, events)))
    assert summarise_files([path]).steps == (1 if has_own else 3)


def test_a_profiler_trace_of_a_gpu_rank_is_read_by_its_kernels(tmp_path):
    events = [
        event("user_annotation", "step", 0, 100),
        event("cuda_runtime", "cudaLaunchKernel", 10, 5, correlation=7),
        event("cpu_op", "aten::mm", 5, 20),
        event("kernel", "sm90_xmma_gemm_bf16", 500, 80, stream=7, correlation=7),
        event("cuda_runtime", "cudaLaunchKernel", 20, 5, correlation=8),
        event("kernel", "ncclDevKernel_AllGather_RING_LL", 560, 100, stream=20, correlation=8),
        event("gpu_user_annotation", "nccl:_all_gather_base", 560, 100),
    ]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(chrome(0, events)))
    found = summarise_files([path])
    row = found.per_step[0]
    assert (found.device, row.wall_ms, row.compute_ms, row.exposed_ms, row.overlapped_ms) == (
        "gpu",
        0.16,
        0.08,
        0.08,
        0.02,
    )
    assert found.collectives["all_gather"].calls == 1


def foreign_sqlite(path):
    import sqlite3

    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE songs (title TEXT)")


BAD = {
    "empty.sqlite": (b"", "the file is empty"),
    "empty.json": (b"", "the file is empty"),
    "broken.sqlite": (b"SQLite format 3\0" + b"\xff" * 5000, "not a whole export"),
    "cut.json.gz": (gzip.compress(json.dumps(chrome()).encode())[:60], "it is cut off: its packed data do not come"),
    "cut.json": (json.dumps(chrome()).encode()[:300], r"no JSON, or cut off \(line 1, column"),
    "foreign.json": (b'{"name": "package"}', "it has no traceEvents"),
    "wrapped.json": (b'{"traceEvents": {"traceEvents": []}}', "its traceEvents are no list"),
    "list.json": (b'[{"ph": "X", "name": "add"}]', "a list of events, as torch.autograd.profiler"),
    "none.json": (json.dumps(chrome(events=[])).encode(), "holds no events"),
    "photo.bin": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "this is no trace"),
    "letter.txt": (b"Dear reader,\n", "this is no trace"),
    "run.nsys-rep": (b"anything", "nsys export --type sqlite run.nsys-rep"),
    "run.qdstrm": (b"anything", "QdstrmImporter -i run.qdstrm"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_trace_gets_one_clear_message(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        summarise_files([tmp_path / name])
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_control_character_in_a_name_is_read(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(chrome()).replace('"name": "', '"name": "\x01'))
    (tmp_path / "sound.json").write_text(json.dumps(chrome()))
    assert trace_kind(tmp_path / "t.json") == trace_kind(tmp_path / "sound.json") == "kineto"
    assert len(_load_events(tmp_path / "t.json")["traceEvents"]) == len(chrome()["traceEvents"])


def test_traces_are_found_among_other_files(tmp_path):
    """JSON of something else and notes are no traces; one that is cut off is, and is not passed over."""
    (tmp_path / "rank0.json").write_text(json.dumps(chrome()))
    (tmp_path / "settings.json").write_text('{"name": "package"}')
    (tmp_path / "notes.txt").write_text("Dear reader,\n")
    assert traces_at(tmp_path) == [tmp_path / "rank0.json"]
    assert summarise_files([tmp_path]).inputs == ["rank0.json"]
    (tmp_path / "rank1.json").touch()
    with pytest.raises(UserError, match=r"rank1\.json: the file is empty"):
        traces_at(tmp_path)


def test_an_sqlite_file_of_somebody_else(tmp_path):
    foreign_sqlite(tmp_path / "songs.sqlite")
    with pytest.raises(UserError, match="not an export of Nsight Systems: it has no table StringIds"):
        summarise_files([tmp_path / "songs.sqlite"])


def test_an_export_that_is_cut_off(tmp_path):
    path = write_sqlite(tmp_path / "a.sqlite", trace(ranks=4, steps=200))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    with pytest.raises(UserError, match="not a whole export of Nsight Systems"):
        summarise_files([path])


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_trace([tmp_path / "nowhere.sqlite"])
