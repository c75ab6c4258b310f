"""Anybody's results: read, understood, checked. Imports the ground alone; own runs arrive through an entry point."""

__all__ = ["annotations", "audit", "audit_page", "audit_text", "checks", "compare_external", "read", "waivers"]
