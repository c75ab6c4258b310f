"""Findings and their register: codes, severities, pages."""
