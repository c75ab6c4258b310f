"""Defects of GPU code, the critical ones that were once there first: `python benchmarks/put_back.py [--only TEXT]`.

Each is put into a copy of the repository by an edit; then the tests that should notice run there, as they do on the
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


PROGRAMS = "tests/fake_cuda/test_programs.py"
STEPS = f"{PROGRAMS}::test_the_doctor_looks_at_steps[1]"
RUN = f"{PROGRAMS}::test_a_run_is_measured_from_its_set_up_to_its_record"
PRECISION = "tests/fake_cuda/test_steps.py::test_layers_compute_in_the_precision_of_the_cell"
WAITS = "tests/fake_cuda/test_steps.py::test_the_host_waits_for_nothing_but_what_deepspeed_waits_for[1x1-single]"
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
        "in (waits_of_several - waits_of_one).items()",
        "in waits_of_several.items()",
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
        "src/scaleproof/measure/strategy/native.py",
        "with self.autocast():",
        "if True:",
        (f"{PRECISION}[1x2-dp]",),
    ),
    # Others of their kinds.
    Defect(
        "autocast without a dtype, which is fp16 on CUDA",
        "src/scaleproof/measure/strategy/base.py",
        "torch.autocast(self.device.type, self.low)",
        "torch.autocast(self.device.type)",
        (f"{PRECISION}[1x1-single]",),
    ),
    Defect(
        "a hook of the window reads what it notes",
        "src/scaleproof/measure/trainer/updates.py",
        "torch.linalg.vector_norm(local[start : start + PART])",
        "torch.tensor(float(local[start : start + PART].norm()))",
        (WAITS,),
    ),
    Defect(
        "the end of every step is awaited",
        "src/scaleproof/measure/trainer/timed_loop.py",
        "        self.marks.append(accelerator.mark_event(",
        "        accelerator.synchronize(self.device)\n        self.marks.append(accelerator.mark_event(",
        (WAITS,),
    ),
    Defect(
        "times are read before the device has reached them",
        "src/scaleproof/measure/trainer/timed_loop.py",
        "accelerator.synchronize(self.device)\n        wall",
        "wall",
        (f"{RUN}[single-1x1-fp32]",),
    ),
    Defect(
        "the thread that reads ahead works on another rank's device",
        "src/scaleproof/measure/trainer/batches.py",
        "accelerator.use_device, (self.device,)",
        'accelerator.use_device, (torch.device("cpu"),)',
        (f"{RUN}[ddp-1x2-bf16]",),
    ),
    Defect(
        "the thread that leaves works on another rank's device",
        "src/scaleproof/measure/trainer/session.py",
        "accelerator.use_device(self.device)",
        "pass",
        (f"{RUN}[ddp-1x2-bf16]",),
    ),
    Defect(
        "copies between two devices are timed on a third",
        "src/scaleproof/measure/doctor/doctor_links.py",
        "with torch.cuda.device(first):",
        "if True:",
        (f"{PROGRAMS}::test_copies_between_devices_are_timed_where_they_run",),
    ),
    Defect(
        "the doctor looks at the first device again and again",
        "src/scaleproof/measure/doctor/doctor_gpu.py",
        "with torch.cuda.device(index):",
        "if True:",
        (f"{PROGRAMS}::test_the_doctor_looks_at_every_device_and_at_their_pairs",),
    ),
    Defect(
        "what NVML may not say counts as zero",
        "src/scaleproof/measure/trainer/monitor.py",
        "            return getattr(self.nvml, name)(*arguments)\n        except self.nvml.NVMLError:\n"
        '            return float("nan")',
        "            return getattr(self.nvml, name)(*arguments)\n        except self.nvml.NVMLError:\n"
        "            return 0.0",
        (f"{PROGRAMS}::test_what_nvml_does_not_tell_is_missing_and_nothing_else_is",),
    ),
    Defect(
        "the doctor keeps a device while ranks need it, which an exclusive compute mode forbids",
        "src/scaleproof/cli/doctor.py",
        "    checks += doctor_gpu.checks_of_gpus(gpus, reason_for_no_gpu)",
        "    checks[:0] = doctor_gpu.checks_of_gpus(gpus, reason_for_no_gpu)",
        ("tests/measure/doctor/test_doctor.py::test_ranks_have_come_and_gone_before_the_doctor_uses_a_device",),
    ),
    Defect(
        "a part of a device is taken for the whole",
        "src/scaleproof/measure/trainer/session.py",
        "'MIG' if ' MIG ' in properties.name else 'GPU'",
        "'GPU'",
        ("tests/measure/trainer/test_on_gpu.py::test_a_part_of_a_device_has_a_name_of_its_own",),
    ),
    Defect(
        "a program that a signal has ended is done",
        "benchmarks/on_gpu.py",
        "    if code:\n",
        "    if code > 0:\n",
        ("tests/benchmarks/test_on_gpu.py::test_findings_are_no_crash_and_a_crash_is_no_finding",),
    ),
    Defect(
        "a look at the whole model ends a run that shards it",
        "src/scaleproof/measure/trainer/first_losses.py",
        "except torch.OutOfMemoryError:",
        "except ZeroDivisionError:",
        ("tests/measure/trainer/test_on_gpu.py::test_a_model_that_does_not_fit_as_a_whole_has_no_first_losses",),
    ),
    Defect(
        "an estimate disturbs a run that is timed",
        "src/scaleproof/measure/doctor/speed.py",
        "with hold_devices(device_names(cuda_devices()[:1])",
        "with hold_devices([]",
        ("tests/measure/doctor/test_speed.py::test_a_gpu_that_a_run_uses_is_left_alone",),
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
