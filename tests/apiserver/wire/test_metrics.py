"""What /metrics tells."""

from __future__ import annotations

from dray.apiserver.wire.metrics import Metrics
from dray.store import Cache


async def test_requests_are_counted_with_their_duration(cache: Cache) -> None:
    metrics = Metrics(cache)
    metrics.count("get", "", "pods", 200, 0.002)
    metrics.count("get", "", "pods", 200, 0.2)
    metrics.count("get", "", "pods", 404, 60.0)
    metrics.count("watch", "", "pods", 200, 60.0)
    metrics.watchers = 3
    text = metrics.text()[0].decode()
    labels = 'group="",resource="pods",verb="get"'
    assert f'apiserver_request_total{{code="200",{labels}}} 2.0' in text
    assert f'apiserver_request_total{{code="404",{labels}}} 1.0' in text
    assert 'apiserver_request_duration_seconds_bucket{group="",le="0.0025",resource="pods",verb="get"} 1.0' in text
    assert 'apiserver_request_duration_seconds_bucket{group="",le="+Inf",resource="pods",verb="get"} 3.0' in text
    assert f"apiserver_request_duration_seconds_sum{{{labels}}} 60.202" in text
    assert 'verb="watch"' not in text.partition("duration_seconds")[2].partition("apiserver_current")[0]
    assert "apiserver_longrunning_requests 3.0" in text
