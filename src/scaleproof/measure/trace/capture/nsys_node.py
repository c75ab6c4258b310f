"""A node's process tree under Nsight Systems: started with REQUEST COMMAND...

nsys works in a folder of this node's own disk: its sockets need short paths, and SQLite needs locks that network file
systems do not have. Report and export are copied to the run's folder when they are whole.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from scaleproof.measure.machine.network import short_host
from scaleproof.measure.trace.capture.capture_schema import RAW, SETTINGS
from scaleproof.measure.trainer.request import Request

NO_IMPORTER = (
    "nsys left only {name}: its importer is missing. Debian splits Nsight Systems in two; "
    "link /usr/lib/nsight-systems/host-linux-x64 into /usr/lib/x86_64-linux-gnu/nsight-systems"
)
# Sampling of CPUs tells nothing about communication, and in virtual machines its agent may spin for ever.
QUIET = ("--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "--trace-fork-before-exec=true")
# The program itself starts and stops the recording.
ON_GPU = ("--trace=cuda,nvtx,osrt", "--capture-range=cudaProfilerApi", "--capture-range-end=stop")


def main(request_path: Path, command: list[str]) -> int:
    """Run `command` under nsys, copy the trace to the run's folder, and return the exit code.

    On a node that is not to be traced the command replaces this process.
    """
    request = Request.read(request_path)
    here = short_host(socket.gethostname())
    settings = json.loads((request_path.parent / SETTINGS).read_text())
    is_first_node = not request.hosts or here == short_host(request.hosts[0])
    if settings["nodes"] == "first" and not is_first_node:
        os.execvp(command[0], command)

    with tempfile.TemporaryDirectory(prefix="sb-", dir="/tmp") as name_of_folder:
        folder = Path(name_of_folder)
        options = ON_GPU if settings["gpu"] else ("--trace=nvtx,osrt",)
        environment = os.environ | {"TMPDIR": name_of_folder, "LC_ALL": "C"}
        profile = ["nsys", "profile", *options, *QUIET, f"--output={folder / here}", *command]
        exit_code = subprocess.run(profile, env=environment).returncode
        report = folder / f"{here}.nsys-rep"
        if not report.exists():
            streams = sorted(folder.glob("*.qdstrm"))  # raw data, of which the importer would have made the report
            print(NO_IMPORTER.format(name=streams[0].name) if streams else "nsys wrote no report", flush=True)
            return exit_code or 1

        export = ["nsys", "export", "--type=sqlite", "--force-overwrite=true", f"--output={folder / here}.sqlite"]
        subprocess.run([*export, str(report)], check=True, stdout=subprocess.DEVNULL, env=environment)
        for name in (f"{here}.sqlite", f"{here}.nsys-rep"):
            shutil.copyfile(folder / name, request_path.parent / RAW / name)
    return exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
