"""`scaleproof doctor`: is this machine fit to measure?"""

import argparse

from scaleproof.cli.arguments import Group, add_command
from scaleproof.cli.libraries import check_this_folder
from scaleproof.cli.values import RESULTS, folder_to_write, record_to_write


def doctor(args: argparse.Namespace) -> None:
    """Check the machine, print each check as it ends, and write the report. Raises SystemExit(1) after a failure."""
    from scaleproof.ground.cores import available_cores
    from scaleproof.measure.doctor import doctor_cpu, doctor_gpu
    from scaleproof.measure.doctor.doctor import DOCTOR, Look, examine, verdict_line
    from scaleproof.measure.doctor.doctor_steps import judge_strategies
    from scaleproof.measure.launch.device_lock import device_names, hold_devices
    from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus

    if not args.no_ranks:
        check_this_folder()
    gpus, reason_for_no_gpu = usable_gpus(cuda_devices)
    n_ranks = len(gpus) or min(2, available_cores())
    checks = doctor_cpu.checks_of_cpu(args.results)
    if not args.no_ranks:
        checks.append(Look("steps", "gpu" if gpus else "cpu", lambda: judge_strategies(n_ranks, len(gpus))))
    # After the ranks: from here on this process uses the devices itself, which an exclusive compute mode grants to one.
    checks += doctor_gpu.checks_of_gpus(gpus, reason_for_no_gpu)

    out = args.out or args.results / DOCTOR
    device = gpus[0].name if gpus else "cpu"
    # Runs wait meanwhile: a run beside the checks would be disturbed, and the checks would take it for a fault.
    with hold_devices(device_names(gpus), "the doctor"):
        report = examine(checks, device, lambda entry: print(verdict_line(entry), flush=True), out)

    print(f"{len(report.failed)} of {len(report.checks)} checks failed; {out} has all of them")
    if report.failed:
        raise SystemExit(1)


def add(commands: Group) -> None:
    doc = "is this machine fit to measure, and does scaleproof measure right on it? exit code 1 where a check fails"
    example = "scaleproof doctor\nscaleproof doctor --no-ranks   # without starting ranks: ten seconds"
    parser = add_command(commands, "doctor", doctor, doc, example)
    help_text = "folder of all results, which is made where there is none (default: results)"
    parser.add_argument("--results", type=folder_to_write, default=str(RESULTS), metavar="DIR", help=help_text)
    help_text = "default: doctor.json in the folder of all results"
    parser.add_argument("--out", type=record_to_write, metavar="FILE", help=help_text)
    parser.add_argument("--no-ranks", action="store_true", help="leave out the steps of each strategy on real ranks")
