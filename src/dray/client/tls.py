"""How far certificates are judged: as far as Kubernetes judges them, whatever the Python."""

from __future__ import annotations

import ssl


def as_kubernetes(context: ssl.SSLContext) -> ssl.SSLContext:
    """The same context, content with certificates that lack the identifiers of their keys.

    Python 3.13 began to refuse those by default. Authorities of many clusters and webhooks lack them, and Go's clients
    never asked for them.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
