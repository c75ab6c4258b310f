"""Lines that say which device they are for run here, on devices that are not there."""

import re
from pathlib import Path

import fake_cuda
from fake_cuda.lines import lines_to_run
from fake_cuda.test_programs import FRONTIER, SWEEP, TRACE

SAYS = re.compile("cuda|accelerator|nvml", re.IGNORECASE)
ROOMS = ("measure/trainer", "measure/strategy", "measure/doctor", "measure/trace/capture", "conclude/forecast")
OTHERS = ("measure/machine/accelerator.py", "measure/machine/gpus.py")
PROGRAMS = re.compile(r"import torch|accelerator")  # files that ask torch for its device
LEAST = 0.9
STRATEGIES = ("single", "fsdp", "zero2-offload", "zero3")
DDP = {"strategy": "ddp", "geometry": "1x2"}
# Most of them are those of test_programs.py, which need not be made again there.
JOBS = [
    ("steps", 1, {"choices": [{"strategy": name} for name in STRATEGIES], "precision": "fp16"}),
    ("steps", 1, {"choices": [{"strategy": "dp"}], "precision": "bf16", "geometry": "1x2"}),
    ("timed_run", 2, DDP | {"precision": "bf16"}),
    ("looks_at_a_compiled_cell", 1, {}),
    ("speed_of_a_layer", 1, {}),
    ("doctor_of_devices", 1, {}),
    ("doctor_without_permission", 1, {}),
    ("doctor_of_steps", 2, {}),
    ("other_program", 2, {"kind": "frontier", "settings": FRONTIER} | DDP),
    ("other_program", 2, {"kind": "sweep", "settings": SWEEP} | DDP),
    ("other_program", 2, {"kind": "trace", "settings": TRACE} | DDP),
]


def test_lines_about_devices_have_run(machine: fake_cuda.Machine, repository: Path, capsys):
    source = repository / "src/scaleproof"
    files = [path for room in ROOMS for path in (source / room).glob("*.py")] + [source / name for name in OTHERS]
    about = {}
    for path in files:
        text = path.read_text().splitlines()
        lines = {line for line in lines_to_run(path) if SAYS.search(text[line - 1])}
        if lines and PROGRAMS.search("\n".join(text)):
            about[str(path)] = lines
    executed: dict[str, set[int]] = {name: set() for name in about}
    for program, world, arguments in JOBS:
        for seen in machine.run(program, world, watched=list(about), **arguments):
            for name, lines in seen.items():
                executed[name] |= set(lines)
    missed = {name: lines - executed[name] for name, lines in about.items()}
    total = sum(map(len, about.values()))
    run = total - sum(map(len, missed.values()))
    with capsys.disabled():
        print(f"\n{run} of {total} lines about devices in {len(about)} files have run ({run / total:.0%}); not:")
        for name, lines in missed.items():
            if lines:
                print(f"  {Path(name).relative_to(source)}: {', '.join(map(str, sorted(lines)))}")
    assert run / total >= LEAST
