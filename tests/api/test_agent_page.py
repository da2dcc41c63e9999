"""The commands of docs/agent.md, as a user types them."""

import re
import shutil
import subprocess

import pytest

from tests.processes import ROOT, Agents

PAGE = (ROOT / "docs" / "agent.md").read_text()


def test_the_commands_of_the_page_work_one_after_the_other(agents: Agents) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: the commands of docs/agent.md were not tried")
    agent = agents("a1")
    commands = "\n".join(re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    assert commands.count("curl ") >= 10
    script = "set -euo pipefail\n" + commands.replace("curl ", "curl -sS --fail ").replace("localhost:8001", agent.url)
    finished = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    told = re.search(r"The answer is `(.*?)`", PAGE)
    assert told is not None
    assert told[1].replace(" ", "") in finished.stdout
    assert agent.status()["observations"]["collected"] == 5
    assert agent.status()["observations"]["ended"] is False  # what came without a client has not been ended


def test_every_field_of_the_schedule_is_on_the_page(agents: Agents) -> None:
    fields = set(agents("a1").status()["schedule"]) - {"revision"}
    assert not [name for name in fields if f"`{name}`" not in PAGE]
