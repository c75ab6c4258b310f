"""`python -m scalebench`: the command line, where the program `scalebench` is not on the PATH."""

from scalebench.cli import main

main()
