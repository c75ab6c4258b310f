"""Validity checks of our own runs."""
