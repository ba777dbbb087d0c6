"""Public traces, in small: files of the same form, with rows that lack something."""

from __future__ import annotations

import json

import pytest

from dray.replay.traces import TraceError, TraceNode, TracePod
from dray.replay.traces.formats import FORMATS, read

TASKS = b"""j1,tensorflow,2.0,Terminated,100.0,160.0,600.0,29.296875,50.0,MISC
j2,worker,1.0,Terminated,110.0,410.0,1200.0,16,200.0,V100
j3,worker,1.0,Waiting,120.0,,100.0,1,100.0,T4
"""
PODS = b"""name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0,88000,327680,8,1000,,LS,Succeeded,9437497,9437597,9437507
openb-pod-1,4000,15258,1,220,V100M16|V100M32,BE,Running,9437498,9437508,9437498
openb-pod-2,4000,15258,0,0,nan,BE,Pending,9437499,,
"""
JOB = {
    "status": "Pass",
    "vc": "ee9e8c",
    "jobid": "application_1506638472019_14199",
    "attempts": [
        {
            "start_time": "2017-10-07 01:12:09",
            "end_time": "2017-10-07 01:13:09",
            "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}, {"ip": "m48", "gpus": ["gpu5"]}],
        },
        {"start_time": "2017-10-07 01:14:09", "end_time": "2017-10-07 01:22:09", "detail": []},
    ],
    "submitted_time": "2017-10-07 01:11:39",
    "user": "ce2f4c",
}
NONE = {
    "status": "Killed",
    "vc": "a",
    "jobid": "b",
    "attempts": [],
    "submitted_time": "2017-10-07 01:11:50",
    "user": "c",
}


@pytest.mark.parametrize(
    "head", [b"", b"job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"]
)
def test_tasks_of_2020_are_pods_for_each_instance(head: bytes) -> None:
    found = read("alibaba-2020", head + TASKS)
    half = TracePod("", 0, 60, 1, cpu=6000, memory=30000, milli=500, group="j1")
    names = {pod.name: pod for pod in found.pods}
    assert names["task-0-1"] == TracePod("task-0-1", *[getattr(half, f) for f in half.__struct_fields__[1:]])
    assert (names["task-1-0"].devices, names["task-1-0"].at, names["task-1-0"].runs) == (2, 10, 300)
    assert (len(found.pods), found.left_out) == (3, 1)


def test_pods_of_2023_have_shares_and_models() -> None:
    found = read("alibaba-2023", PODS)
    assert found.pods == [
        TracePod("openb-pod-0", 0, 90, 8, cpu=88000, memory=327680),
        TracePod("openb-pod-1", 1, 10, 1, cpu=4000, memory=15258, milli=220, models=("V100M16", "V100M32")),
    ]
    assert found.left_out == 1


def test_jobs_of_philly_are_pods_for_each_machine() -> None:
    found = read("philly", json.dumps([JOB, NONE]).encode())
    assert [(pod.devices, pod.at, pod.runs) for pod in found.pods] == [(2, 0, 600), (1, 0, 600)]
    assert found.left_out == 1


@pytest.mark.parametrize(
    ("name", "content", "node"),
    [
        ("alibaba-2020", b"m1,T4,96,512,2\n", TraceNode("m1", 2, 96_000, 524_288, "T4")),
        (
            "alibaba-2023",
            b"sn,cpu_milli,memory_mib,gpu,model\nn1,128000,786432,8,G3\n",
            TraceNode("n1", 8, 128_000, 786_432, "G3"),
        ),
        ("philly", b"m31,8, 24GB\n", TraceNode("m31", 8, 64_000, 524_288, "24GB")),
    ],
)
def test_machines_are_nodes(name: str, content: bytes, node: TraceNode) -> None:
    assert [*FORMATS[name].read_machines(content)] == [node]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("alibaba-2020", b"", "there is no pod in it; expected pai_task_table.csv"),
        ("alibaba-2020", b"a,b\n", "row 1: expected 10 columns"),
        ("alibaba-2020", TASKS.replace(b"160.0", b"soon"), "end_time: expected a number, got 'soon'"),
        ("alibaba-2023", b"name,cpu_milli\np,3\n", "the columns memory_mib, num_gpu"),
        ("philly", b"{}", "expected a list of jobs"),
        ("philly", b'[{"jobid": 3}]', "expected a list of jobs"),
        ("philly", json.dumps([{**JOB, "submitted_time": "now"}]).encode(), "expected a time"),
    ],
)
def test_files_of_another_form_are_refused(name: str, content: bytes, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(name, content)
