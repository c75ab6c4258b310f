"""The timed loop and what is counted beside it."""
