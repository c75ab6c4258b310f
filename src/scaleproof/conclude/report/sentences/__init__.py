"""Sentences of the report and the console."""
