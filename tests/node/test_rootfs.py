"""The plan of a container's file system."""

from __future__ import annotations

import os

from dray.node.rootfs import BIND, SYMLINK, TMPFS, RootfsStep, hidden_programs, place, plan


def test_the_hosts_directories_are_taken_over_but_for_those_that_are_made_anew() -> None:
    steps = plan([])
    assert RootfsStep(BIND, "/usr", "/usr") in steps
    assert [step.target for step in steps if step.kind == TMPFS] == ["/tmp", "/run"]
    assert not {"/proc", "/dev", "/sys"} & {step.target for step in steps}
    if os.path.islink("/bin"):
        assert RootfsStep(SYMLINK, "/bin", os.readlink("/bin")) in steps


def test_a_directory_is_rebuilt_where_a_target_has_no_place() -> None:
    steps = plan(["/usr/share/not-there/deep", "/usr/share/not-there/other"])
    rebuilt = steps.index(RootfsStep(TMPFS, "/usr/share"))
    assert steps.count(RootfsStep(TMPFS, "/usr/share")) == 1
    assert all(step.target.startswith("/usr/share/") for step in steps[rebuilt + 1 :])
    present = {entry.path for entry in os.scandir("/usr/share") if entry.is_dir() or entry.is_file()}
    assert present <= {step.target for step in steps}


def test_nothing_is_rebuilt_where_there_is_a_place() -> None:
    assert plan(["/usr/share", "/tmp/x/y", "/run/x", "/top", "/dev/gpu0"]) == plan([])


def test_links_of_the_host_are_followed() -> None:
    if os.path.islink("/var/run"):
        assert place("/var/run/secrets/x") == "/run/secrets/x"
    assert place("/usr/../usr/share") == "/usr/share"


def test_programs_below_a_fresh_directory_stay_visible() -> None:
    assert hidden_programs(("/tmp/clone/.venv", "/usr", "/run/user/python", "/tmpfoo")) == [
        "/run/user/python",
        "/tmp/clone/.venv",
    ]
