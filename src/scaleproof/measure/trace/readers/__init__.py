"""Read what profilers and communication libraries write."""
