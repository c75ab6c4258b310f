"""Programs that print as training programs do and train nothing: for tests of commands as workloads."""

from pathlib import Path

# Steps of `--ms` milliseconds each, printed as nanoGPT prints them.
NANOGPT = """
import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--ms", type=float, default=2)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--loss", type=float, help="the same in all steps")
parser.add_argument("--zero-from", type=int, default=10**9, help="step from which on the loss is 0")
parser.add_argument("--hidden-ms", type=float, default=0, help="beside the timed part of a step")
parser.add_argument("--no-tokens", action="store_true")
parser.add_argument("--end", type=int, default=0)
options = parser.parse_args()
if not options.no_tokens:
    print("tokens per iteration will be: 256")
for step in range(options.steps):
    start = time.perf_counter()
    time.sleep(options.ms / 1e3)
    seconds = time.perf_counter() - start
    time.sleep(options.hidden_ms / 1e3)
    loss = 4 - step / 100 if options.loss is None else options.loss
    loss *= step < options.zero_from
    print(f"iter {step}: loss {loss:.4f}, time {1e3 * seconds:.2f}ms, mfu 1.00%")
raise SystemExit(options.end)
"""
# Counts its steps as pytorch/examples does, and prints no time; `sys.argv`: steps, milliseconds of one.
COUNTING = """
import sys, time
steps, ms = map(int, sys.argv[1:])
for step in range(steps):
    print(f"Train Epoch: 1 [{step}/{steps} (0%)]\\tLoss: {4 - step / 100:.6f}")
    time.sleep(ms / 1e3)
"""
# Prints nothing that a reader knows.
SILENT = """
import sys, time
time.sleep(0.05 + 0.002 * int(sys.argv[1]))
print("done")
"""


def write(folder: Path) -> Path:
    """All programs in `folder`, which is returned."""
    (folder / "nanogpt.py").write_text(NANOGPT)
    (folder / "counting.py").write_text(COUNTING)
    (folder / "silent.py").write_text(SILENT)
    return folder
