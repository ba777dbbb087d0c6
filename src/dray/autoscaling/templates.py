"""Templates of new nodes: a node with its own slices, from a profile, an existing node or a file.

A template creates objects for any number of nodes, so a group may start without nodes. Left out: limits and prices
(`groups`), and network-attached pools, which new nodes do not multiply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from dray.api.gates import FeatureGates
from dray.api.manifests import ManifestError, object_of
from dray.api.resources import BY_TYPE
from dray.api.types.core import Node, Taint
from dray.api.types.resource import DeviceClass, ResourceSlice
from dray.api.validation import Complaint, Context, validate_create
from dray.api.wire import Tree, Wire
from dray.cel.checking import check
from dray.sim import hardware, profiles
from dray.sim.copies import node_like, slice_like
from dray.sim.profiles import NodeProfile, ProfileError

GROUP_LABEL = "dray.dev/node-group"
_EPOCH = "1970-01-01T00:00:00Z"  # time of conditions of nodes that do not exist yet


class TemplateError(ValueError):
    """An unusable template. The message says why."""


class Template(msgspec.Struct, frozen=True):
    """A kind of node. `classes` are the device classes of its profile."""

    node: Node
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()

    def objects(self, name: str) -> list[Wire]:
        """Return a node of this name and its slices."""
        return [node_like(self.node, name), *self.slices_of(name)]

    def slices_of(self, name: str) -> list[ResourceSlice]:
        """Return the slices that drivers on a node of this name publish."""
        return [slice_like(piece, self.node.metadata.name, name) for piece in self.slices]

    def adorned(self, labels: dict[str, str], taints: Iterable[Taint]) -> Template:
        """Return a copy with additional labels and taints."""
        meta = replace(self.node.metadata, labels={**self.node.metadata.labels, **labels})
        spec = replace(self.node.spec, taints=(*self.node.spec.taints, *taints))
        return replace(self, node=replace(self.node, metadata=meta, spec=spec))


def faults(template: Template, gates: FeatureGates) -> Iterator[str]:
    """Yield the validation errors that an API server would report for the template's node, slices and classes."""
    context = Context(gates, _complaint, "v1")
    for one in (*template.classes, *template.objects(template.node.metadata.name)):
        resource = BY_TYPE[type(one)]
        yield from (f"{resource.kind}: {wrong}" for wrong in validate_create(resource, one, context))


def _complaint(expression: str) -> Complaint | None:
    """Return the complaint about an invalid CEL expression, or None."""
    refusal = check(expression, is_derived=False).refusal
    return Complaint(refusal.reason, refusal.detail) if refusal is not None else None


def from_profile(profile: NodeProfile, name: str, gates: FeatureGates) -> Template:
    """Create a template from a profile.

    `name` is the name of the node. Raises TemplateError if the profile gives invalid objects.
    """
    try:
        made = [object_of(tree, gates) for tree in _trees(profile, name)]
    except (ManifestError, ProfileError) as error:
        raise TemplateError(str(error)) from error
    return Template(
        next(one for one in made if isinstance(one, Node)),
        tuple(one for one in made if isinstance(one, ResourceSlice)),
        tuple(one for one in made if isinstance(one, DeviceClass)),
    )


def from_node(name: str, objects: Iterable[Wire]) -> Template:
    """Create a template from an existing node and its node-local devices.

    Raises TemplateError if the node does not exist.
    """
    known = [*objects]
    node = next((one for one in known if isinstance(one, Node) and one.metadata.name == name), None)
    if node is None:
        raise TemplateError(f"there is no node {name} to copy")
    slices = [one for one in known if isinstance(one, ResourceSlice) and one.spec.nodeName == name]
    return Template(node_like(node, name), tuple(slices))


def _trees(profile: NodeProfile, name: str) -> list[Tree]:
    classes = (hardware.class_tree(one.name, one.selector) for one in profile.classes)
    return [*classes, *profiles.node_trees(profile, name, 0, _EPOCH)]
