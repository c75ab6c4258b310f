"""What to run: typed campaigns, their cells, slugs and fingerprints. Imports no torch."""
