"""The clock that deadlines are counted on.

It counts the time that the machine is suspended, where the system has such a clock: a laptop that slept through a
lease must not wake up believing that it still holds it.
"""

import time

__all__ = ["now"]

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Seconds since some fixed moment, suspended time included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now() -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()
