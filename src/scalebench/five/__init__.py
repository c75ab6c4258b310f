"""Five published benchmarks: their figures, as files in the formats that their programs wrote."""
