"""Validity checks: from runs to findings. `scalebench.audit(path)` runs them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalebench.audit.audit_paths import Audit


class _Callable(ModuleType):
    """This package as a function."""

    def __call__(self, *paths: str | Path, world_size: int | None = None, global_batch: int | None = None) -> Audit:
        """The validity checks on files and folders, ours or anybody's: what was read, and the findings.

        `world_size`, `global_batch`: where the files do not state them.
        """
        from scalebench.audit.audit_paths import audit_paths

        facts = {"world_size": world_size, "global_batch": global_batch}
        given = {key: value for key, value in facts.items() if value is not None}
        return audit_paths([Path(path) for path in paths], {"": given} if given else {})


sys.modules[__name__].__class__ = _Callable
