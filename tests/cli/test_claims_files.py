"""A claims file without its first line is refused by `scaleproof compare`, and other YAML files are not."""

import pytest

from scaleproof.cli.claims_files import refuse_claims_without_header
from scaleproof.ground.errors import UserError

HEADER = 'scaleproof_claims: "1.0"\n'
FACTS = "runs: {a: {world_size: 1, global_batch: 8}}\n"
CLAIMS = "claims:\n  - {kind: throughput, value: 10, of: a}\n"


@pytest.mark.parametrize("text", [FACTS, CLAIMS, f"title: Mine\n{FACTS}{CLAIMS}"])
def test_a_claims_file_without_its_first_line_is_refused(tmp_path, text):
    (tmp_path / "claims.yaml").write_text(text)
    with pytest.raises(UserError, match=r'claims\.yaml: .* whose first line must be scaleproof_claims: "1\.0" '):
        refuse_claims_without_header(tmp_path)


@pytest.mark.parametrize(
    "text", [HEADER + FACTS, f"{FACTS}lr: 0.1\n", "runs: 3\n", "runs: {a: {lr: 0.1}}\n", "claims: [a]\n", "", "a: [b"]
)
def test_a_claims_file_and_other_settings_are_read_on(tmp_path, text):
    (tmp_path / "claims.yaml").write_text(text)
    (tmp_path / "folder.yaml").mkdir()
    refuse_claims_without_header(tmp_path)
    refuse_claims_without_header(tmp_path / "claims.yaml")
