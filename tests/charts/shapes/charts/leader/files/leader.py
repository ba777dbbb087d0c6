"""Holds a Lease, or waits until nobody does: leader election with nothing but the standard library."""

import datetime
import json
import os
import ssl
import time
import urllib.error
import urllib.request

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
HOST, PORT = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
LEASES = f"https://{HOST}:{PORT}/apis/coordination.k8s.io/v1/namespaces/{os.environ['NAMESPACE']}/leases"
SECONDS = 2


def ask(method, url, body=None):
    with open(f"{ACCOUNT}/token") as file:
        headers = {"Authorization": f"Bearer {file.read()}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, headers, method=method)
    trust = ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt")
    with urllib.request.urlopen(request, context=trust, timeout=10) as answer:
        return json.load(answer)


def now():
    return datetime.datetime.now(datetime.UTC)


def spec():
    return {
        "holderIdentity": os.environ["POD"],
        "leaseDurationSeconds": SECONDS,
        "renewTime": now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }


def attempt():
    try:
        lease = ask("GET", f"{LEASES}/leader")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return ask("POST", LEASES, {"metadata": {"name": "leader"}, "spec": spec()})
    told = datetime.datetime.fromisoformat(lease["spec"]["renewTime"].replace("Z", "+00:00"))
    if lease["spec"]["holderIdentity"] == os.environ["POD"] or (now() - told).total_seconds() > SECONDS:
        ask("PUT", f"{LEASES}/leader", {**lease, "spec": {**lease["spec"], **spec()}})
    return None


while True:
    try:
        attempt()
    except OSError as error:  # somebody else was faster, or the server is away
        print(error, flush=True)
    time.sleep(0.3)
