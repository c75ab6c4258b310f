"""claims.json: the claims of a campaign, and all sentences of its page, on trust, traces and forecasts, too."""

from collections.abc import Iterable

from scaleproof.conclude.report.claims import claims_of, claims_of_pairs
from scaleproof.conclude.report.page_facts import PageInputs
from scaleproof.conclude.report.sentences.ab import drift_sentences
from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.conclude.report.sentences.forecast import forecast_sentences
from scaleproof.conclude.report.sentences.ratios import ab_sentence
from scaleproof.conclude.report.sentences.scaling import is_half_known, law_sentences, loss_sentence
from scaleproof.conclude.report.sentences.trace import trace_sentences
from scaleproof.conclude.report.sentences.trust import trust_in
from scaleproof.conclude.report.tables.scaling import KINDS
from scaleproof.ground.code_dependencies import code_sha256
from scaleproof.ground.records.claims import Claim, ClaimsReport, Sentence

# What writes the page, its sentences and the tables; what these files import counts, too.
CODE = (
    *(f"conclude/report/{name}" for name in ("page.py", "tables/waterfall.py", "templates/report.html.j2")),
    *(f"conclude/report/templates/{name}" for name in ("run_rows.html.j2", "report.css", "report.js")),
    *(f"ground/templates/{name}" for name in ("macros.html.j2", "head.html.j2", "base.css", "tables.js")),
)


def claims_report(inputs: PageInputs) -> ClaimsReport:
    """Return the claims of a campaign and every sentence of its page, each with the claims it rests on."""
    conclusion = answer_campaign(inputs.report, inputs.comparisons, inputs.forecast, inputs.remarks)
    claims = claims_of(inputs.report, inputs.comparisons, inputs.waterfall)
    sentences = [_sentence("verdict", conclusion.verdict, conclusion.claims)]
    for bullet in conclusion.bullets_of_page(inputs.report, bool(inputs.facts.failed)):
        sentences.append(_sentence(bullet.topic, bullet.sentence, bullet.claims))
    for cell in filter(is_half_known, inputs.waterfall):
        lost_claims = [claim for claim in claims.values() if claim.kind == "lost" and claim.subject == cell.cell]
        sentences.append(_sentence("lost", loss_sentence(cell), lost_claims))
    stated = {sentence.text for sentence in sentences}  # without any other comparison the answer is made of pairs
    for comparison in inputs.comparisons:
        if (text := ab_sentence(comparison)) not in stated:
            sentences.append(_sentence("pairs", text, claims_of_pairs(comparison)))
        sentences += [_sentence("drift", text, ()) for text in drift_sentences(comparison, inputs.cells)]
    for kind in KINDS:
        sentences += [_sentence("law", text, ()) for text in law_sentences(inputs.report, kind)]
    for topic, texts in _texts_without_claims(inputs).items():
        sentences += [_sentence(topic, text, ()) for text in texts if text]
    return ClaimsReport(
        campaign=inputs.report.campaign,
        code_sha256=code_sha256(*CODE),
        claims=list(claims.values()),
        sentences=sentences,
    )


def _texts_without_claims(inputs: PageInputs) -> dict[str, list[str]]:
    """Return topic -> sentences that rest on no claim; texts may be ""."""
    texts: dict[str, list[str]] = {"trust": [], "forecasts": []}
    if trust := trust_in(inputs.findings, inputs.report, len(inputs.facts.lost), inputs.comparisons):
        texts["trust"] = [f"Can I trust it? {trust.word}{trust.text}", trust.elsewhere, trust.precision]
    if inputs.forecast:
        texts["forecasts"] = forecast_sentences(inputs.forecast)
    on_traces = [text for profile in inputs.profiles for text in trace_sentences(profile)]
    texts["trace"] = list(dict.fromkeys(on_traces))  # a sentence that holds for two traces stands there once
    return texts


def _sentence(topic: str, text: str, claims: Iterable[Claim]) -> Sentence:
    """Return a sentence that names its claims by their ids."""
    return Sentence(topic=topic, text=text, claims=[claim.id for claim in claims])
