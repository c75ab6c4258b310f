"""The table of corpora in `config/corpora.yaml`: where each named corpus comes from."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, RootModel, StringConstraints, model_validator

from scalebench.campaign.keys import Section, key
from scalebench.errors import UserError


class Corpus(Section):
    """Where the documents of one corpus come from."""

    source: Literal["python-docs", "text", "jsonl", "parquet"] = Field(
        description="python-docs: the documentation inside the running interpreter. The others read local `files`.",
        json_schema_extra={"unit": "none"},
    )
    files: list[str] = key([], "Local files, or patterns such as notes/*.txt, relative to the repository.", "none")
    field: str = key("text", "The field of a jsonl or parquet row that holds the document.", "none")
    document: Literal["file", "paragraph", "line"] = key(
        "file", "For text: what one document is. Train and validation are split by document.", "none"
    )
    licence: str = key("unknown", "Licence of the text; carried into every result that uses it.", "none")
    validation_fraction: float = key(0.05, "Part of the documents held out for validation.", "none", gt=0, lt=1)

    @model_validator(mode="after")
    def _local_sources_have_files(self) -> "Corpus":
        if self.source != "python-docs" and not self.files:
            raise ValueError(f"source {self.source} needs `files`, a list of paths or patterns such as [notes/*.txt]")
        return self


CorpusName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class CorpusTable(RootModel[dict[CorpusName, Corpus]]):
    """Corpora by name; campaigns refer to the names."""


def local_files(name: str, corpus: Corpus) -> list[str]:
    """The files that a corpus names, in order of path; none for python-docs. Raises UserError where a pattern matches none."""
    found: list[Path] = []
    for pattern in corpus.files:
        path = Path(pattern)
        matches = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
        if not matches:
            raise UserError(f'config/corpora.yaml: {name}.files: "{pattern}" matches no file')
        found += [m for m in matches if m.is_file()]
    return [str(p) for p in dict.fromkeys(found)]
