"""Names of hosts, and texts in which they are replaced."""

import re
from collections.abc import Iterable, Iterator, Mapping


def hosts_of(host: Mapping[str, object], ranks: Iterable[Mapping[str, object]] | None) -> Iterator[str]:
    """Yield the names in a run's record: that of the launcher's `host`, and those of its `ranks`."""
    yield str(host["hostname"])
    yield from (str(rank["host"]) for rank in ranks or [])


class Pseudonyms:
    """host1, host2 ... in place of names of hosts, the longest name first."""

    def __init__(self, hosts: Iterable[str]) -> None:
        """Give each of `hosts` a pseudonym; the longest names come first, as one name may begin another."""
        by_length = sorted(set(hosts), key=lambda host: (-len(host), host))
        self._names = {host: f"host{number}" for number, host in enumerate(by_length, start=1)}
        as_words = [rf"(?<![\w.-]){re.escape(host)}(?![\w-])" for host in by_length]
        self._pattern = re.compile("|".join(as_words) or "(?!)")  # "(?!)" matches nothing

    def in_text(self, text: str) -> str:
        """Return the text with a pseudonym wherever a host is named as a word of its own."""
        return self._pattern.sub(lambda match: self._names[match[0]], text)
