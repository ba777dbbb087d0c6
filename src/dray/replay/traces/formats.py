"""Readers of public GPU cluster traces from local files: Alibaba 2020 and 2023, Microsoft Philly.

Each reader returns pods, and machines if the trace lists them. Rows without start or end time are skipped and
counted. Left out: downloading the files, and utilisation within pods.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec
from msgspec.structs import replace

from dray.replay.traces import WHOLE, TraceError, TraceNode, TracePod

_TASKS = [
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
]
_MACHINES_2020 = ["machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"]
_PODS = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
]
_MACHINES_2023 = ["sn", "cpu_milli", "memory_mib", "gpu", "model"]
_MACHINES_PHILLY = ["machineId", "gpus", "memory"]
_MANY_CPUS, _MUCH_MEMORY = 64_000, 512 * 1024  # capacity of a Philly machine, which its list does not contain
CsvRow = dict[str, str]


class Trace(msgspec.Struct, frozen=True):
    """Pods of a file, starting at 0 seconds, and the number of skipped rows."""

    pods: list[TracePod]
    left_out: int


class TraceFormat(msgspec.Struct, frozen=True):
    """Reader of one public trace: names of its files, and functions for jobs and machines."""

    jobs: str  # file name of jobs in the trace
    machines: str
    read: Callable[[bytes], Iterator[TracePod | None]]
    read_machines: Callable[[bytes], Iterator[TraceNode]]


def read(name: str, content: bytes) -> Trace:
    """Read the pods of a file in one of the FORMATS. Raises TraceError."""
    rows = [*FORMATS[name].read(content)]
    pods = [pod for pod in rows if pod is not None]
    if not pods:
        raise TraceError(f"there is no pod in it; expected {FORMATS[name].jobs}")
    first = min(pod.at for pod in pods)
    return Trace([replace(pod, at=pod.at - first) for pod in pods], len(rows) - len(pods))


# Alibaba, 2020: tasks with a number of instances; cpu and gpu in hundredths, memory in GB.


def _tasks(content: bytes) -> Iterator[TracePod | None]:
    """Yield the pods of Alibaba's 2020 trace; None for a row without valid times.

    A row with several instances gives one pod for each.
    """
    for number, row in enumerate(_rows(content, _TASKS)):
        start, end = _number(row, "start_time"), _number(row, "end_time")
        if start is None or end is None or end < start:
            yield None
            continue
        gpus = (_number(row, "plan_gpu") or 0.0) / 100
        pod = TracePod(
            "",
            start,
            end - start,
            _devices(gpus),
            cpu=int((_number(row, "plan_cpu") or 0.0) * 10),
            memory=int((_number(row, "plan_mem") or 0.0) * 1024),
            milli=_milli(gpus),
            group=row["job_name"][:60],
        )
        for instance in range(max(1, int(_number(row, "inst_num") or 1))):
            yield replace(pod, name=f"task-{number}-{instance}")


def _machines_2020(content: bytes) -> Iterator[TraceNode]:
    for row in _rows(content, _MACHINES_2020):
        gpus, cpu, memory = (_number(row, name) or 0.0 for name in ("cap_gpu", "cap_cpu", "cap_mem"))
        yield TraceNode(row["machine"], int(gpus), int(cpu * 1000), int(memory * 1024), row["gpu_type"])


# Alibaba, 2023: pods with thousandths of cpus and devices, and the models that will do.


def _pods(content: bytes) -> Iterator[TracePod | None]:
    """Yield the pods of Alibaba's 2023 trace; None for a row without valid times."""
    for row in _rows(content, _PODS):
        start, end = _number(row, "creation_time"), _number(row, "deletion_time")
        began = _number(row, "scheduled_time")
        if start is None or end is None or end < (start if began is None else began):
            yield None
            continue
        devices = int(_number(row, "num_gpu") or 0)
        models = tuple(word for word in row["gpu_spec"].split("|") if word and word != "nan")
        milli = int(_number(row, "gpu_milli") or WHOLE) if devices == 1 else WHOLE
        yield TracePod(
            row["name"],
            start,
            end - (start if began is None else began),
            devices,
            cpu=int(_number(row, "cpu_milli") or 0),
            memory=int(_number(row, "memory_mib") or 0),
            milli=milli,
            models=models,
        )


