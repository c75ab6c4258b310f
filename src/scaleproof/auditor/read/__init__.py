"""Reading other people's results: files of many formats, one neutral form."""

__all__ = [
    "discover",
    "kinds",
    "logged_steps",
    "logs",
    "printed_log",
    "reported",
    "reported_tables",
    "text_files",
    "walk",
]
