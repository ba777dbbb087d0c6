"""ConversionReview: the request to a conversion webhook, and the validation of its response.

A webhook receives objects and a version, and returns the same objects in that version. It may change everything
except identity: of the metadata, only labels and annotations are taken from the response. Pure; `conversions` makes
the call.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dray.api import conversion
from dray.api.custom.objects import unfit_name
from dray.api.errors import ApiError, InternalError
from dray.api.paths import METADATA
from dray.api.resources import Resource
from dray.api.validation.metadata import check_annotations, check_labels
from dray.api.wire import Tree
from dray.apiserver.wire.bodies import ORDINARY

_GROUP = "apiextensions.k8s.io"
_SPOKEN = ("v1", "v1beta1")  # supported versions of ConversionReview
_OWN = (("labels", check_labels), ("annotations", check_annotations))


class ConversionFailed(InternalError):
    """A conversion webhook failed. The text has the reason."""


class _Result(msgspec.Struct):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct):
    uid: str = ""
    convertedObjects: list[msgspec.Raw] | None = None
    result: _Result = msgspec.field(default_factory=_Result)


class _Envelope(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    response: _Response | None = None


_decode = msgspec.json.Decoder(_Envelope).decode


class Review:
    """One ConversionReview: objects of one version to be converted to another."""

    def __init__(self, resource: Resource, version: str, trees: Sequence[Tree]) -> None:
        self._resource = resource
        self._version = version
        self._trees = trees
        self._uid = str(uuid.uuid4())
        self._api_version = f"{_GROUP}/{_spoken(resource)}"

    def body(self) -> bytes:
        """Return the request of the ConversionReview as JSON."""
        wanted = self._resource.api_version(self._version)
        request = {"uid": self._uid, "desiredAPIVersion": wanted, "objects": self._trees}
        return msgspec.json.encode({"apiVersion": self._api_version, "kind": "ConversionReview", "request": request})

    def read(self, data: bytes) -> list[Tree]:
        """Return the converted objects in a response, in the order of the request.

        Raises ConversionFailed if the response is unusable, reports a failure, or has another number of objects.
        """
        found = self._objects(data)
        if len(found) != len(self._trees):
            raise ConversionFailed(f"{self._named} returned {len(found)} objects, expected {len(self._trees)}")
        return [self._checked(*pair) for pair in enumerate(zip(self._trees, found, strict=True))]

    def failed(self, why: object) -> ConversionFailed:
        """Return a ConversionFailed error that names the webhook and the reason."""
        return ConversionFailed(f"{self._named} failed: {why}")

    @property
    def _named(self) -> str:
        return f"conversion webhook for {self._trees[0]['apiVersion']}, Kind={self._resource.kind}"

    def _objects(self, data: bytes) -> list[msgspec.Raw]:
        """Return the undecoded objects in a response. Raises ConversionFailed."""
        try:
            answer = _decode(data)
        except RecursionError:
            raise self.failed("the answer is nested too deeply") from None
        except (msgspec.DecodeError, ValueError) as error:
            raise self.failed(f"the answer is no ConversionReview: {error}") from error
        response = answer.response
        if answer.apiVersion != self._api_version or answer.kind != "ConversionReview":
            expected = f"{self._api_version}, Kind=ConversionReview"
            raise self.failed(f"expected webhook response of {expected}, got {answer.apiVersion}, Kind={answer.kind}")
        if response is None:
            raise self.failed("no response provided")
        if response.uid != self._uid:
            raise self.failed(f'expected response.uid="{self._uid}", got "{response.uid}"')
        if response.result.status != "Success":
            status = f"response.result.status was '{response.result.status}', not 'Success'"
            raise self.failed(response.result.message or status)
        return response.convertedObjects or []

    def _checked(self, index: int, pair: tuple[Tree, msgspec.Raw]) -> Tree:
        """Return one converted object with its original metadata. Raises ConversionFailed if it is invalid.

        `pair` is the original and the encoded converted object, `index` their position in the review.
        """
        original, raw = pair
        try:
            tree = _read(raw)
            for fault in self._faults(original, tree):
                raise ValueError(fault)
            tree["metadata"] = _metadata(original["metadata"], tree["metadata"])
        except RecursionError:
            raise self._invalid(index, "it is nested too deeply") from None
        except (ApiError, ValueError, TypeError) as error:
            raise self._invalid(index, error) from error
        conversion.shape_custom(self._resource, self._version, tree)
        return tree

    def _invalid(self, index: int, why: object) -> ConversionFailed:
        """Return the error for an invalid converted object."""
        return ConversionFailed(f"{self._named} returned invalid converted object at index {index}: {why}")

    def _faults(self, original: Tree, tree: Tree) -> Iterator[str]:
        """Yield messages about a converted object that became another object or has the wrong version or kind.

        Also yields a message if a field name has quotes, backslashes or control characters.
        """
        wanted, kind = self._resource.api_version(self._version), self._resource.kind
        if tree.get("apiVersion") != wanted:
            yield f"invalid groupVersion (expected {wanted}, received {tree.get('apiVersion')})"
        if tree.get("kind") != kind:
            yield f"invalid kind (expected {kind}, received {tree.get('kind')})"
        if not isinstance(tree.get("metadata"), dict):
            yield "missing metadata in converted object"
        for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
            before, after = original["metadata"].get(name, ""), tree["metadata"].get(name, "")
            if before != after:
                yield f"must have the same {shown}: {before} != {after}"
        if (unfit := unfit_name(tree)) is not None:
            yield f"field {unfit!r} has quotes, backslashes or control characters in its name"


def _spoken(resource: Resource) -> str:
    """Return the apiVersion of ConversionReview to use with a webhook: the first of its versions that is known here.

    Returns the preferred one of this server if there is none.
    """
    assert resource.custom is not None
    conversion_ = resource.custom.definition.spec.conversion
    offered = conversion_.webhook.conversionReviewVersions if conversion_ and conversion_.webhook else ()
    return next((version for version in offered if version in _SPOKEN), _SPOKEN[0])


def _read(raw: msgspec.Raw) -> Tree:
    """Return a decoded object. Raises if it is not an object or exceeds the limits of a body."""
    data = bytes(raw)
    tree: Any = msgspec.json.decode(data)
    if not isinstance(tree, dict):
        raise ValueError("it is no object")
    ORDINARY.check(tree, data, ORDINARY.limits.values)
    return tree


def _metadata(original: Tree, converted: Tree) -> Tree:
    """Return the original metadata with labels and annotations of the converted object.

    Raises ValueError if they are not maps of strings, or are changed and invalid.
    """
    metadata = {name: value for name, value in original.items() if name not in ("labels", "annotations")}
    for name, check in _OWN:
        said = converted.get(name)
        if said is None:
            continue
        if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
            raise ValueError(f"metadata.{name} must be a map of strings")
        if said != original.get(name):
            for fault in check(said, METADATA / name):
                raise ValueError(str(fault))
        metadata[name] = said
    return metadata
