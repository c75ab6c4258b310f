"""`python -m scaleproof`: the command line, where the program `scaleproof` is not on the PATH."""

from scaleproof.cli import main

main()
