"""Reading other people's results: files of many formats, one neutral form."""
