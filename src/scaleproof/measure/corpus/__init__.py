"""The tokens: documents, tokenizer, flat .bin files, the sample plan."""

__all__ = ["check", "documents", "encode", "hub", "reader", "remote", "tokenise", "tokenizer"]
