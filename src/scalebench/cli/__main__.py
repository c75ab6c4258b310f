"""`python -m scalebench.cli`: the same as `python -m scalebench`."""

from scalebench.cli import main

main()
