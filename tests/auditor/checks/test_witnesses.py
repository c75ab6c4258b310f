"""What is no witness against a figure: columns that nobody paired, rows wrong themselves, other baselines and runs."""

import pytest
from markdown_tables import accusations, audited, rows

SCORES = ("FP16 | 50 | 20 | 0 | 20", "INT8 | 75 | 30 | 10 | 40", "INT4 | 87 | 60 | 30 | 60", "AWQ | 71 | 50 | 25 | 90")


def test_columns_that_nothing_pairs(tmp_path):
    scores = rows("Method | Memory Reduction | Speed Gain | Accuracy Loss | Complexity", *SCORES)
    assert not accusations(audited(tmp_path, scores))
    pairs = rows("Step | Before | After | Reduction", "a | 50 | 25 | 50%", "b | 80 | 20 | 75%", "c | 90 | 60 | 12%")
    assert "speedup-not-in-table" in accusations(audited(tmp_path, pairs))


KERNELS = (
    "v1 | 280 | 1.0× | 5%",
    "v2 | 736 | 2.6× | 15%",
    "v3 | 2400 | 8.6× | 48%",
    "v4 | 4200 | 15.0× | 84%",
    "v5 | 5250 | 18.8× | 92%",
)
WRONG = ("v6 | 5834 | 18.1× | 101.7%", "cuBLAS | 5734 | 17.8× | 100%")


def test_rows_that_are_wrong_themselves(tmp_path):
    """18.8x is 5250 / 280, though 18.1x and 17.8x, which are no such ratios, go with their per cents otherwise."""
    found = accusations(audited(tmp_path, rows("Version | GFLOPS | Speedup | % of cuBLAS", *KERNELS, *WRONG)))
    assert found.keys() == {"speedup-not-in-table"}
    assert "18.8" not in found["speedup-not-in-table"]


SMALL = ("m60 | 1 | 47.49 | 100.00", "m60 | 2 | 95.43 | 100.47")
LARGE = (
    "p100 | 1 | 78.44 | 100.00",
    "p100 | 2 | 118.32 | 75.42",
    "p100 | 4 | 236.86 | 75.49",
    "p100 | 6 | 351.98 | 74.79",
)


@pytest.mark.parametrize(
    ("last", "is_named"), [("p100 | 6 | 351.98 | 74.79", False), ("p100 | 6 | 351.98 | 56.09", True)]
)
def test_a_baseline_of_another_machine(tmp_path, last, is_named):
    table = rows("machine | GPUs | images/sec | efficiency", *SMALL, *LARGE[:3], last)
    assert bool(accusations(audited(tmp_path, table))) == is_named


RUNS = ("a | 9.8055 | 10.1984 | 3.4447", "b | 12.359 | 8.0913 | 2.7578", "c | 12.234 | 8.1739 | 2.7459")


def test_a_part_of_the_time(tmp_path):
    """All rates are 100 tokens over the whole time; that of the target model is a part of it, as large as it may be."""
    last = "d | 13.745 | 7.2754 | 3.0204"
    table = rows("run | tokens_per_second | total_time (s) | total_target_time (s)", *RUNS, last)
    assert not accusations(audited(tmp_path, table))


@pytest.mark.parametrize(("name", "is_named"), [("TensorRT (est)", False), ("TensorRT", True)])
def test_an_estimated_row(tmp_path, name, is_named):
    lines = [
        "eager | 2557 ms | 1.00x",
        "compiled | 1800 ms | 1.42x",
        "fused | 1279 ms | 2.00x",
        f"{name} | 200 ms | 4.0x",
    ]
    found = accusations(audited(tmp_path, rows("Path | Latency | Speedup", *lines)))
    assert ("speedup-not-in-table" in found) == is_named


def test_another_run_of_the_same_configurations(tmp_path):
    """1921.04 and 2308.61 are of two runs, as 9808.85 beside 9737.46 shows; settings and memory are equal anyway."""
    head = "batch,seq_len,tokens_per_sec,step_time_s\n"
    sizes = [(1, 512), (1, 1024), (2, 512), (2, 1024), (4, 512), (4, 1024)]
    rates = (1921.04, 2800.51, 3900.22, 5100.73, 9808.85, 11000.31)
    others = (2308.61, 2803.95, 3905.91, 5094.02, 9737.46, 11007.12)

    def write(name: str, values: tuple[float, ...]) -> None:
        lines = (f"{b},{s},{rate},{b * s / rate:.6f}\n" for (b, s), rate in zip(sizes, values, strict=True))
        (tmp_path / name).write_text(head + "".join(lines))

    write("a.csv", rates)
    write("b.csv", others)
    assert "files-disagree" not in audited(tmp_path, "# Runs\n")
    write("b.csv", (2308.61, *rates[1:]))
    assert "files-disagree" in audited(tmp_path, "# Runs\n")
    write("b.csv", (2308.61, others[1], *rates[2:]))
    assert "; 8 other figures of the two" in audited(tmp_path, "# Runs\n")["files-disagree"].evidence


SPEED = "Throughput: 390 images/s on 4 GPUs\n"
NEAR_ONE = ("a | 1.41 | 1.43 | -1%", "b | 0.88 | 0.89 | -1%", "c | 4.12 | 4.21 | -2%", "d | 3.35 | 3.83 | -12%")


@pytest.mark.parametrize(("last", "is_named"), [("+30%", False), ("+70%", True)])
def test_per_cents_near_zero_do_not_say_which_is_the_baseline(tmp_path, last, is_named):
    table = rows(
        "Operation | eager (ms) | compiled (ms) | compiled/eager speedup", *NEAR_ONE, f"e | 0.38 | 0.29 | {last}"
    )
    assert bool(accusations(audited(tmp_path, f"{SPEED}\n{table}"))) == is_named


@pytest.mark.parametrize(("first", "is_named"), [("~100% (baseline)", False), ("~90%", True)])
def test_memory_over_that_of_a_baseline(tmp_path, first, is_named):
    lines = [f"FP32 | 100 | {first}", "FP16 | 180 | ~50%", "mixed | 140 | ~150%"]
    found = accusations(audited(tmp_path, rows("Mode | tokens/s | Memory footprint", *lines)))
    assert ("figure-impossible" in found) == is_named


@pytest.mark.parametrize(("remark", "is_named"), [("NOTE | 0 | |", False), ("TP4 | 0 | 95.1 | 8.2", True)])
def test_no_nodes_in_a_remark(tmp_path, remark, is_named):
    lines = ["PP4 | 4 | 45.9 | 8.1", "TP2 | 2 | 47.0 | 8.7", remark, "PP2 | 2 | 39.4 | 8.7"]
    found = accusations(audited(tmp_path, rows("topology | nodes | tokens/s | memory (GB)", *lines)))
    assert ("figure-impossible" in found) == is_named


@pytest.mark.parametrize("name", ["prompt", "strategy"])
def test_answers_differ_in_length(tmp_path, name):
    lines = ["a | 50.0 | 1.872", "b | 66.7 | 1.403", "c | 80.0 | 1.170", "d | 100.0 | 0.936", "e | 76.9 | 1.43"]
    assert not accusations(audited(tmp_path, rows(f"{name} | tokens/s | total time (s)", *lines)))


def test_energy_over_power_is_a_time_which_differs(tmp_path):
    lines = ["a | 2.062 | 185.4", "b | 2.033 | 182.8", "c | 2.224 | 200.0", "d | 2.335 | 210.0", "e | 11.81 | 185.5"]
    table = rows("run | total_energy_wh | avg_power_w", *lines)
    assert not accusations(audited(tmp_path, f"{SPEED}\n{table}"))