def _machines_2023(content: bytes) -> Iterator[TraceNode]:
    for row in _rows(content, _MACHINES_2023):
        gpus, cpu, memory = (_number(row, name) or 0.0 for name in ("gpu", "cpu_milli", "memory_mib"))
        yield TraceNode(row["sn"], int(gpus), int(cpu), int(memory), "" if row["model"] == "nan" else row["model"])


# Philly: jobs with attempts, each with the devices that it had on every machine.


class _Place(msgspec.Struct):
    ip: str
    gpus: list[str]


class _Try(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Place] = []


class _Job(msgspec.Struct):
    jobid: str
    submitted_time: str | None = None
    attempts: list[_Try] = []


def _jobs(content: bytes) -> Iterator[TracePod | None]:
    """Yield a pod for each machine of each job in the Philly trace; None for a job without valid times.

    Raises TraceError if the content is not a list of jobs.
    """
    try:
        jobs = msgspec.json.decode(content, type=list[_Job])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"expected a list of jobs as JSON: {error}") from error
    for number, job in enumerate(jobs):
        starts = [at for one in job.attempts if (at := _moment(one.start_time)) is not None]
        ends = [at for one in job.attempts if (at := _moment(one.end_time)) is not None]
        came = _moment(job.submitted_time)
        places = next((one.detail for one in job.attempts if one.detail), [])
        if came is None or not starts or not ends or not places or max(ends) < min(starts):
            yield None
            continue
        for place, found in enumerate(places):
            name, runs = f"job-{number}-{place}", max(ends) - min(starts)
            yield TracePod(name, came, runs, len(found.gpus), group=job.jobid[:60].replace("_", "-"))


def _machines_philly(content: bytes) -> Iterator[TraceNode]:
    for row in _rows(content, _MACHINES_PHILLY):
        memory = row["memory"].strip()
        yield TraceNode(row["machineId"], int(_number(row, "gpus") or 0), _MANY_CPUS, _MUCH_MEMORY, memory)


FORMATS = {
    "alibaba-2020": TraceFormat("pai_task_table.csv", "pai_machine_spec.csv", _tasks, _machines_2020),
    "alibaba-2023": TraceFormat("openb_pod_list_*.csv", "openb_node_list_*.csv", _pods, _machines_2023),
    "philly": TraceFormat("cluster_job_log", "cluster_machine_list", _jobs, _machines_philly),
}


def _rows(content: bytes, columns: list[str]) -> Iterable[CsvRow]:
    """Yield the rows of a table by column name, with or without a header line. Raises TraceError.

    TraceError is raised if the content is no table, a column is missing or a row is too short. Empty lines are left
    out.
    """
    try:
        lines = [*csv.reader(io.StringIO(content.decode("utf-8-sig")))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"expected a table with the columns {', '.join(columns)}: {error}") from error
    head = [word.strip() for word in lines[0]] if lines else []
    if columns[0] in head:
        if missing := [name for name in columns if name not in head]:
            raise TraceError(f"the columns {', '.join(missing)} are missing")
        columns, lines = head, lines[1:]
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        if len(line) < len(columns):
            raise TraceError(f"row {number}: expected {len(columns)} columns ({', '.join(columns)}), got {len(line)}")
        yield dict(zip(columns, line, strict=False))


def _number(row: CsvRow, column: str) -> float | None:
    """Return the number in a column, or None if empty. Raises TraceError.

    Also None for `nan` and `None`. TraceError is raised for other text.
    """
    text = row[column].strip()
    if not text or text in ("nan", "None"):
        return None
    try:
        return float(text)
    except ValueError as error:
        raise TraceError(f"{column}: expected a number, got {text!r}") from error


def _moment(text: str | None) -> float | None:
    if text is None or text in ("", "None"):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise TraceError(f"expected a time such as 2017-10-07 01:12:09, got {text!r}") from error


def _devices(gpus: float) -> int:
    """Return the number of devices, rounded up; of a fractional device, a share is requested."""
    return -int(-gpus // 1)


def _milli(gpus: float) -> int:
    return int(gpus * WHOLE) if 0 < gpus < 1 else WHOLE
