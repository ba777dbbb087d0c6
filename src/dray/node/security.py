"""The effective security settings of a container, combined from the security contexts of its pod and its own. Pure.

A runtime applies all of them or refuses the container with a reason. Protections that no runtime here can apply
(seccomp, AppArmor, SELinux profiles) are reported in an event instead. Left out: applying the settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from dray.api.types.core import Pod, PodSecurityContext, SecurityContext
from dray.node.containers import AnyContainer
from dray.node.environment import ConfigProblem

# The capabilities that containers have by default, as in container runtimes.
DEFAULT_CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
ALL_CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
)


@dataclass(frozen=True)
class ContainerSecurity:
    """User, groups and privileges of a container. A user or group of None is chosen by the image or the runtime.

    Capabilities in `add` and `drop` are without CAP_, or "ALL".
    """

    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()  # supplementalGroups and fsGroup
    non_root: bool = False
    privileged: bool = False
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    readonly_root: bool = False
    no_new_privileges: bool = False
    host_pid: bool = False
    host_ipc: bool = False

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The container's capabilities, without CAP_. Added ones override dropped ones, as in Kubernetes."""
        if self.privileged:
            return ALL_CAPABILITIES
        kept = () if "ALL" in self.drop else tuple(name for name in DEFAULT_CAPABILITIES if name not in self.drop)
        added = tuple(name for name in ALL_CAPABILITIES if name not in self.drop) if "ALL" in self.add else self.add
        return tuple(dict.fromkeys((*kept, *added)))

    @property
    def given(self) -> list[str]:
        """The container's capabilities that the agent itself has and can therefore grant."""
        return [name for name in self.capabilities if name in own_capabilities()]

    @property
    def not_given(self) -> str:
        """Text that names the explicitly added capabilities which the agent cannot grant, or "" if there are none."""
        missing = [name for name in self.add if name != "ALL" and name not in own_capabilities()]
        return f"added capabilities {', '.join(missing)}" if missing else ""


def security_of(pod: Pod, container: AnyContainer) -> ContainerSecurity:
    whole, own = pod.spec.securityContext or PodSecurityContext(), container.securityContext or SecurityContext()
    if whole.sysctls:
        raise ConfigProblem(f"sysctl {whole.sysctls[0].name}: no runtime here sets kernel parameters")
    groups = (*whole.supplementalGroups, *(() if whole.fsGroup is None else (whole.fsGroup,)))
    names = own.capabilities
    return ContainerSecurity(
        user=own.runAsUser if own.runAsUser is not None else whole.runAsUser,
        group=own.runAsGroup if own.runAsGroup is not None else whole.runAsGroup,
        groups=tuple(dict.fromkeys(groups)),
        non_root=bool(own.runAsNonRoot if own.runAsNonRoot is not None else whole.runAsNonRoot),
        privileged=bool(own.privileged),
        add=_plain(names.add if names is not None else ()),
        drop=_plain(names.drop if names is not None else ()),
        readonly_root=bool(own.readOnlyRootFilesystem),
        no_new_privileges=own.allowPrivilegeEscalation is False,
        host_pid=pod.spec.hostPID,
        host_ipc=pod.spec.hostIPC,
    )


def check_non_root(security: ContainerSecurity, user: int, pod: Pod, container: str) -> None:
    """Raise `ConfigProblem` if a container with runAsNonRoot would run as root; `user` would be its user.

    `container` is the name of the container.
    """
    if security.non_root and user == 0:
        meta = pod.metadata
        where = f'(pod: "{meta.name}_{meta.namespace}({meta.uid})", container: {container})'
        if security.user == 0:
            raise ConfigProblem(f"container's runAsUser breaks non-root policy {where}")
        raise ConfigProblem(f"container has runAsNonRoot and image will run as root {where}")


def profiles(pod: Pod, container: AnyContainer) -> Iterator[str]:
    """Yield the requested security profiles that no runtime here can apply.

    A profile of the container replaces that of the pod. Unconfined profiles need nothing.
    """
    whole, own = pod.spec.securityContext or PodSecurityContext(), container.securityContext or SecurityContext()
    seccomp = own.seccompProfile or whole.seccompProfile
    if seccomp is not None and seccomp.type != "Unconfined":
        yield f"seccomp profile {seccomp.type}"
    apparmor = own.appArmorProfile or whole.appArmorProfile
    if apparmor is not None and apparmor.type != "Unconfined":
        yield f"AppArmor profile {apparmor.type}"
    if own.seLinuxOptions or whole.seLinuxOptions:
        yield "SELinux options"


@cache
def own_capabilities() -> frozenset[str]:
    """Return the agent's own capabilities, the most that it can grant to a container.

    Names are without CAP_.
    """
    with open("/proc/self/status") as stream:
        mask = next(int(line.split()[1], 16) for line in stream if line.startswith("CapPrm"))
    return frozenset(name for number, name in enumerate(ALL_CAPABILITIES) if mask >> number & 1)


def _plain(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return capability names in upper case and without the prefix CAP_.

    The order stays as it is.
    """
    return tuple(name.upper().removeprefix("CAP_") for name in names)
