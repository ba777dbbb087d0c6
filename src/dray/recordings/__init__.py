"""Recordings: the objects of a cluster that scheduling depends on, and what happened to them afterwards, as one file.

`recording` writes and reads the objects, `following` hears of changes and `history` writes them down, `anonymous` replaces
the names. Left out: what is done with a recording (`dray.replay`, `dray.sim`, `dray.questions`).
"""

from dray.recordings.history import History, HistoryFile, RecordedEvent, history_from_bytes
from dray.recordings.recording import Recording, RecordingError, record

__all__ = ["History", "HistoryFile", "RecordedEvent", "Recording", "RecordingError", "history_from_bytes", "record"]
