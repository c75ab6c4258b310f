"""The tokens: documents, tokenizer, flat .bin files, the sample plan."""

__all__ = ["check", "documents", "encode", "plan", "reader", "remote", "tokenise", "tokenizer"]
