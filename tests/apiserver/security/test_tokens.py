"""Service account tokens: real signatures, and belief that ends with what they are bound to."""

from pathlib import Path
from typing import Any

import jwt
import pytest

from dray.api.errors import BadRequest, Conflict, Invalid, NotFound
from dray.api.types.core import Node, Pod, ServiceAccount
from dray.api.users import CREDENTIAL_ID, NODE_NAME, NODE_UID, POD_NAME, POD_UID
from dray.apiserver.read.reader import one
from dray.apiserver.security.certificates import Keys
from dray.apiserver.security.tokens import ISSUER, TokenAuthority, TokenInvalid
from tests.apiserver.reading import Objects, account, node, pod


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def signing_key(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return Keys.open(tmp_path_factory.mktemp("keys")).signing_key


@pytest.fixture
def objects() -> Objects:
    return Objects(account("robot"), node("n1"), pod("p", node="n1", serviceAccountName="robot"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(objects: Objects, signing_key: bytes, clock: Clock) -> TokenAuthority:
    return TokenAuthority(objects, signing_key, clock=clock)


def ask(tokens: TokenAuthority, name: str = "robot", **spec: Any) -> dict[str, Any]:
    tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return tokens.request("default", name, tree)


def bound_to_pod(objects: Objects) -> dict[str, str]:
    found = one(objects, Pod, "default", "p")
    assert found
    return {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": found.metadata.uid}


def test_token_names_its_account(tokens: TokenAuthority) -> None:
    user, audiences = tokens.verify(ask(tokens)["status"]["token"])
    assert user.name == "system:serviceaccount:default:robot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert user.uid
    assert user.extra[CREDENTIAL_ID][0].startswith("JTI=")
    assert audiences == (ISSUER,)


def test_token_bound_to_a_pod_names_pod_and_node(tokens: TokenAuthority, objects: Objects) -> None:
    answer = ask(tokens, boundObjectRef=bound_to_pod(objects))
    user, _ = tokens.verify(answer["status"]["token"])
    assert user.extra[POD_NAME] == ("p",)
    assert user.extra[NODE_NAME] == ("n1",)
    assert user.extra[POD_UID]
    assert user.extra[NODE_UID]


def test_answer_repeats_the_spec_with_defaults(tokens: TokenAuthority) -> None:
    answer = ask(tokens, audiences=["vault"], expirationSeconds=7200)
    assert answer["spec"] == {"audiences": ["vault"], "expirationSeconds": 7200, "boundObjectRef": None}
    assert answer["status"]["expirationTimestamp"] == "2027-01-15T10:00:00Z"
    assert ask(tokens)["spec"]["expirationSeconds"] == 3600


@pytest.mark.parametrize("used_before", [True, False])
def test_token_expires(tokens: TokenAuthority, clock: Clock, used_before: bool) -> None:
    token = ask(tokens, expirationSeconds=600)["status"]["token"]
    if used_before:
        tokens.verify(token)
    clock.now += 600
    with pytest.raises(TokenInvalid, match="expired"):
        tokens.verify(token)


def test_token_is_void_when_the_account_is_gone_or_another(tokens: TokenAuthority, objects: Objects) -> None:
    token = ask(tokens)["status"]["token"]
    tokens.verify(token)
    objects.remove(ServiceAccount, "default", "robot")
    with pytest.raises(TokenInvalid, match="account is gone"):
        tokens.verify(token)
    objects.put(account("robot"))
    with pytest.raises(TokenInvalid, match="account is gone"):
        tokens.verify(token)


def test_token_is_void_when_its_pod_is_gone(tokens: TokenAuthority, objects: Objects) -> None:
    token = ask(tokens, boundObjectRef=bound_to_pod(objects))["status"]["token"]
    tokens.verify(token)
    objects.remove(Pod, "default", "p")
    with pytest.raises(TokenInvalid, match="pod"):
        tokens.verify(token)


def test_token_of_a_pod_is_void_for_a_pod_that_got_its_name(tokens: TokenAuthority, objects: Objects) -> None:
    token = ask(tokens, boundObjectRef=bound_to_pod(objects))["status"]["token"]
    tokens.verify(token)
    objects.put(pod("p", node="n1", serviceAccountName="robot"))
    with pytest.raises(TokenInvalid, match="the pod that the token is bound to is gone"):
        tokens.verify(token)
    tokens.verify(ask(tokens, boundObjectRef=bound_to_pod(objects))["status"]["token"])


def test_token_is_void_when_its_node_is_gone(tokens: TokenAuthority, objects: Objects) -> None:
    token = ask(tokens, boundObjectRef={"apiVersion": "v1", "kind": "Node", "name": "n1"})["status"]["token"]
    assert tokens.verify(token)[0].extra[NODE_NAME] == ("n1",)
    objects.remove(Node, "", "n1")
    with pytest.raises(TokenInvalid, match="node"):
        tokens.verify(token)


def test_token_of_a_node_is_void_for_a_node_that_got_its_name(tokens: TokenAuthority, objects: Objects) -> None:
    bound = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    token = ask(tokens, boundObjectRef=bound)["status"]["token"]
    tokens.verify(token)
    objects.put(node("n1"))
    with pytest.raises(TokenInvalid, match="the node that the token is bound to is gone"):
        tokens.verify(token)
    tokens.verify(ask(tokens, boundObjectRef=bound)["status"]["token"])


def test_token_for_another_audience_is_not_believed(tokens: TokenAuthority) -> None:
    token = ask(tokens, audiences=["vault", "other"])["status"]["token"]
    with pytest.raises(TokenInvalid, match="somebody else"):
        tokens.verify(token)
    assert tokens.verify(token, ["vault"])[1] == ("vault",)


def forged(payload: dict[str, Any], key: Any, algorithm: str) -> str:
    return jwt.encode(payload, key, algorithm=algorithm)


def test_forged_tokens_are_not_believed(tokens: TokenAuthority, tmp_path: Path, signing_key: bytes) -> None:
    token = ask(tokens)["status"]["token"]
    payload = jwt.decode(token, options={"verify_signature": False})
    header, body, signature = token.split(".")
    other_key = Keys.open(tmp_path).signing_key
    wrong_issuer = {**payload, "iss": "https://elsewhere"}
    nameless = {key: value for key, value in payload.items() if key != "kubernetes.io"}
    attempts = [
        forged(payload, other_key, "ES256"),
        forged(payload, None, "none"),
        forged(payload, "x" * 32, "HS256"),
        forged(wrong_issuer, signing_key, "ES256"),
        forged(nameless, signing_key, "ES256"),
        f"{header}.{body}.{signature[:-4]}AAAA",
        f"{header}.{body}x.{signature}",
        "a.b.c",
        "..",
    ]
    for attempt in attempts:
        with pytest.raises(TokenInvalid):
            tokens.verify(attempt)
    tokens.verify(token)


@pytest.mark.parametrize(("seconds", "text"), [(599, "less than 10 minutes"), (2**32 + 1, "larger than 2^32 seconds")])
def test_durations_have_bounds(tokens: TokenAuthority, seconds: int, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        ask(tokens, expirationSeconds=seconds)
    assert caught.value.message == (
        f'TokenRequest.authentication.k8s.io "robot" is invalid: spec.expirationSeconds: Invalid value: {seconds}: '
        f"may not specify a duration {text}"
    )


def test_requests_that_make_no_sense_are_refused(tokens: TokenAuthority, objects: Objects) -> None:
    objects.put(pod("other", serviceAccountName="default"))
    with pytest.raises(NotFound, match='serviceaccounts "nobody" not found'):
        ask(tokens, "nobody")
    with pytest.raises(NotFound, match='pods "nope" not found'):
        ask(tokens, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "nope"})
    with pytest.raises(Conflict, match="does not match the UID in record"):
        ask(tokens, boundObjectRef={**bound_to_pod(objects), "name": "p", "uid": "wrong"})
    with pytest.raises(BadRequest, match="different serviceaccount name"):
        ask(tokens, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "other"})
    with pytest.raises(BadRequest, match="cannot bind token"):
        ask(tokens, boundObjectRef={"apiVersion": "v1", "kind": "ConfigMap", "name": "x"})
    with pytest.raises(BadRequest, match="cannot be decoded"):
        ask(tokens, expirationSeconds="soon")


def test_many_tokens_do_not_fill_the_memory(tokens: TokenAuthority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.apiserver.security.tokens.REMEMBERED", 2)
    issued = [ask(tokens)["status"]["token"] for _ in range(4)]
    for token in issued + issued:
        tokens.verify(token)
    assert len(tokens._verified) == 2
