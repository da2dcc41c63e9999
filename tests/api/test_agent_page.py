"""The commands of docs/agent.md and docs/asking.md, as a user types them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import ROOT, AgentProcess, Agents

PAGE = (ROOT / "docs" / "agent.md").read_text()
ASKING = (ROOT / "docs" / "asking.md").read_text()


def typed(page: str, agent: AgentProcess, folder: Path) -> str:
    """What the page's commands print, one after the other; but for events, which have no end."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: the commands of docs/agent.md and docs/asking.md were not tried")
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = "\n".join(block for block in blocks if "curl -N" not in block)
    script = "set -euo pipefail\n" + commands.replace("curl ", "curl -sS --fail ").replace("localhost:8001", agent.url)
    finished = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, cwd=folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_the_commands_of_the_pages_work_one_after_the_other(agents: Agents, tmp_path: Path) -> None:
    agent = agents("a1")
    assert PAGE.count("curl ") >= 10
    printed = typed(PAGE, agent, tmp_path)
    told = re.search(r"The answer is `(.*?)`", PAGE)
    assert told is not None
    assert told[1].replace(" ", "") in printed
    assert agent.status()["observations"]["collected"] == 6
    assert agent.status()["observations"]["ended"] is False  # what came without a client has not been ended
    printed = typed(ASKING, agent, tmp_path)
    assert '"probability":[' in printed
    assert '"every_rounds":10' in printed
    assert {".png", ".npz", ".zip"} <= {path.suffix for path in tmp_path.iterdir()}


def test_every_field_of_the_schedule_is_on_the_page(agents: Agents) -> None:
    fields = set(agents("a1").status()["schedule"]) - {"revision"}
    assert not [name for name in fields if f"`{name}`" not in PAGE]
