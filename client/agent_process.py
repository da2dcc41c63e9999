"""From here on this process is an agent."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def become_agent(options: Sequence[str]) -> NoReturn:
    """Run `python -m service` in place of this program. -P: a folder of the user's called service is not in its way."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "service", *options])  # noqa: S606 - this very interpreter
