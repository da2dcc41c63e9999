"""The page that explains problems to users names exactly those that agents answer with."""

import re

from service.api.problems import KINDS
from tests.processes import ROOT

PAGE = (ROOT / "docs" / "problems.md").read_text()
ROWS = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)


def test_the_page_and_the_code_name_the_same_problems_with_the_same_statuses() -> None:
    assert [(slug, int(status)) for slug, status, _, _ in ROWS] == sorted(
        ((kind.slug, kind.status) for kind in KINDS.values()), key=lambda row: (row[1], row[0])
    )


def test_every_line_of_the_table_is_a_problem() -> None:
    """So that a row with a typing error is not overlooked."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(lines) == len(ROWS) == len(KINDS)


def test_the_page_tells_where_waiting_is_told_in_the_answer() -> None:
    """`Retry-After` goes with every 429 and 503, and with nothing else."""
    assert {kind.slug for kind in KINDS.values() if kind.retry_after_s} == {
        slug for slug, status, _, _ in ROWS if status in ("429", "503")
    }
