"""Telling it: tables, charts and the HTML page."""
