"""Recordings: the objects of a cluster that affect scheduling, and their later changes, as one file.

`recording` writes and reads the objects, `following` observes changes, `history` writes them, and `anonymous`
replaces names.
Left out: uses of recordings (`dray.replay`, `dray.sim`, `dray.questions`).
"""

from dray.recordings.history import History, HistoryFile, RecordedEvent, history_from_bytes
from dray.recordings.recording import Recording, RecordingError, record

__all__ = ["History", "HistoryFile", "RecordedEvent", "Recording", "RecordingError", "history_from_bytes", "record"]
