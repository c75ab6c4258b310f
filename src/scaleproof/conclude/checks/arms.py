"""Did both arms, the configurations A and B, of an A/B comparison run?"""

from collections.abc import Iterator
from dataclasses import dataclass

from scaleproof.ground.findings.registry import Flag, Register
from scaleproof.ground.records.run import Run


@dataclass(frozen=True)
class Arms:
    """The runs of the A/B comparison `name`: `pairs` of A and B, and `null_pairs` of A and A, which show the noise."""

    name: str
    pairs: tuple[tuple[Run, Run], ...]
    null_pairs: tuple[tuple[Run, Run], ...] = ()


of_arms: Register[Arms] = Register(lambda arms: [arms.name], lambda arms: [arms.name], concerns="comparison")


@of_arms.finds("arms-mixed-up", "invalid")
def pairs_have_both_arms(arms: Arms) -> Iterator[Flag]:
    """Both runs of a pair have one configuration where they should differ, or two where they should not: the ratio is
    not that of the two arms.

    Detected: Fingerprints of the configurations of both runs of each pair.
    Seen: A/B scripts that pass the same option to both arms.
    Repair: Remove the runs of this comparison and run it again.
    """
    alike = [pair for pair in arms.pairs if len(_configurations([pair])) == 1]
    apart = [pair for pair in arms.null_pairs if len(_configurations([pair])) > 1]
    problems = []
    if alike:
        problems.append(f"{len(alike)} of {len(arms.pairs)} pairs have one configuration")
    if apart:
        problems.append(f"{len(apart)} of {len(arms.null_pairs)} pairs of A and A have two")
    if problems:
        runs = [run for pair in (*alike, *apart) for run in pair]
        yield Flag("; ".join(problems), about=runs, cells=[arms.name])
    elif len(_configurations([*arms.pairs, *arms.null_pairs])) > 2:
        yield Flag("its runs have more than two configurations")


def _configurations(pairs: list[tuple[Run, Run]]) -> set[str]:
    """Return the fingerprints of the configurations of all runs in `pairs`."""
    return {run.metrics.fingerprint for pair in pairs for run in pair}
