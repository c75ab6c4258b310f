"""Reading other people's results: files of many formats, one neutral form."""

__all__ = [
    "discover",
    "file_names",
    "headings",
    "logged_steps",
    "logs",
    "printed_figures",
    "printed_log",
    "published_claims",
    "rates_by_size",
    "reported",
    "reported_tables",
    "run_fields",
    "sentences",
    "surroundings",
    "text_files",
    "typed_tables",
    "words",
]
