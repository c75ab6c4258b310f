"""The networks and their exact parameter and FLOP counts."""
