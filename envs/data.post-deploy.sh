#!/bin/sh
# Written by `make envs`. Snakemake runs it in the new environment: the package of this checkout, editable, so that
# an edit of src/ is what runs, without its dependencies. The Snakefile says where the checkout is.
set -eu
python -m pip install --no-deps --no-build-isolation --editable \
    "${SCALEPROOF_ROOT:?the Snakefile sets it to the folder of the repository}"
