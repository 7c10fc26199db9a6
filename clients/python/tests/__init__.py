"""Tests of the client, most of them against the real ``bell up``."""

import logging

# What is lost on purpose, and loops that a busy machine holds up, need not be told.
logging.getLogger("bellwether").addHandler(logging.NullHandler())
logging.getLogger("asyncio").setLevel(logging.ERROR)
