"""TLS verification as lenient as in Kubernetes, independent of the Python version."""

from __future__ import annotations

import ssl


def as_kubernetes(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return the same context, changed to accept certificates without key identifiers.

    Python 3.13 rejects these by default, but the CAs of many clusters and webhooks lack them, and Go does not
    require them.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
