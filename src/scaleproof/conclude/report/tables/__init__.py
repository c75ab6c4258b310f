"""Tables as CSV, Markdown and LaTeX."""

__all__ = ["cells", "comparison", "forecast", "scaling", "waterfall"]
