"""Five published benchmarks: what was claimed, what the files say, figure by figure."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from scalebench.audit.audit_paths import Audit, audit_gathered
from scalebench.audit.external.context import AuditContext
from scalebench.audit.external.published_claims import data_say
from scalebench.audit.finding import Finding
from scalebench.importers.discover import gather
from scalebench.importers.reported import PublishedClaim
from scalebench.report.audit_text import PAGES, grouped, names_of, shown_line
from scalebench.report.html import environment

TITLE = "Five benchmarks, audited"
INTRODUCTION = (
    "Five public projects measured how GPT-2-class training scales, and published tables. Their figures, in files of the formats that "
    "their own programs write (config/five/ has the figures and says what had to be made up to fill a file, such as single steps around a "
    "published mean), were given to scalebench audit. This page is its output. The point is not that these authors were careless: "
    "every one of these faults looks like a result until somebody multiplies a rate by its time."
)
# Findings that put another figure in the place of the published one.
REPLACING = {
    "speedup": ("each-rank-trained-on-everything", "batch-multiplied", "claim-not-in-data"),
    "throughput": ("sawtooth-timer", "rate-of-one-rank", "rate-multiplied"),
}
SHOWN = 4  # findings of one kind


@dataclass(frozen=True)
class Row:
    """A claim: what was published, what the files give, the findings about the runs behind it, what they make of the figure."""

    claim: str
    published: str
    files: str
    findings: list[str]
    corrected: str = ""


@dataclass(frozen=True)
class Benchmark:
    name: str
    title: str
    about: str
    rows: list[Row]
    audit: Audit

    @property
    def groups(self) -> dict[tuple[str, str], list[Finding]]:
        return grouped(self.audit.findings)


def read_benchmark(source: Path, folder: Path) -> Benchmark:
    """The audit of the files in `folder`, which were written from `source`."""
    data = yaml.safe_load(source.read_text())
    evidence = gather([folder])
    audit = audit_gathered(evidence, source.stem)
    context = AuditContext(evidence)
    rows = [
        replace(_row(context, s, audit), corrected=_corrected(context, s, audit)) for s in evidence.published_claims
    ]
    return Benchmark(source.stem, data["title"], data["about"], rows, audit)


def _row(context: AuditContext, statement: PublishedClaim, audit: Audit) -> Row:
    values, here = statement.values, data_say(context, statement)
    kind = statement.kind
    about = {c.name for key in ("of", "run") if key in values for c in context.of(values[key])} | {
        values.get("of"),
        values.get("run"),
        statement.source,
    }
    codes = sorted({f.code for f in audit.findings if f.severity != "note" and about & set(f.runs)})
    if kind == "speedup":
        return Row(
            f"speed-up of {values['of']} over {values['over']}", f"{values['value']:g}", _figure(here, ".3f"), codes
        )
    if kind == "change":
        return Row(f"{values['of']} over {values['over']}", f"{values['value']:+.1%}", _figure(here, "+.2%"), codes)
    if kind == "throughput":
        return Row(f"tokens/s of {values['of']}", f"{values['value']:,.2f}", _figure(here, ",.2f"), codes)
    if kind == "share":
        return Row(
            f"share of {values['what']} in {values['run']}",
            f"{values['percent']:g} % of {values['of_total']}",
            "not in these files",
            codes,
        )
    if kind == "total_time":
        return Row(f"device time of {values['of']}", f"{values['value']:g} s", f"{_figure(here, '.1f')} s of own time", sorted({f.code for f in audit.findings if any(values["of"] in r for r in f.runs) and f.code.startswith("inclusive")}))  # fmt: skip
    if kind == "step_parts":
        return Row(f"computing and communication in a step of {values['of']}", f"{values['compute'] * 1e3:g} + {values['communication'] * 1e3:g} ms", f"{(here or 0) * 1e3:.1f} ms in all" if here else "unknown", codes)  # fmt: skip
    if kind == "amdahl":
        return Row(
            "parallel fraction by Amdahl's law",
            f"{values['parallel_fraction']:g}",
            f"{_figure(here, '.2f')} by the formula",
            codes,
        )
    if kind == "parameters":
        return Row(
            "parameters",
            f"{values['value'] / 1e6:g}M",
            next((f.corrected for f in audit.findings if f.code == "parameter-count"), "the same"),
            codes,
        )
    return Row(f"{kind.replace('_', ' ')} of {values['of']}", f"{values['value']:g} s", "unknown", codes)


def _corrected(context: AuditContext, statement: PublishedClaim, audit: Audit) -> str:
    """The figure that a finding about the run puts in the place of the published one; of several runs the middle one's."""
    if statement.kind not in ("speedup", "throughput"):
        return ""
    about = {c.name for c in context.of(statement.values["of"])}
    for code in REPLACING[statement.kind]:
        found = [f.corrected for f in audit.findings if f.code == code and f.runs[0] in about and f.corrected]
        if found:
            return found[len(found) // 2].split(":")[0]
    return ""


def _figure(value: Any, form: str) -> str:
    return "unknown" if value is None else format(value, form)


def five_html(benchmarks: list[Benchmark]) -> str:
    template = environment(line=shown_line, names=names_of).get_template("five.html.j2")
    return template.render(title=TITLE, introduction=INTRODUCTION, benchmarks=benchmarks, pages=PAGES)


def five_markdown(benchmarks: list[Benchmark]) -> str:
    """docs/five-benchmarks.md."""
    lines = [f"# {TITLE}", "", INTRODUCTION, ""]
    for b in benchmarks:
        counts = ", ".join(f"{n} {s}" for s in ("invalid", "suspect", "note") if (n := b.audit.count(s)))
        lines += [f"## {b.title}", "", b.about, "", f"{len(b.audit.runs)} runs; {counts}.", ""]
        lines += [
            "| claim | published | its files say | corrected | findings about these runs |",
            "|---|---|---|---|---|",
        ]
        for row in b.rows:
            codes = " ".join(f"[{code}](audit.md#{code})" for code in row.findings)
            lines.append(
                "| "
                + " | ".join(_cell(v) for v in (row.claim, row.published, row.files, row.corrected))
                + f" | {codes} |"
            )
        lines.append("")
        for (severity, code), found in b.groups.items():
            lines.append(
                f"- **{severity}** [{code}](audit.md#{code})" + (f" ({len(found)} times)" if len(found) > 1 else "")
            )
            for f in found[:SHOWN]:
                corrected = f" **Corrected:** {shown_line(f.corrected)}" if f.corrected else ""
                lines.append(f"  - `{names_of(f)}`: {shown_line(f.evidence)}.{corrected}")
            if len(found) > SHOWN:
                lines.append(f"  - and {len(found) - SHOWN} more like these")
        lines.append("")
    lines += [
        "These files are written and audited by `snakemake --cores 1 results/five-benchmarks/five-benchmarks.html`; "
        "`scalebench audit results/five-benchmarks/files/v100` asks again."
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return shown_line(text).replace("|", "\\|")
