"""Tables, charts and the page."""

import logging

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # where no home can be written, it says so at each import

HOUSE = __name__  # whose templates these pages are of

__all__ = [
    "HOUSE",
    "campaign_page",
    "chart_catalog",
    "charts",
    "claims_report",
    "compare_page",
    "page",
    "page_facts",
    "paper",
    "read_results",
    "sentences",
    "tables",
    "trackers",
]
