"""Checks on the neutral form of other people's results."""
