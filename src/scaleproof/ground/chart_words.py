"""What each chart is called, and its caption: on the page, in the paper, and read back by `verify`."""

from typing import NamedTuple


class ChartWords(NamedTuple):
    """The words at a chart."""

    title: str
    caption: str


MARKED = " !: the cell has some finding."

CHART_WORDS = {
    "ranking": ChartWords(
        "Throughput of all cells",
        "Dots: runs; thin lines: 95 % intervals; an arrow: the interval goes on, see the table. Of one size, "
        "cells that share a letter cannot be told apart." + MARKED,
    ),
    "throughput": ChartWords(
        "Throughput and devices",
        "Dots: runs; marks: cells with 95 % intervals, series side by side; dashed, for a series of "
        "several sizes: the best baseline times the number of devices. A red ring: the number has a finding; an "
        "arrow: the interval goes on, see the table.",
    ),
    "speedup": ChartWords(
        "Speed-up",
        "Of each series relative to itself at its smallest number of devices, with 95 % intervals; dashed: ideal.",
    ),
    "efficiency": ChartWords(
        "Scaling efficiency",
        "Speed-up over the ideal one, with 95 % intervals. 1: N devices do N times the work of one in the same time.",
    ),
    "waterfall": ChartWords(
        "Where scaling is lost",
        "Ideal: the baseline's step, divided among the devices in strong scaling. What nothing measured is unknown "
        "and stays in the unexplained part; traced shares are applied to the timed step.",
    ),
    "forecast": ChartWords(
        "Forecasts",
        "Time of a step as it was forecast before the run: the band is the interval, the line its value; the dot is"
        " what was measured afterwards, red where it is outside.",
    ),
    "step_time": ChartWords(
        "Step times",
        "All steps of all runs of a cell, each with all of its micro-batches on the slowest rank. Stroke: median; "
        "box: 25-75 %; line: 5-95 %, from 20 steps on." + MARKED,
    ),
    "job_time": ChartWords("Time of a whole run", "Median over runs. Rates are of the timed window alone." + MARKED),
    "loss_step": ChartWords(
        "Loss and steps",
        "Mean over runs. Cells with the same workload and global batch must lie on one line. Diamonds, if "
        "any: validation loss after the last step.",
    ),
    "loss_seconds": ChartWords(
        "Loss and time",
        "The same losses against the seconds of the window. Dashed: the target of “time to loss”. Steps of the "
        "warm-up train as well, but are not timed.",
    ),
    "memory": ChartWords(
        "Memory",
        "Weights, gradients and optimizer state on the fullest device just before an update, beside the ZeRO "
        "paper's model. The difference is buffers, and weights that a strategy gathers and keeps." + MARKED,
    ),
    "utilization": ChartWords(
        "Utilization", "In the window. Busy is not fast: a GPU that waits inside a kernel counts as busy." + MARKED
    ),
    "energy": ChartWords("Energy per token", "Of the devices, by their counters. Dots: runs." + MARKED),
    "batch_size": ChartWords(
        "Batch size",
        "Step time and throughput against the batch. Band: 5 to 95 % of the steps; bars: 95 % interval over runs.",
    ),
    "seq_len": ChartWords(
        "Sequence length",
        "Step time and throughput against the sequence length. Band: 5 to 95 % of the steps; bars: 95 % interval "
        "over runs.",
    ),
    "comparison": ChartWords(
        "A against B",
        "B over A in every pair, both runs one after the other on the same devices. Diamond: mean with its 95 % "
        "interval over pairs. Crosses: A against A, what the method shows where there is no difference.",
    ),
    "trace-timeline": ChartWords(
        "Timeline",
        "One traced step of median length on every rank: what the program does on the host, what is computed by "
        "class, which collectives run, and how long they wait for a rank that came later.",
    ),
    "trace-communication": ChartWords(
        "Communication",
        "Communication of a step, mean over steps and ranks: the union of all collectives, and the part beside "
        "which nothing is computed. From traces, never from the timed runs.",
    ),
    "trace-steps": ChartWords(
        "Steps",
        "Parts of a traced step that add up to it, mean over steps and ranks. The stroke is the step of the timed "
        "runs without a profiler.",
    ),
    "trace-kernels": ChartWords(
        "Kernels",
        "What takes the most device time, by name and class. Sums: what runs beside something else is counted in full.",
    ),
}
