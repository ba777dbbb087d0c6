"""What can go wrong in a store, as one small hierarchy.

The API server turns these into Status answers in one place; nothing here knows about HTTP. Errors that only a programmer
can make (an empty key, the same key twice in one commit) are plain ValueErrors.
"""


class StoreError(Exception):
    """Whatever a store refuses or cannot do."""


class RevisionConflict(StoreError):
    """An op expected another revision of its key; nothing of the commit was done. `actual` 0: the key does not exist."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(f"{key}: expected {_state(expected)}, found {_state(actual)}")
        self.key = key
        self.expected = expected
        self.actual = actual


class Compacted(StoreError):
    """The log no longer has that revision; reading works from `oldest` on."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted; the oldest that can be read is {oldest}")
        self.revision = revision
        self.oldest = oldest


class RevisionExpired(StoreError):
    """The cache no longer has the history after that revision (the API's 410 Gone): list again."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is too old; the oldest that is kept is {oldest}")
        self.revision = revision
        self.oldest = oldest


class Lagged(StoreError):
    """A watcher did not keep up and was dropped; it may resume after the last revision it has seen."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the watcher is more than {limit} events behind")


class Closed(StoreError):
    """The log or the cache was closed while the caller waited, or before."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is closed")


class Unavailable(StoreError):
    """The store cannot answer now. Whether a commit that ends so was done is not known."""


class CommitTooLarge(StoreError):
    """The commit has more ops or bytes than the backend takes."""


class Unreadable(StoreError):
    """The database file is not one of ours, damaged, of a newer version, or in use by another process."""


def _state(revision: int) -> str:
    return f"revision {revision}" if revision else "no such key"
