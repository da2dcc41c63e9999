"""Networks in containers: what `delbo compose` writes is what it was asked for, and closed to everybody else."""

import re
import resource
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from client.commands.app import app
from client.containers import COMPOSE_FILE, NETWORK_FILE, OURS, Containers
from client.demo_world import DEMO_WORLD
from client.network.plan import load_plan
from client.network.sources import WorldSource
from service.wire.roles import ROLES
from service.wire.tokens import read_tokens
from tests.conftest import ROOT, Delbo

AGAIN = "write them anew: python -m client.containers"


@pytest.fixture
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Robots that hardly look: for tests that do not look at the map."""
    monkeypatch.setitem(DEMO_WORLD, "scans_per_robot", 2)
    monkeypatch.setitem(DEMO_WORLD, "beams", 8)


def parsed(containers: Containers) -> Any:
    return yaml.safe_load(containers.compose_file())


def tree(folder: Path) -> dict[str, str | None]:
    """All that is below a folder."""
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


# This project's own.


def test_our_files_are_those_that_would_be_written() -> None:
    assert (ROOT / COMPOSE_FILE).read_text(encoding="utf-8") == OURS.compose_file(), AGAIN
    assert (ROOT / "docker" / NETWORK_FILE).read_text(encoding="utf-8") == OURS.network_file(), AGAIN
    mounts = parsed(OURS)["services"]["coordinator"]["volumes"]
    assert f"./docker/{NETWORK_FILE}:/etc/delbo/{NETWORK_FILE}:ro" in mounts


def test_the_images_version_is_the_projects() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    services = yaml.safe_load((ROOT / COMPOSE_FILE).read_text())["services"]
    alone = yaml.safe_load((ROOT / "docker" / "agent.yml").read_text())["services"]
    assert {service["image"] for service in [*services.values(), *alone.values()]} == {f"delbo:{version}"}
    in_image = re.findall(r"^ARG VERSION=(.*)$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    assert set(in_image) == {version}


def test_the_image_installs_nothing_that_is_not_pinned_by_its_hash() -> None:
    recipe = (ROOT / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip --python \S+ install [^&]*", recipe)
    assert len(installs) == 3
    for install in installs:  # all but the project's own wheel, built there, for which nothing may be fetched
        assert "--require-hashes" in install or "--no-deps --no-index dist/" in install


# Whatever is asked for.

odd_names = st.text("ab 'Ü\"#:{}[]&*%!\\\n,|>-", min_size=1, max_size=8).filter(lambda name: set(name) != {"."})
images = st.sampled_from([None, "delbo:1", "localhost:5000/team/delbo", "example.org/delbo@sha256:" + "0a" * 32])


@given(
    agents=st.integers(2, 16),
    topology=st.sampled_from(["ring", "line", "star", "complete", "grid", "random"]),
    secrets=st.none() | odd_names,
    publish=st.none() | st.integers(1, 65_000),
    image=images,
    above=odd_names,
)
def test_every_container_is_closed_and_finds_what_it_uses(
    agents: int, topology: str, secrets: str | None, publish: int | None, image: str | None, above: str
) -> None:
    folder = Path("/nowhere") / above / "small"  # nothing is written here
    tokens = None if secrets is None else Path("/nowhere") / secrets
    containers = Containers(folder, agents, topology, name="small", image=image, secrets=tokens, publish=publish)
    document = parsed(containers)
    services = document["services"]
    names = [f"agent-{number}" for number in range(1, agents + 1)]
    assert set(services) == {*names, "coordinator", "dashboard", *(["tokens"] if tokens is None else [])}
    assert document["networks"]["inside"] == {"internal": True}
    for name, service in services.items():
        check_closed(service)
        check_declared(service, document)
        check_environment(name, service)
        assert service["image"] == (image or services["coordinator"]["image"])
        built = "build" in service
        assert service.get("pull_policy") == ("missing" if built else "never" if image is None else None)
    builders = [service["build"] for service in services.values() if "build" in service]
    assert len(builders) == (image is None)  # engines build for all services at once, and the same image only once
    for build in builders:
        assert (folder / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).is_file()
    for number, name in enumerate(names):
        ports = [] if publish is None else [f"127.0.0.1:{publish + number}:8001"]
        assert services[name].get("ports", []) == ports
        assert f"{name}:/data" in services[name]["volumes"]
        assert services[name]["networks"] == ["inside", *(["outside"] if ports else [])]
        assert name in document["volumes"]
    for name in {"coordinator", "tokens"} & set(services):
        assert "ports" not in services[name]
        assert services[name]["networks"] == ["inside"]
    assert services["dashboard"]["ports"] == ["127.0.0.1:${DELBO_DASHBOARD_PORT:-8080}:8080"]
    assert "--read-only" in services["dashboard"]["command"]  # it asks nobody who they are
    if tokens is None:
        assert "secrets" not in document
    else:
        assert services["dashboard"]["secrets"] == ["ingest", "read"]
        files = {role: (folder / secret["file"]).resolve() for role, secret in document["secrets"].items()}
        assert files == {role: tokens / role for role in ROLES}


def check_closed(service: dict[str, Any]) -> None:
    """It can write nowhere but where it must, become nobody else, and take no more than its share."""
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert 0 < service["pids_limit"] <= 1000
    assert service["mem_limit"] in ("512m", "1g")
    assert service["restart"] in ("unless-stopped", "on-failure")
    assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices", "user"} & set(service)
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")


def check_declared(service: dict[str, Any], document: dict[str, Any]) -> None:
    """Volumes, secrets, networks and services that it names are there; the one file from outside cannot be changed."""
    sources = [mount.split(":")[0] for mount in service["volumes"]]
    assert {source for source in sources if source[0] != "."} <= set(document["volumes"])
    assert [mount for mount in service["volumes"] if mount[0] == "."] in (
        [],
        [f"./{NETWORK_FILE}:/etc/delbo/{NETWORK_FILE}:ro"],
    )
    assert set(service["networks"]) <= set(document["networks"])
    assert set(service.get("depends_on", {})) <= set(document["services"])
    with_secrets = service.get("secrets", [])
    assert set(with_secrets) <= set(document.get("secrets", {}))
    assert with_secrets or any(mount.split(":")[1] == "/run/secrets" for mount in service["volumes"])
    assert service["command"][0] in {command.name for command in app.registered_commands}


def check_environment(name: str, service: dict[str, Any]) -> None:
    """Where the tokens are, and never a token."""
    expected = {"DELBO_TOKENS": "/run/secrets", **({"DELBO_NAME": name} if name.startswith("agent-") else {})}
    assert service.get("environment", {}) == ({} if name == "tokens" else expected)
    assert "env_file" not in service


def test_only_who_makes_the_tokens_may_write_them() -> None:
    for name, service in parsed(OURS)["services"].items():
        [mount] = [mount for mount in service["volumes"] if mount.startswith("tokens:")]
        assert mount == ("tokens:/run/secrets" if name == "tokens" else "tokens:/run/secrets:ro")


@pytest.mark.parametrize("name", ["2024", "null", "1e5", "12_3", "0x1f", "true"])
def test_a_name_is_a_text_also_where_it_looks_like_something_else(name: str) -> None:
    assert parsed(Containers(Path(name), name=name))["name"] == name


@pytest.mark.parametrize("image", ["123456789012", "12345678e901"])
def test_an_image_may_be_named_by_digits(image: str) -> None:
    services = parsed(Containers(Path("small"), image=image))["services"]
    assert {service["image"] for service in services.values()} == {image}


def test_a_dollar_in_a_path_is_no_variable() -> None:
    """Compose puts variables in wherever it finds one dollar, and takes two of them for one."""
    containers = Containers(Path("/nowhere/small"), secrets=Path("/nowhere/$HOME"))
    files = [secret["file"] for secret in parsed(containers)["secrets"].values()]
    assert [file.replace("$$", "") for file in files] == [f"./../HOME/{role}" for role in ROLES]


# The network's file.

LINKS = {
    "ring": "12 23 34 41",
    "line": "12 23 34",
    "star": "12 13 14",
    "complete": "12 13 14 23 24 34",
    "grid": "12 34 13 24",
}


@pytest.mark.usefixtures("small_world")
@pytest.mark.parametrize("topology", [*LINKS, "random"])
def test_the_networks_file_has_the_graph_and_the_agents_by_their_services(tmp_path: Path, topology: str) -> None:
    containers = Containers(tmp_path, topology=topology, seed=7, name="small")
    (tmp_path / NETWORK_FILE).write_text(containers.network_file())
    plan = load_plan(tmp_path / NETWORK_FILE)
    names = [f"agent-{number}" for number in range(1, 5)]
    assert plan.document.name == "small"
    assert [(agent.name, agent.url) for agent in plan.document.agents] == [
        (name, f"http://{name}:8001") for name in names
    ]
    assert set(names) <= set(parsed(containers)["services"])
    [world] = plan.document.data
    assert isinstance(world, WorldSource)
    assert world.seed == 7
    assert len(plan.parts) == 4
    assert min(len(rows) for rows in plan.parts) > 0
    if topology in LINKS:
        links = {(int(link[0]) - 1, int(link[1]) - 1) for link in LINKS[topology].split()}
        assert plan.graph.edges == links | {(end, begin) for begin, end in links}


# The command.


@pytest.mark.usefixtures("small_world")
def test_compose_writes_both_files_and_again_over_its_own(delbo_here: Delbo, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s a "place"' / "small"
    done = delbo_here("compose", "--out", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"wrote {folder / NETWORK_FILE} {folder / COMPOSE_FILE}\n")
    assert set(tree(folder)) == {NETWORK_FILE, COMPOSE_FILE}
    document = yaml.safe_load((folder / COMPOSE_FILE).read_text())
    assert document["name"] == "small"
    assert (folder / document["services"]["tokens"]["build"]["context"]).resolve() == ROOT
    assert len(load_plan(folder / NETWORK_FILE).names) == 4

    secrets = tmp_path / "the 'tokens'"
    done = delbo_here("compose", "--out", folder, "--agents", 2, "--secrets", secrets, "--publish", 65_534)
    assert (done.returncode, done.stderr) == (0, "")
    document = yaml.safe_load((folder / COMPOSE_FILE).read_text())
    assert len(load_plan(folder / NETWORK_FILE).names) == 2
    assert document["services"]["agent-2"]["ports"] == ["127.0.0.1:65535:8001"]
    for role in ROLES:
        assert (folder / document["secrets"][role]["file"]).samefile(secrets / role)
    tokens = [token for of_role in read_tokens(secrets).values() for token in of_role]
    assert len(tokens) == 4
    everything = "".join([done.stdout, *filter(None, tree(folder).values())])
    assert not any(token in everything for token in tokens)

    delbo_here("compose", "--out", folder, "--agents", 2, "--secrets", secrets)
    assert [token for of_role in read_tokens(secrets).values() for token in of_role] == tokens


@pytest.mark.parametrize("name", ["two words", "Capital", "a.b", "-x", "_x", "ü", "$x", "x" * 41])
def test_a_folder_whose_name_names_no_network_is_refused(delbo_here: Delbo, tmp_path: Path, name: str) -> None:
    refused = delbo_here("compose", "--out", tmp_path / name)
    assert (refused.returncode, refused.stdout) == (2, "")
    sentence = "the folder names the network: take small letters, digits and - _"
    assert refused.stderr == f"delbo: --out {tmp_path / name}: {sentence}\n"
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("file", [COMPOSE_FILE, NETWORK_FILE])
@pytest.mark.parametrize("theirs", ["services: {}\n", "", "# Written by `delbo demo`: a network\n"])
def test_what_somebody_else_has_written_is_left_alone(
    delbo_here: Delbo, tmp_path: Path, file: str, theirs: str
) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / file).write_text(theirs)
    refused = delbo_here("compose", "--out", folder, "--secrets", tmp_path / "tokens")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"delbo: --out {folder}: {folder / file} is not from ")
    assert tree(tmp_path) == {"small": None, f"small/{file}": theirs}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--topology", "moebius"], "topology"),
        (["--topology", "docker/network.yaml"], "topology"),
        (["--publish", "65535"], "--publish 65535: there are no 4 ports from there on"),
        (["--publish", "65536"], "--publish"),
        (["--publish", "0"], "--publish"),
        (["--agents", "1"], "--agents"),
        (["--agents", "17"], "--agents"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_written(
    delbo_here: Delbo, tmp_path: Path, options: list[str], said: str
) -> None:
    refused = delbo_here("compose", "--out", tmp_path / "small", "--secrets", tmp_path / "tokens", *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
    assert tree(tmp_path) == {}


@pytest.mark.usefixtures("small_world")
def test_tokens_that_cannot_be_made_are_told_before_anything_is_written(delbo_here: Delbo, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("mine")
    refused = delbo_here("compose", "--agents", 2, "--out", tmp_path / "small", "--secrets", file)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"delbo: {file}: cannot be made a folder: File exists\n"
    assert tree(tmp_path) == {"tokens": "mine"}


@pytest.mark.usefixtures("small_world")
@pytest.mark.parametrize("file", [COMPOSE_FILE, NETWORK_FILE])
def test_a_folder_in_the_place_of_a_file_is_told(delbo_here: Delbo, tmp_path: Path, file: str) -> None:
    (tmp_path / "small" / file).mkdir(parents=True)
    refused = delbo_here("compose", "--agents", 2, "--out", tmp_path / "small")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert str(tmp_path / "small" / file) in refused.stderr


@pytest.mark.usefixtures("small_world")
def test_files_that_cannot_be_written_are_told(delbo_here: Delbo, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as on a full disk
    try:
        refused = delbo_here("compose", "--agents", 2, "--out", tmp_path / "small")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("delbo: ")
    assert str(tmp_path / "small") in refused.stderr


# As others read it.


def test_compose_files_follow_the_compose_specification(tmp_path: Path) -> None:
    check = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    if check is None:
        pytest.skip("check-jsonschema is not installed beside this python")
    variants = {
        "plain": Containers(tmp_path),
        "open": Containers(tmp_path, agents=16, publish=9000),
        "secrets": Containers(tmp_path, secrets=tmp_path / "the 'tokens'", publish=9000, image="delbo:1"),
    }
    files = [tmp_path / f"{name}.yml" for name in variants]
    for file, containers in zip(files, variants.values(), strict=True):
        file.write_text(containers.compose_file())
    command = [check, "--builtin-schema", "vendor.compose-spec", *map(str, files), str(ROOT / COMPOSE_FILE)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout
