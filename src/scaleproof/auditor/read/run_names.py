"""What a run's name says, where its file says nothing: `zs2_fp16_gpus1_bs32_sl128`, `4gpu_deepspeed`, `single_gpu`."""

import math
import re

from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import FIELDS

# `_`, `-`, `/` and `.` separate the parts of a name.
PRECISIONS = ("fp16", "bf16", "fp32", "tf32")
STRATEGIES = ("ddp", "fsdp", "dp")
BEFORE, AFTER = r"(?:^|[_\-/. #,])", r"(?=$|[_\-/. #,])"
SINGLE = re.compile(BEFORE + r"single_?-?(?:gpu|device)" + AFTER)
# `dp1_tp4_pp16`: sizes of a mesh, of which `dp` is no strategy of its own.
MESH = re.compile(BEFORE + r"(dp|tp|pp|cp)_?(\d{1,4})" + AFTER)


def complete_from_name(run: ReportedRun) -> None:
    """Fill fields from the name; files with a protocol of their own are left as they are."""
    if run.format.startswith("metrics JSON"):
        return
    name = run.name.lower()
    mesh = dict(MESH.findall(name))
    for field, entry in FIELDS.items():
        for pattern in entry.in_names:
            if getattr(run, field) is None and (m := re.search(BEFORE + pattern + AFTER, name)):
                value = int(m[1][:9])
                if value > 0 or field == "zero_stage":  # ZeRO's stages begin with 0
                    setattr(run, field, value)
    if run.world_size is None and SINGLE.search(name):
        run.world_size = 1
    if run.world_size is None and len(mesh) > 1 and "dp" in mesh:
        run.world_size = math.prod(int(size) for size in mesh.values()) or None
    if run.precision is None:
        run.precision = next((p for p in PRECISIONS if re.search(BEFORE + p + AFTER, name)), None)
    if run.strategy is None and len(mesh) < 2:
        run.strategy = next((s for s in STRATEGIES if re.search(BEFORE + s + r"\d*" + AFTER, name)), None)
