"""Tables, charts and the page."""

HOUSE = __name__  # whose templates these pages are of
