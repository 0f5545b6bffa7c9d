"""A share with the 95 % interval in which the true one lies, by Wilson's score: right for few trials and near 0 and 1,
where the usual p ± 1.96 s is not (E. B. Wilson, 1927)."""

from __future__ import annotations

import math
from dataclasses import dataclass

Z = 1.959964  # of 95 %, two-sided


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`; `value`, `low` and `high` are between 0 and 1. Without trials nothing is known: 0 to 1."""

    count: int
    of: int
    value: float
    low: float
    high: float


def share(count: int, of: int) -> Share:
    """Raises ValueError for a count that is not between 0 and `of`."""
    if not 0 <= count <= of:
        raise ValueError(f"{count} of {of} is not a share")
    if not of:
        return Share(0, 0, 0.0, 0.0, 1.0)
    value = count / of
    middle = value + Z**2 / (2 * of)
    reach = Z * math.sqrt(value * (1 - value) / of + (Z / (2 * of)) ** 2)
    whole = 1 + Z**2 / of
    # The interval has the share in it, also where rounding says otherwise by 1e-16.
    return Share(count, of, value, min(value, max(0.0, (middle - reach) / whole)), max(value, (middle + reach) / whole))
