"""What holds for every test: generated examples are the same in every run, and a slow machine is no failure.

`--hypothesis-profile=search` looks for new examples, as many again and again as one likes.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("search", deadline=None, suppress_health_check=SLOW)
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.load_profile("same")
