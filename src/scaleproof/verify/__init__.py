"""Recomputes a campaign's figures from its raw files, with code that shares nothing with the analysis or the report."""

__all__ = [
    "campaign",
    "campaign_file",
    "contents",
    "html_tree",
    "manifest",
    "printed",
    "raw",
    "recompute",
    "reports",
    "signature",
    "stated",
]
