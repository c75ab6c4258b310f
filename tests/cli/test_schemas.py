"""JSON schemas of results: the published ones conform, and a changed one does not."""

import json

import jsonschema
import pytest
from command_line import scaleproof

from scaleproof.cli.prepare import MODELS

PUBLISHED = {
    "training_metrics": "runs/ddp-n1x2/rep1/training_metrics.json",
    "findings": "findings.json",
    "scaling_report": "scaling_report.json",
    "comparison": "comparison.json",
    "traces": "traces.json",
    "waterfall": "waterfall.json",
    "profile_summary": "traces/ddp-n1x2/profile_summary.json",
    "manifest": "manifest.json",
    "pairs": "compare/accumulation/pairs.json",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_result_conforms_and_another_does_not(name, repository, tmp_path):
    schema = json.loads(scaleproof("campaign", "schema", name, cwd=tmp_path).stdout)
    validator = jsonschema.Draft202012Validator(schema)
    result = json.loads(next(repository.glob(f"results/published/demo_*/{PUBLISHED[name]}")).read_text())
    assert not list(validator.iter_errors(result))
    assert list(validator.iter_errors(dict.fromkeys(result)))


@pytest.mark.parametrize("name", MODELS.keys() - PUBLISHED.keys())
def test_a_file_has_a_schema(name, tmp_path):
    schema = json.loads(scaleproof("campaign", "schema", name, cwd=tmp_path).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema.get("properties") or schema["$defs"]


def test_what_compare_prints_conforms(repository):
    sides = [next(repository.glob(f"results/published/demo_*/runs/{cell}")) for cell in ("ddp-n1x2", "fsdp-n1x2")]
    printed = scaleproof("compare", *map(str, sides), "--vary", "strategy", "--json", cwd=repository).stdout
    schema = json.loads(scaleproof("campaign", "schema", "compare", cwd=repository).stdout)
    assert not list(jsonschema.Draft202012Validator(schema).iter_errors(json.loads(printed)))
    assert list(jsonschema.Draft202012Validator(schema).iter_errors({"compared": []}))
