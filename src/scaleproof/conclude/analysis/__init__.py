"""What the numbers mean: intervals, cells, scaling."""
