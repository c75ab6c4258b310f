"""Small files that stand for large ones, as Git LFS, DVC and git-annex leave them in a repository."""

import re

# How such a file begins -> what it is of, and the command that fetches the file itself.
POINTERS = {
    "version https://git-lfs": ("Git LFS", "git lfs pull"),
    r"(?:md5: \w+\s+)?outs:\s+- (?:md5|etag|checksum|hash|size|path): ": ("DVC", "dvc pull"),
    r"(?:\.\./)*(?:\.git)?/annex/objects/": ("git-annex", "git annex get"),
}


def pointer_fault(start: str | bytes) -> str:
    """Return what a text is that begins with `start`, or a link that leads to it: "a pointer of Git LFS, not the ...".

    Returns "" for any other text.
    """
    text = start if isinstance(start, str) else start[:500].decode("ascii", "replace")
    for beginning, (program, command) in POINTERS.items():
        if re.match(beginning, text):
            return f"a pointer of {program}, not the file itself; fetch it with: {command}"
    return ""
