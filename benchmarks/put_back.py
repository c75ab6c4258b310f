"""Critical defects of GPU code that were once there: `python benchmarks/put_back.py [--only TEXT]`.

Each is put back by an edit of a copy of the repository; then the tests that should notice run there, as they do on the
copy without an edit. Prints what each of them says. Ends with exit code 1 where a defect is not noticed, or the sound
copy is accused.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Defect:
    """A text in a file that stood otherwise, and the tests that notice."""

    name: str
    file: str
    sound: str
    defective: str
    tests: tuple[str, ...]


STEPS = "tests/fake_cuda/test_programs.py::test_the_doctor_looks_at_steps[1]"
DEFECTS = (
    Defect(
        "every zero cell crashes with an nvtx that has no domains",
        "src/scaleproof/measure/strategy/zero.py",
        "deepspeed.accelerator.get_accelerator().supports_nvtx_domain = False",
        "pass",
        (STEPS,),
    ),
    Defect(
        "the doctor takes its own read of the losses for a wait of every strategy",
        "src/scaleproof/measure/doctor/doctor_ranks.py",
        "in (several - one).items()",
        "in several.items()",
        (STEPS,),
    ),
    Defect(
        "gpu-check calls runs done that have crashed",
        "benchmarks/on_gpu.py",
        'recorded(step.record) if step.record else ("done", "")',
        '("done", "")',
        ("tests/benchmarks/test_on_gpu.py::test_runs_that_crashed_are_not_done",),
    ),
    Defect(
        "dp computes in fp16 where bf16 was asked for",
        "src/scaleproof/measure/strategy/dp.py",
        "with self.autocast():",
        "if True:",
        ("tests/fake_cuda/test_steps.py::test_layers_compute_in_the_precision_of_the_cell[1x2-dp]",),
    ),
)


def put_back(copy: Path, defect: Defect) -> None:
    """Edit one file of `copy`. Raises ValueError where the sound text is not there once."""
    path = copy / defect.file
    text = path.read_text()
    if text.count(defect.sound) != 1:
        raise ValueError(f"{defect.file} does not have this text once: {defect.sound}")
    path.write_text(text.replace(defect.sound, defect.defective))


def copied(folder: Path) -> Path:
    """The files of the repository, as they are, in `folder`."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "cf", folder / "all.tar", "--null", "-T", "-"], cwd=ROOT, input=files, check=True)
    subprocess.run(["tar", "xf", folder / "all.tar", "-C", folder], check=True)
    return folder


def run(copy: Path, tests: tuple[str, ...], cache: Path) -> tuple[bool, str]:
    """Whether the tests pass in `copy`, and what the first that fails says."""
    path = os.pathsep.join([str(copy / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-o", f"cache_dir={cache}", *tests]
    done = subprocess.run(
        command, cwd=copy, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    errors = re.findall(r"^E\s+(.*(?:Error|FAIL|assert).*)$", done.stdout, re.MULTILINE)
    return done.returncode == 0, (errors or done.stdout.splitlines()[-1:] or ["it printed nothing"])[0].strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="those with this in their name")
    only = parser.parse_args().only
    chosen = [defect for defect in DEFECTS if only in defect.name]
    missed = False
    with tempfile.TemporaryDirectory(prefix="put-back-") as root:
        cache = Path(root) / "cache"
        for number, defect in enumerate([None, *chosen]):
            folder = Path(root) / str(number)
            folder.mkdir()
            copy = copied(folder)
            if defect:
                put_back(copy, defect)
            tests = defect.tests if defect else tuple(dict.fromkeys(test for each in chosen for test in each.tests))
            passed, last = run(copy, tests, cache)
            missed |= passed == (defect is not None)
            print(
                f"{'passed' if passed else 'FAILED'}  {defect.name if defect else 'nothing is put back'}: {last[:150]}"
            )
            sys.stdout.flush()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
