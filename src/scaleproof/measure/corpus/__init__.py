"""The tokens: documents, tokenizer, flat .bin files, the sample plan."""

__all__ = [
    "check",
    "documents",
    "downloads",
    "hub",
    "reader",
    "remote",
    "tokenise",
    "tokenizer",
    "transfer",
    "unchanged",
]
