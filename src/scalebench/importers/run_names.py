"""What a run's name says, where its file says nothing: `zs2_fp16_gpus1_bs32_sl128`, `4gpu_deepspeed`."""

import re

from scalebench.importers.reported import ReportedRun

# Field -> patterns in a name, each with one number; `_`, `-`, `/` and `.` separate.
NUMBERS = {
    "world_size": (r"gpus?_?(\d+)", r"(\d+)_?gpus?", r"(?:world|ws|np)_?(\d+)"),
    "micro_batch": (r"(?:bs|mb|mbs)_?(\d+)",),
    "seq_len": (r"(?:sl|seq|seqlen)_?(\d+)",),
    "zero_stage": (r"(?:zs|zero|zero_stage_?|stage_?)(\d)",),
}
PRECISIONS = ("fp16", "bf16", "fp32", "tf32")
STRATEGIES = ("ddp", "fsdp", "dp")
BEFORE, AFTER = r"(?:^|[_\-/. ])", r"(?=$|[_\-/. ])"


def complete_from_name(claim: ReportedRun) -> None:
    """Only files without a protocol of their own are completed so."""
    if claim.format.startswith("metrics JSON"):
        return
    name = claim.name.lower()
    for field, patterns in NUMBERS.items():
        for pattern in patterns:
            if getattr(claim, field) is None and (m := re.search(BEFORE + pattern + AFTER, name)):
                value = int(m[1][:9])
                if value > 0 or field == "zero_stage":
                    setattr(claim, field, value)
    if claim.precision is None:
        claim.precision = next((p for p in PRECISIONS if re.search(BEFORE + p + AFTER, name)), None)
    if claim.strategy is None:
        claim.strategy = next((s for s in STRATEGIES if re.search(BEFORE + s + r"\d*" + AFTER, name)), None)
