"""The JSON schemas are generated from the typed configuration, committed, and complete."""

import json
import re

import pytest

from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.corpora import CorpusTable
from scaleproof.ground.campaign.yaml_loader import load_campaign, load_corpora, schema_text

SCHEMAS = {"campaign": Campaign, "corpora": CorpusTable}


@pytest.mark.parametrize("name", SCHEMAS)
def test_committed_schema_is_current(repository, name):
    committed = (repository / f"config/{name}.schema.json").read_text()
    advice = f"write it again: scaleproof campaign schema {name} > config/{name}.schema.json"
    assert committed == schema_text(SCHEMAS[name]), advice


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_has_description_unit_and_default(name):
    schema = SCHEMAS[name].model_json_schema()
    sections = [schema, *schema["$defs"].values()]
    keys = [(section, key, node) for section in sections for key, node in section.get("properties", {}).items()]
    assert len(keys) >= 6
    for section, key, node in keys:
        if section.get("title") == "Geometry":
            continue  # written as text: nodes x devices_per_node
        target = schema["$defs"].get(node.get("$ref", "").rsplit("/", 1)[-1], {})
        assert node.get("description") or target.get("description"), key
        assert node.get("unit"), key
        assert "default" in node or key in section.get("required", []), key


def test_editors_find_the_schema(repository):
    files = [*repository.glob("config/campaigns/*.yaml"), repository / "config/corpora.yaml"]
    assert len(files) >= 2
    for path in files:
        named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())
        assert named, path
        assert json.loads((path.parent / named[1]).read_text())["title"]


def test_committed_configuration_is_valid(repository, monkeypatch):
    monkeypatch.chdir(repository)
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    assert load_corpora(repository / "config/corpora.yaml")[0]
    for path in repository.glob("config/campaigns/*.yaml"):
        assert load_campaign(path)[0].title
        assert LoadedCampaign(path).cells


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 0.001), ("1E3", 1000.0), ("0.5", 0.5), (".5", 0.5), ("3", 3.0)],
)
def test_numbers_as_people_write_them(tmp_path, text, value):
    path = tmp_path / "c.yaml"
    path.write_text(f"title: x\nwork: {{optimizer: {{learning_rate: {text}}}}}\n")
    assert load_campaign(path)[0].work.optimizer.learning_rate == value


def test_words_stay_words(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("title: no\n")
    assert load_campaign(path)[0].title == "no"
    path.write_text("title: x\nrepeats: 010\n")
    assert load_campaign(path)[0].repeats == 10
