"""Summary of all cases: how many answers are the same, different but valid, wrong, or skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from dray.allocatorkit.judging import AnswerStanding, AnswerVerdict


class AllocatorReport(msgspec.Struct, frozen=True):
    """Verdicts about the answers of one allocator."""

    verdicts: list[AnswerVerdict]

    @property
    def counts(self) -> Counter[AnswerStanding]:
        """Number of answers by standing."""
        return Counter(one.standing for one in self.verdicts)

    def passed(self, *, exact: bool = False) -> bool:
        """Whether there are answers and none is wrong; with `exact`, whether none differs from Kubernetes."""
        counts = self.counts
        return (
            bool(self.verdicts)
            and not counts[AnswerStanding.WRONG]
            and not (exact and counts[AnswerStanding.DIFFERENT])
        )

    def lines(self, most: int = 20) -> Iterator[str]:
        """Yield the report as text, with up to `most` cases of each standing other than same."""
        for standing in (AnswerStanding.WRONG, AnswerStanding.DIFFERENT, AnswerStanding.SKIPPED):
            found = [one for one in self.verdicts if one.standing is standing]
            yield from (f"{standing}: {one.id}: {one.why}" for one in found[:most])
            if len(found) > most:
                yield f"{standing}: {len(found) - most} more"
        counted = ", ".join(f"{self.counts[standing]:,} {standing}" for standing in AnswerStanding)
        yield f"{len(self.verdicts):,} cases: {counted}"
