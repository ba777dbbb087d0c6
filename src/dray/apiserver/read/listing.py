"""Lists: which objects, at which revision, and where the next page starts.

Without a resourceVersion a list shows the most recent state of the store; with "0" the state of this server's cache;
with another value a state at least as new or, with match Exact, that state. All pages of one list show the same
revision, which the continue token carries.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any, cast

import msgspec

from dray.api.errors import ApiError, BadRequest, Expired, FieldError, Timeout, forbidden
from dray.api.resources import Resource
from dray.api.selectors import (
    EVERYTHING,
    FieldSelector,
    LabelRequirements,
    SelectorError,
    parse_fields,
    parse_labels,
)
from dray.apiserver.limits import Limits
from dray.apiserver.request import Answer, Request, RequestOptions
from dray.apiserver.wire.queries import OptionsInvalid
from dray.background.turns import batched, turns
from dray.store import Cache, KeyVersion
from dray.store.errors import RevisionExpired

_ORDINARY = 1024  # maximum characters of cached selectors
_MOST_TERMS = Limits().selector_terms
_SOME = 16  # objects matched before other work may run; a long selector takes 0.1 ms for each
_FRESH_SECONDS = 3.0  # maximum wait for a revision that this server has not seen yet
_TOKEN_VERSION = "meta.k8s.io/v1"
_TOO_OLD = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class ListSelection(msgspec.Struct, frozen=True):
    """Parsed selectors of a list or watch."""

    labels: LabelRequirements
    fields: FieldSelector
    depth: int  # number of slashes in the prefix of one namespace, or of a cluster-scoped resource
    matches: Callable[[Any], bool]  # whether the selectors match an object

    @property
    def everything(self) -> bool:
        """Whether all objects match."""
        return self.labels.everything and self.fields.everything

    def key(self, prefix: str) -> str | None:
        """Return the only key below `prefix` that can match, or None if several may match.

        There is one if the selector requires an object's name and the prefix includes its namespace.
        """
        name = self.fields.exact("metadata.name")
        return f"{prefix}{name}" if name and prefix.count("/") == self.depth else None


def _selection(resource: Resource, labels: str, fields: str) -> ListSelection:
    """Return the parsed label and field selectors. Raises BadRequest if one is malformed."""
    try:
        chosen = parse_labels(labels) if labels else EVERYTHING
        wanted = parse_fields(resource, fields)
    except SelectorError as error:
        raise BadRequest(str(error)) from error
    return ListSelection(chosen, wanted, 2 if resource.namespaced else 1, _matcher(chosen, wanted))


def _matcher(labels: LabelRequirements, fields: FieldSelector) -> Callable[[Any], bool]:
    """Return the function that matches one object.

    Optimized for a single field, which nodes use for every changed pod.
    """
    if labels.everything and len(fields.conditions) == 1:
        (read,), ((_, value, equal),) = fields.readers, fields.conditions
        return lambda obj: (read(obj) == value) is equal
    return lambda obj: labels.matches(obj.metadata.labels) and fields.matches(obj)


_remembered = lru_cache(maxsize=1024)(_selection)


def selection(resource: Resource, options: RequestOptions) -> ListSelection:
    """Return the selectors of a request, cached if they are short.

    Raises BadRequest if a selector is malformed or has too many conditions.
    """
    labels, fields = options.label_selector, options.field_selector
    # not cached for custom resources, because a definition can be deleted
    if len(labels) + len(fields) <= _ORDINARY and resource.custom is None:
        return _remembered(resource, labels, fields)
    for text in (labels, fields):
        if text.count(",") >= _MOST_TERMS:
            raise BadRequest(f"invalid selector: more than {_MOST_TERMS} conditions and values")
    return _selection(resource, labels, fields)


class ContinueExpired(Expired):
    """The state of a continue token is no longer available.

    The token in this error continues the list at the current state.
    """

    def __init__(self, token: str) -> None:
        super().__init__(_CONTINUE_TOO_OLD)
        self.token = token

    def status(self) -> dict[str, Any]:
        """Return the Status with the new continue token."""
        return {**super().status(), "metadata": {"continue": self.token}}


class ContinueToken(msgspec.Struct, frozen=True):
    """Continue token: the next page starts after key `start` at revision `rv` (-1: the current state)."""

    rv: int
    start: str
    v: str = _TOKEN_VERSION

    def text(self) -> str:
        """Return the token in the form that clients receive."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def parse_token(text: str, prefix: str) -> ContinueToken:
    """Return a client's continue token. Raises BadRequest if it is malformed or for another list."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise BadRequest("invalid continue token: continue key is not valid: illegal base64 data") from error
    try:
        token = msgspec.json.decode(data, type=ContinueToken)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        first = data[:1].decode("latin-1")
        words = f"invalid character {first!r} looking for beginning of value" if first != "{" else str(error)
        raise BadRequest(f"invalid continue token: continue key is not valid: {words}") from error
    if token.v != _TOKEN_VERSION or not token.start.startswith(prefix) or token.rv < -1:
        raise BadRequest("invalid continue token: continue key is not valid: not for this list")
    return token


def revision_of(text: str) -> int:
    """Return a resourceVersion as a number.

    Raises BadRequest if the text is not a decimal number of at most 19 digits.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise BadRequest(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def prefix_of(resource: Resource, namespace: str) -> str:
    return f"{resource.prefix}{namespace}/" if namespace and resource.namespaced else resource.prefix


async def list_objects(cache: Cache, request: Request) -> Answer:
    """Return the answer to a list request.

    Raises Expired if its state is no longer available, with a new continue token (ContinueExpired) if the request
    continues a list. Raises BadRequest if the options are invalid.
    """
    options = request.options
    chosen = selection(request.resource, options)
    prefix = prefix_of(request.resource, request.namespace)
    revision, after = await _where(cache, options, prefix)
    try:
        if chosen.everything:
            return _page(cache, prefix, revision, after, options.limit)
        work = _selected(cache, prefix, revision, after, chosen, options.limit)
        return await turns().run(request.user.name, work)
    except RevisionExpired as error:
        if after:
            raise ContinueExpired(ContinueToken(-1, after).text()) from error
        raise Expired(_TOO_OLD) from error


async def _where(cache: Cache, options: RequestOptions, prefix: str) -> tuple[int | None, str]:
    """Return the revision to list at and the key to start after.

    The revision is None for the newest in the cache; the key is "" for the beginning. Waits for the revision if the
    cache has not reached it yet. Raises BadRequest if the options are invalid.
    """
    _check(options)
    if options.continue_token:
        if options.resource_version and options.resource_version != "0":
            raise BadRequest("specifying resource version is not allowed when using continue")
        token = parse_token(options.continue_token, prefix)
        if token.rv == -1:
            return None, token.start
        await fresh(cache, token.rv)
        return token.rv, token.start
    if not options.resource_version:
        await cache.read()
        return None, ""
    revision = revision_of(options.resource_version)
    match = options.resource_version_match or ("Exact" if options.limit and revision else "NotOlderThan")
    await fresh(cache, revision)
    return (revision if match == "Exact" else None), ""


def _check(options: RequestOptions) -> None:
    """Raise OptionsInvalid for list options that Kubernetes rejects."""
    errors = _match_errors(options) if options.resource_version_match else []
    if options.send_initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise OptionsInvalid("ListOptions", errors)


def _match_errors(options: RequestOptions) -> list[FieldError]:
    """Return the errors in resourceVersionMatch."""
    match, errors = options.resource_version_match, list[FieldError]()
    if options.continue_token:
        errors.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"))
    elif not options.resource_version:
        errors.append(
            forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
        )
    if match not in ("Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        errors.append(FieldError("FieldValueNotSupported", "resourceVersionMatch", text))
    if match == "Exact" and options.resource_version == "0":
        errors.append(
            forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        )
    return errors


async def fresh(cache: Cache, revision: int) -> None:
    """Wait until this server has seen a revision. Raises Timeout after three seconds.

    Returns at once if it has seen the revision already.
    """
    if cache.revision >= revision:
        return
    try:
        await cache.wait_for(revision, _FRESH_SECONDS)
    except TimeoutError as error:
        raise too_large(revision, cache.revision) from error


def too_large(revision: int, current: int) -> ApiError:
    """Return the Timeout error for a revision that the server has not seen."""
    return Timeout(
        f"Too large resource version: {revision}, current: {current}",
        causes=[{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        retryAfterSeconds=1,
    )


def _page(cache: Cache, prefix: str, revision: int | None, after: str, limit: int) -> Answer:
    """Return one page of a list without selectors, with a continue token if more objects follow."""
    page = cache.list(prefix, revision=revision, after=after, limit=limit or None)
    versions, remaining = page.versions, page.remaining
    answer = Answer(versions=versions, revision=page.revision)
    if remaining:
        answer.remaining = remaining
        answer.continue_token = ContinueToken(page.revision, versions[-1].key).text()
    return answer


def _selected(
    cache: Cache, prefix: str, revision: int | None, after: str, chosen: ListSelection, limit: int
) -> Generator[None, None, Answer]:
    """Return one page of a list with selectors, at one revision. A generator that yields between batches of objects.

    `revision` None is the newest one. A `limit` of 0 is no limit. The continue token is empty on the last page.
    """
    key = chosen.key(prefix)
    if key is not None and revision is None:  # `kubectl get -w NAME` and kubelets list single objects this way
        one = cache.get(key)
        return Answer(versions=[one] if one is not None and chosen.matches(one.object) else [], revision=cache.revision)
    page = cache.list(prefix, revision=revision, after=after)
    found: list[KeyVersion] = []
    token = ""
    for some in batched(page.versions, _SOME):
        found += [version for version in some if chosen.matches(version.object)]
        if limit and len(found) > limit:
            token = ContinueToken(page.revision, found[limit - 1].key).text()
            found = found[:limit]
            break
        yield
    return Answer(versions=found, revision=page.revision, continue_token=token)


def name_of(version: KeyVersion) -> str:
    return cast(Any, version.object).metadata.name  # type: ignore[no-any-return]  # every stored type has it
