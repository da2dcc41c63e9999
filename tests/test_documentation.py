"""What the documentation says can be done, is done here."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from client.cli import app
from client.model_file import read_model
from service.wire.model import ModelSpec
from tests.conftest import ROOT, DemoRun

MODELS = sorted((ROOT / "examples" / "models").glob("*.yaml"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def options_of(command: str) -> set[str]:
    """The long options that a subcommand's help names."""
    help_text = CliRunner().invoke(app, [command, "--help"]).output
    return set(re.findall(r"--[a-z][a-z-]+", help_text))


def test_the_example_of_an_own_likelihood_runs_and_learns(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(blocks(ROOT / "docs" / "likelihoods.md", "python"))
    namespace: dict[str, object] = {}
    exec(compile(code, "docs/likelihoods.md", "exec"), namespace)
    learned, true = re.findall(r"\[([\d. ]+)\]", capsys.readouterr().out)
    assert [float(rate) for rate in learned.split()] == pytest.approx([float(rate) for rate in true.split()], rel=0.15)


def test_every_option_of_fit_and_weights_is_documented_and_none_is_invented() -> None:
    text = (ROOT / "docs" / "fit.md").read_text()
    documented = set(re.findall(r"--[a-z][a-z-]+", text))
    for command in ("fit", "weights"):
        missing = options_of(command) - documented - {"--help"}
        assert not missing, f"docs/fit.md does not name {missing}"
    assert documented <= options_of("fit") | options_of("weights")


def test_every_option_of_the_dashboard_is_documented_and_none_is_invented() -> None:
    documented = set(re.findall(r"`(--[a-z][a-z-]+)", (ROOT / "docs" / "dashboard.md").read_text()))
    assert documented == options_of("dashboard") - {"--help"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_delbo_command_in_the_documentation_exists(path: Path) -> None:
    """Commands are parsed, not run: their options must exist; `make test` runs the demo and the fits elsewhere."""
    for block in blocks(path, ""):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True) if line.startswith((".venv/bin/delbo", "delbo ")) else []
            if words and "[options]" not in words:
                assert {word for word in words if word.startswith("--")} <= options_of(words[1]), line


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_the_documentation_links_to_exists(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_document_holds_a_place_that_was_to_be_filled(path: Path) -> None:
    assert not re.search(r"^[A-Z_]{5,}$", path.read_text(), re.MULTILINE)


def test_the_readme_shows_what_the_demo_prints(demo: DemoRun) -> None:
    """To the last digit, but for the seconds, the folder, and how nearly the agents agree."""

    def rows(text: str) -> list[list[str]]:
        found = re.findall(r"^(?:agent-\d|one agent) .*", text, re.MULTILINE)
        return [line.split()[:7] for line in found]

    shown = next(block for block in blocks(ROOT / "README.md", "") if "together" in block)
    assert len(rows(shown)) == 9
    assert rows(shown) == rows(demo.printed)


def test_every_make_target_in_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", "\n".join(blocks(ROOT / "README.md", "")), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_example_model_is_valid(path: Path) -> None:
    assert isinstance(read_model(path), ModelSpec)
