"""`claims.json`, schema 1.1: what the answer of a campaign claims, and all sentences of its page."""

from pydantic import Field

from scaleproof.ground.records.result_file import Estimated, ResultPart

SCHEMA_VERSION = "1.1"
CLAIMS = "claims.json"


class Claim(ResultPart):
    """One statement of the answer; `word` is what the figure is said to mean."""

    id: str
    kind: str
    subject: str = Field(description="A cell, or the name of an A/B comparison.")
    baseline: str | None = Field(None, description="What it is held against.")
    estimate: Estimated | None = Field(None, alias="figure")
    word: str | None = None
    method: str | None = Field(None, description="Of the interval; null for a single Student's interval.")
    inputs: list[str] = Field([], description="The cells or comparisons whose runs it follows from.")

    @property
    def ratio(self) -> Estimated:
        """The figure of a claim that has one."""
        assert self.estimate is not None, self.id
        return self.estimate


class Sentence(ResultPart):
    """A sentence of the report, as console and page have it. `claims`: those that its figures are of."""

    topic: str
    text: str
    claims: list[str]


class ClaimsReport(ResultPart):
    """The file."""

    schema_version: str = Field(SCHEMA_VERSION, pattern=r"^1\.")
    campaign: str
    code_sha256: str | None = Field(
        None, description="Of the code that wrote the sentences: whoever has the same code writes them again."
    )
    claims: list[Claim]
    sentences: list[Sentence]


def word_of(ratio: Estimated) -> str:
    """Return what the interval of a ratio supports: faster, slower, undecided; unclaimed without an interval."""
    if ratio.bounds is None:
        return "unclaimed"
    if ratio.spans():
        return "undecided"
    return "faster" if ratio.value > 1 else "slower"
