"""Followed recordings as files: whole, cut off, edited."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.types.core import Pod
from dray.recordings.history import DeletedObject, HistoryFile, RecordedEvent, history_from_bytes
from dray.recordings.recording import RecordingError, record, to_bytes
from tests.recordings.test_recording import TIME, busy, objects_of
from tests.sim.test_cluster import machines, pod

GONE = DeletedObject("v1", "Pod", "first", "default")


def written(path: Path, events: int = 4) -> bytes:
    file = HistoryFile(str(path), record(objects_of(busy()), time=TIME, source="test"))
    file.write([RecordedEvent(0.5, 7, put=pod("new", 1)), RecordedEvent(1.25, 9, gone=GONE)])
    file.write(
        [RecordedEvent(float(number), 10 - number, put=machines(1, first=number)[1]) for number in range(2, events)]
    )
    file.close()
    return path.read_bytes()


@pytest.mark.parametrize("name", ["followed.json", "followed.json.gz"])
def test_what_happened_comes_back_in_the_order_of_the_server(tmp_path: Path, name: str) -> None:
    found = history_from_bytes(written(tmp_path / name))
    assert [event.version for event in found.events] == [7, 7, 8, 9]
    assert not found.is_cut
    names = {one.metadata.name for one in found.final_objects() if isinstance(one, Pod)}
    assert "new" in names
    assert "first" not in names


@pytest.mark.parametrize("name", ["followed.json", "followed.json.gz"])
def test_a_file_is_whole_at_every_moment(tmp_path: Path, name: str) -> None:
    """As after a kill: the file is never closed."""
    path = tmp_path / name
    file = HistoryFile(str(path), record(objects_of(busy()), time=TIME, source="test"))
    assert history_from_bytes(path.read_bytes()).events == ()
    file.write([RecordedEvent(0.5, 7, gone=GONE)])
    found = history_from_bytes(path.read_bytes())
    assert [event.at for event in found.events] == [0.5]
    assert not found.is_cut
    file.close()


def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    content = written(tmp_path / "f.json")
    head = content.index(b"\n") + 1
    for end in range(head, len(content), 37):
        found = history_from_bytes(content[:end])
        whole = content[head:end].count(b"\n")
        assert (len(found.events), found.is_cut) == (whole, not content[:end].endswith(b"\n"))


def test_a_compressed_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    content = written(tmp_path / "f.json.gz")
    found = history_from_bytes(content[:-30])
    assert 0 < len(found.events) <= 4


def test_a_recording_whose_first_line_is_cut_off_is_refused(tmp_path: Path) -> None:
    content = written(tmp_path / "f.json")
    with pytest.raises(RecordingError, match="cut off or damaged"):
        history_from_bytes(content[: content.index(b"\n") // 2])


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [(b'"at":1.25', b'"at":2.25', 3), (b'"name":"new"', b'"name":"old"', 2), (b'"gone":{', b'"gone":[', 3)],
)
def test_an_edited_line_is_named_with_what_is_whole_before_it(
    tmp_path: Path, old: bytes, new: bytes, line: int
) -> None:
    content = written(tmp_path / "f.json")
    assert content.count(old) >= 1
    head, _, tail = content.rpartition(old)
    with pytest.raises(RecordingError, match=f"line {line} .*the {line - 2} events before it"):
        history_from_bytes(head + new + tail)


def test_a_line_that_is_left_out_is_noticed(tmp_path: Path) -> None:
    first, second, third, *rest = written(tmp_path / "f.json").split(b"\n")
    with pytest.raises(RecordingError, match="line 2"):
        history_from_bytes(b"\n".join([first, third, second, *rest]))


def test_a_recording_that_was_not_followed_has_no_events() -> None:
    made = record(objects_of(busy()), time=TIME, source="test")
    for compressed in (False, True):
        found = history_from_bytes(to_bytes(made, compressed=compressed))
        assert (found.recording.digest, found.events) == (made.digest, ())
