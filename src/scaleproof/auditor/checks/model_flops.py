"""FLOPs that a published table implies for each parameter and token: MFU x peak / rate / parameters."""

import re
from collections.abc import Iterator

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.feasibility import MFU_IMPOSSIBLE, known_peaks
from scaleproof.auditor.read.reported_tables import ReportedRow, ReportedTable
from scaleproof.ground.findings.registry import Flag

FORWARD = 2.0  # FLOPs for each parameter and token; training takes 6
APART = 0.05  # relative difference that rounded sizes of models explain
# Models that use a part of their parameters for a token, or train a part of them.
IN_PART = re.compile(r"(?i)moe|expert|\bep\d|\da\d|a\d+(?:\.\d+)?b\b|\dx\d+b|mixtral|deepseek|glam|switch|lora")
WITH_FP8 = re.compile(r"(?i)[hb][12]00|gb|h800|l4|40\d0|50\d0|mi3")
SIZE = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?) ?b(?![a-z\d])")  # "LLaMA-7B"


@of_evidence.check(MFU_IMPOSSIBLE)
def flops_cover_the_parameters(context: AuditContext) -> Iterator[Flag]:
    """A model of N parameters needs more than 2 N FLOPs for each token."""
    for table in context.tables:
        for row in (row for row in table.rows if row.measured):
            share, rate = row.known("mfu"), row.known("tokens_per_s")
            device = row.words.get("device") or table.words.get("device") or ""
            peaks, parameters = known_peaks(device), _parameters(row, table)
            if share and rate and peaks and parameters and (row.devices or rate.per_device):
                tokens = rate.value / (1 if rate.per_device else row.devices or 1)
                least = FORWARD / (2 if WITH_FP8.search(device) else 1)
                flops = share.interval.high * max(peaks) / tokens / parameters
                if flops < least * (1 - APART):
                    evidence = f"MFU {share.printed} of {device} at {rate.printed} is {flops:.2g} FLOPs for each of "
                    evidence += (
                        f"{parameters / 1e9:g}B parameters and token, of which the forward pass takes {FORWARD:g}"
                    )
                    yield Flag(f"{row.description}: {evidence}", [row.place], severity="suspect")


def _parameters(row: ReportedRow, table: ReportedTable) -> float | None:
    """The parameters of a dense model, as its row or its name states them; None where they are not known."""
    if IN_PART.search(" ".join((*row.texts.values(), table.caption, table.heading))):
        return None
    size = SIZE.search(row.words.get("model", ""))
    return row.value("parameters") or (float(size[1]) * 1e9 if size else None)
