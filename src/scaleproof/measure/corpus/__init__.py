"""The tokens: documents, tokenizer, flat .bin files, the sample plan."""
