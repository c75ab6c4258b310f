"""Tables, charts and the page."""
