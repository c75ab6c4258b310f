"""What the text of a cell or a heading says about its figures: projected, estimated, failed, out of memory."""

import re
from functools import lru_cache

from scaleproof.auditor.read.reported_tables import Remark

REMARKS: tuple[tuple[str, Remark], ...] = (
    (r"\boom\b|out.of.memory|显存溢出|显存不足|爆显存", "out of memory"),
    (r"^\W*projection\b|\d[^()]*\((linear )?projection\)|\bproj(?:[.)]|ected\b)|\bextrapolat|\bforecast", "projected"),
    (r"\bpredicted\b|外推|推算", "projected"),
    (r"\btheoretical|\bideal\b|\blinear scaling\b|\bperfect scaling\b|理论|理想|理論|이론", "theoretical"),
    (r"\bestimat(?:ed?|ions?)\b|\best(?:\.|\))|\bexpect(?:ed|ations?)\b|\bgoal\b(?! ?\()", "estimated"),
    (r"^(?!.*\bdraft)(?s:.*)\btarget(?![- ](?:only|model))|\btypical\b|\bplaceholder|\bsimulated\b", "estimated"),
    (r"预计|预期|估计|估算|目标|推定|예상", "estimated"),
    (r"\bfail(?:ed|s|ure)?\b|\bimpossible\b|\bcrash|\berror\b|\btimeout\b|\bdiverged\b|失败|실패", "failed"),
    (r"\btbd\b|\btodo\b|\bnot (?:yet )?(?:run|measured|tested)\b|\bpending\b", "not run"),
    (r"\bpaper\b|\bliterature\b|\bpublished (?:by|in)\b", "reference"),
)
NO_FIGURES: set[Remark] = {"out of memory", "failed", "not run"}
# Words that judge a result, or that count something: "Target Met", "as expected", "above the target", "8 targets".
_TARGET = r"(?:expected|expectations?|targets?|goals?|ideal|linear)"
VERDICT = re.compile(
    r"\b(?:as|than|of|on|above|below|beyond|within|under|over|meets?|met|hits?|reach(?:ed|es)?|exceed(?:ed|s)?|"
    rf"missed|misses|match(?:es|ed)?|achieved?|near|vs\.?|\d+)[ -](?:the |its |our |all )?{_TARGET}\b|"
    rf"\b{_TARGET} (?:is |was |not )?(?:met|reached|achieved|hit|exceeded|passed|missed|complete\w*)\b|"
    r"\bun?expected(?:ly)? |\btargets\b|\b(?:better|worse|faster|slower|lower|higher) than \w+\b"
)


@lru_cache(maxsize=100_000)
def remarks_of(text: str) -> frozenset[Remark]:
    """Return what a text says about itself: projected, estimated, failed, ..."""
    lowered = VERDICT.sub(" ", text.lower())
    return frozenset(remark for pattern, remark in REMARKS if re.search(pattern, lowered))


def gave_no_figures(text: str) -> bool:
    """Whether a cell says that its configuration gave no figures: out of memory, failed, not run."""
    if not text or text[0].isdigit():
        return False
    remarks = remarks_of(text) & NO_FIGURES
    if not remarks or "out of memory" in remarks:
        return bool(remarks)
    return len(text) < 40 and not re.search(r"(?i)\d|\b(?:no|without|none)\b", text)  # not "no failures", "2 failed"
