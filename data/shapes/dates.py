"""Parts of dates, which are days since 1970, as expressions: year, month, weekday, day of the year, hour. By the
calendar of today, for all times; how dates are read is in `data.notation`.
"""

from __future__ import annotations

import math

from shoal.data.shapes.expression import Expression, X, floor, minus, over, plus, times

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
YEAR = 365.25  # days of a round of the cyclic day of the year

_DAY = floor(X)
# Years that begin with March have their odd day at the end, and months follow from days by a straight line.
_FROM_MARCH = plus(_DAY, 719468.0)  # days since 1 March of the year 0
_QUARTERS = plus(times(4.0, _FROM_MARCH), 3.0)
_CENTURY = floor(over(_QUARTERS, 146097.0))
_IN_CENTURY = plus(times(4.0, floor(over(minus(_QUARTERS, times(146097.0, _CENTURY)), 4.0))), 3.0)
_YEAR = floor(over(_IN_CENTURY, 1461.0))
_IN_YEAR = floor(over(minus(_IN_CENTURY, times(1461.0, _YEAR)), 4.0))  # days since 1 March
_MONTH = floor(over(plus(times(5.0, _IN_YEAR), 461.0), 153.0))  # 3 to 14
_LATE = floor(over(minus(_MONTH, 1.0), 12.0))  # 1 in January and February, else 0

month: Expression = minus(_MONTH, times(12.0, _LATE))
year: Expression = plus(plus(times(100.0, _CENTURY), _YEAR), _LATE)
weekday: Expression = minus(plus(_DAY, 3.0), times(7.0, floor(over(plus(_DAY, 3.0), 7.0))))  # 0 is a Monday
# The time of day is a part of a day, which is rounded: some 30 microseconds more, or 7:00 could be before 7.
_LATER = plus(X, 4e-10)
hour: Expression = floor(times(24.0, minus(_LATER, floor(_LATER))))


def _new_year(y: Expression) -> Expression:
    """The days of 1 January since 1970."""
    before = minus(y, 1.0)
    leaps = plus(minus(floor(over(before, 4.0)), floor(over(before, 100.0))), floor(over(before, 400.0)))
    return plus(minus(times(365.0, minus(y, 1970.0)), 477.0), leaps)


day_of_year: Expression = plus(minus(_DAY, _new_year(year)), 1.0)
_ANGLE = times(2 * math.pi / YEAR, day_of_year)
sine: Expression = ("sin", _ANGLE)
cosine: Expression = ("sin", plus(_ANGLE, math.pi / 2))
