"""`python -m scaleproof.cli`: the same as `python -m scaleproof`."""

from scaleproof.cli import main

main()
