"""ValidatingWebhookConfiguration: webhooks that can reject requests."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number
from dray.api.kind import API_EXTENSIONS, KindRules, Resource
from dray.api.matching import webhook_defaults
from dray.api.types import admissionregistration

KIND = Resource(
    admissionregistration.ValidatingWebhookConfiguration,
    namespaced=False,
    categories=API_EXTENSIONS,
    columns=(NAME, number("Webhooks", lambda configuration: len(configuration.webhooks)), AGE),
    generation=("webhooks",),
    conditional=("v1",),
    rules=KindRules(order=("metadata", "rules", "changes"), any_finalizer=True),
    defaults=webhook_defaults(),
)
