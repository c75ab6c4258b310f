"""Anybody's results: read, understood, checked. Imports the ground alone; own runs arrive through an entry point."""

__all__ = ["audit_page", "audit_paths", "audit_text", "checks", "compare_external", "read"]
