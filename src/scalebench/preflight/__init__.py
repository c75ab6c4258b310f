"""Before a campaign: what it will cost, what it needs, and whether the cluster takes it."""
