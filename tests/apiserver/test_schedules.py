"""Schedules of CronJobs that a server refuses."""

from __future__ import annotations

import pytest

from tests.apiserver.asking import HttpAsker


@pytest.mark.parametrize(
    "schedule", ["*/" + "9" * 5000 + " * * * *", "*/٣ * * * *", "@every 99999999999999h", "9" * 5000 + " * * * *"]
)
async def test_a_schedule_with_an_impossible_number_is_invalid(http: HttpAsker, schedule: str) -> None:
    container = {"name": "c", "image": "i"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}
    code, body = await http(
        "POST", "/apis/batch/v1/namespaces/default/cronjobs", {"metadata": {"name": "c"}, "spec": spec}
    )
    assert (code, body["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in body["details"]["causes"]] == ["spec.schedule"]
