"""Is it true? Checks that turn runs into findings."""
