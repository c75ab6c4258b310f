"""claims.json: the claims of a campaign, and the sentences that console and page write from them."""

from collections.abc import Iterable

from scaleproof.conclude.report.claims import claims_of, claims_of_pairs
from scaleproof.conclude.report.page_facts import PageInputs
from scaleproof.conclude.report.sentences.ab import drift_sentences
from scaleproof.conclude.report.sentences.answer import conclude
from scaleproof.conclude.report.sentences.ratios import ab_sentence
from scaleproof.conclude.report.sentences.scaling import is_half_known, law_sentences, loss_sentence
from scaleproof.conclude.report.tables.scaling import KINDS
from scaleproof.ground.records.claims import Claim, ClaimsReport, Sentence


def claims_report(inputs: PageInputs) -> ClaimsReport:
    """Return the claims of a campaign and every sentence of its page that states a figure of them."""
    conclusion = conclude(inputs.report, inputs.comparisons, inputs.forecast)
    claims = claims_of(inputs.report, inputs.comparisons, inputs.waterfall)
    sentences = [_sentence("verdict", conclusion.verdict, conclusion.claims)]
    bullets = conclusion.on_page(inputs.report)
    sentences += [_sentence(bullet.topic, bullet.sentence, bullet.claims) for bullet in bullets]
    for cell in inputs.waterfall:
        if is_half_known(cell):
            lost = [claim for claim in claims.values() if claim.kind == "lost" and claim.subject == cell.cell]
            sentences.append(_sentence("lost", loss_sentence(cell), lost))
    for comparison in inputs.comparisons:
        sentences.append(_sentence("pairs", ab_sentence(comparison), claims_of_pairs(comparison)))
        sentences += [_sentence("drift", text, ()) for text in drift_sentences(comparison, inputs.cells)]
    sentences += [_sentence("law", text, ()) for kind in KINDS for text in law_sentences(inputs.report, kind)]
    return ClaimsReport(campaign=inputs.report.campaign, claims=list(claims.values()), sentences=sentences)


def _sentence(topic: str, text: str, claims: Iterable[Claim]) -> Sentence:
    """Return a sentence that names its claims by their ids."""
    return Sentence(topic=topic, text=text, claims=[claim.id for claim in claims])
