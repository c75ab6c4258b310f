"""Is this machine fit to measure, and does scaleproof measure right on it?"""
