"""Anybody's results: read, understood, checked. Imports the ground alone; own runs arrive through an entry point."""
