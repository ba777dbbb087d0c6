"""What came of all cases: how many answers are the same, valid but different, wrong, or skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from dray.allocatorkit.judging import AnswerStanding, AnswerVerdict


class AllocatorReport(msgspec.Struct, frozen=True):
    """The verdicts about the answers of one allocator."""

    verdicts: list[AnswerVerdict]

    @property
    def counts(self) -> Counter[AnswerStanding]:
        """Number of answers by standing."""
        return Counter(one.standing for one in self.verdicts)

    def passed(self, *, exact: bool = False) -> bool:
        """Whether no answer is wrong; with `exact`, whether each is the same as that of Kubernetes."""
        counts = self.counts
        return (
            bool(self.verdicts)
            and not counts[AnswerStanding.WRONG]
            and not (exact and counts[AnswerStanding.DIFFERENT])
        )

    def lines(self, most: int = 20) -> Iterator[str]:
        """The report as text, with so many cases of each standing that is not the same."""
        for standing in (AnswerStanding.WRONG, AnswerStanding.DIFFERENT, AnswerStanding.SKIPPED):
            found = [one for one in self.verdicts if one.standing is standing]
            yield from (f"{standing}: {one.id}: {one.why}" for one in found[:most])
            if len(found) > most:
                yield f"{standing}: {len(found) - most} more"
        counted = ", ".join(f"{self.counts[standing]:,} {standing}" for standing in AnswerStanding)
        yield f"{len(self.verdicts):,} cases: {counted}"
