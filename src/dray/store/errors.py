"""Errors of the store.

The API server translates them to Status responses in one place; the store knows nothing about HTTP. Programming
errors, such as an empty key or the same key twice in a commit, raise ValueError.
"""


class StoreError(Exception):
    """Base class of all store errors."""


class RevisionConflict(StoreError):
    """A key had another revision than expected, so nothing was committed. `actual` is 0 for an absent key."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(f"{key}: expected {_state(expected)}, found {_state(actual)}")
        self.key = key
        self.expected = expected
        self.actual = actual


class Compacted(StoreError):
    """The log no longer has this revision; revisions from `oldest` on can be read."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted; the oldest that can be read is {oldest}")
        self.revision = revision
        self.oldest = oldest


class RevisionExpired(StoreError):
    """The cache no longer has the history after this revision (410 Gone in the API); the client must list again."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is too old; the oldest that is kept is {oldest}")
        self.revision = revision
        self.oldest = oldest


class Lagged(StoreError):
    """A watcher was dropped because it was too slow. It may resume after the last revision that it received."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the watcher is more than {limit} events behind")


class Closed(StoreError):
    """The log or cache was closed before or during the call."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is closed")


class Unavailable(StoreError):
    """The store cannot be reached or written at the moment. A commit that raises this may or may not have been done."""


class CommitTooLarge(StoreError):
    """The commit has more operations or bytes than the backend supports."""


class Unreadable(StoreError):
    """The database file is damaged, from another program, from a newer version, or in use by another process."""


def _state(revision: int) -> str:
    return f"revision {revision}" if revision else "no such key"
