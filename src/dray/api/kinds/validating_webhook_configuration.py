"""ValidatingWebhookConfiguration: webhooks that may refuse requests."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number
from dray.api.kind import ADMISSION, API_EXTENSIONS, Resource
from dray.api.types import admissionregistration

KIND = Resource(
    ADMISSION,
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    admissionregistration.ValidatingWebhookConfiguration,
    namespaced=False,
    categories=API_EXTENSIONS,
    columns=(
        NAME,
        number("Webhooks", lambda configuration: len(configuration.webhooks)),
        AGE,
    ),
)
