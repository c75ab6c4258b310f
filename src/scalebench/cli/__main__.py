"""`python -m scalebench.cli`."""

from scalebench.cli import main

main()
