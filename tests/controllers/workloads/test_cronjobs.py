"""CronJobs on a real server, under a clock that the test moves."""

from __future__ import annotations

from typing import Any

from dray.api.times import parse_timestamp
from dray.api.types.batch import CronJob, Job
from dray.client import Client, ManualClock
from dray.controllers.workloads.cronjobs import CronJobController
from tests.controllers.conftest import Start
from tests.controllers.workloads.conftest import NAMESPACE, becomes, template, told


async def create(client: Client, **spec: Any) -> CronJob:
    job = {"spec": {"template": template(restartPolicy="Never")}}
    tree = {"metadata": {"name": "tick"}, "spec": {"schedule": "* * * * *", "jobTemplate": job, **spec}}
    return await client.create(CronJob, tree, namespace=NAMESPACE)


async def jobs(client: Client) -> list[str]:
    return sorted(job.metadata.name for job in (await client.list(Job, NAMESPACE)).items)


async def finish(client: Client, name: str) -> None:
    condition = {"type": "Complete", "status": "True"}
    status = {"conditions": [condition], "completionTime": "2030-01-01T00:00:00Z", "succeeded": 1}
    await client.patch(Job, name, {"status": status}, NAMESPACE, subresource="status")


def begun(cron_job: CronJob) -> float:
    return parse_timestamp(cron_job.metadata.creationTimestamp or "")


def named(moment: float) -> str:
    return f"tick-{int(moment) // 60}"


async def test_a_job_is_made_for_the_last_moment_that_was_missed(client: Client, start: Start) -> None:
    made = await create(client)
    clock = ManualClock(begun(made) + 600)
    async with start(CronJobController, clock=clock):
        await becomes(lambda: jobs(client), [named(begun(made) + 600)])
        job = await client.get(Job, named(begun(made) + 600), NAMESPACE)
        (owner,) = job.metadata.ownerReferences
        assert (owner.kind, owner.name, owner.controller) == ("CronJob", "tick", True)
        status = (await client.get(CronJob, "tick", NAMESPACE)).status
        assert [active.name for active in status.active] == [job.metadata.name]


async def test_forbid_waits_for_the_job_before(client: Client, start: Start) -> None:
    made = await create(client, concurrencyPolicy="Forbid")
    clock = ManualClock(begun(made) + 120)
    async with start(CronJobController, clock=clock):
        await becomes(lambda: jobs(client), [named(begun(made) + 120)])
        await clock.advance(60)
        await becomes(lambda: told(client, "JobAlreadyActive"), 1)
        assert len(await jobs(client)) == 1


async def test_finished_jobs_are_kept_as_asked(client: Client, start: Start) -> None:
    made = await create(client, successfulJobsHistoryLimit=1)
    clock = ManualClock(begun(made) + 120)
    async with start(CronJobController, clock=clock):
        first, second = named(begun(made) + 120), named(begun(made) + 180)
        await becomes(lambda: jobs(client), [first])
        await finish(client, first)
        await clock.advance(60)
        await becomes(lambda: jobs(client), [first, second])
        await finish(client, second)
        await becomes(lambda: jobs(client), [second])


async def test_a_suspended_one_makes_nothing(client: Client, start: Start) -> None:
    made = await create(client, suspend=True)
    clock = ManualClock(begun(made) + 600)
    async with start(CronJobController, clock=clock):
        await client.patch(CronJob, "tick", {"spec": {"suspend": False}}, NAMESPACE)
        await becomes(lambda: jobs(client), [named(begun(made) + 600)])
