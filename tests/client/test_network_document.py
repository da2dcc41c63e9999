"""A network's file: what may be written, the sentence for everything that may not, and the schema for editors."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from client.network.document import NetworkDocument, network_schema, parse_network, read_network, schema_text
from client.network.sources import resolve_path
from service.errors import SettingError
from tests.client.schema_check import faults_by_schema
from tests.conftest import ROOT

LATTICE = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [3, 3]}
MODEL = {"features": LATTICE, "prior": {"information": 0.5}, "likelihood": "probit"}
NETWORK: dict[str, Any] = {"agents": 3, "model": MODEL}
TABLE = {"kind": "table", "path": "points.npz"}
WORLD = {"kind": "world"}
SCHEMA = ROOT / "client" / "network" / "network.schema.json"


def sentence_about(**changes: Any) -> str:
    """What is said about the network with these changes; None takes a field out."""
    document = {key: value for key, value in {**NETWORK, **changes}.items() if value is not None}
    with pytest.raises(SettingError) as caught:
        parse_network(document, "robots.yaml")
    sentence = str(caught.value)
    assert sentence.startswith("robots.yaml: ")
    assert "\n" not in sentence
    return sentence.removeprefix("robots.yaml: ")


def test_the_shortest_network_has_local_agents_on_a_ring() -> None:
    document = parse_network(NETWORK, "robots.yaml")
    assert document.local_names == ["agent-1", "agent-2", "agent-3"]
    assert document.topology.model_dump()["kind"] == "ring"
    assert (document.mixing_weights, document.settle_rounds, document.precision) == ("sinkhorn", "auto", "float64")


def test_agents_are_names_or_mappings_local_or_elsewhere() -> None:
    agents = ["north", {"name": "south", "url": "http://127.0.0.1:8001/"}, {"name": "west", "likelihood": "logistic"}]
    document = parse_network({**NETWORK, "agents": agents}, "robots.yaml")
    assert document.local_names == ["north", "west"]
    assert [agent.url for agent in document.agents] == ["local", "http://127.0.0.1:8001", "local"]
    assert document.agents[2].likelihood is not None
    assert document.agents[2].likelihood.kind == "logistic"


@pytest.mark.parametrize("url", ["http://10.0.0.7:8001", "http://robot-7:8001", "http://[fe80::1]:8001"])
def test_local_agents_go_with_others_on_this_machine_only(url: str) -> None:
    agents = ["north", {"name": "south", "url": url}]
    with pytest.raises(SettingError, match="agents: south, on another machine, cannot reach north, which is local"):
        parse_network({**NETWORK, "agents": agents}, "n.yaml")
    for here in ("http://localhost:8001", "http://127.0.1.1:8001", "http://[::1]:8001"):
        parse_network({**NETWORK, "agents": ["north", {"name": "south", "url": here}]}, "n.yaml")
    parse_network({**NETWORK, "agents": [{"name": "south", "url": url}]}, "n.yaml")


def test_one_source_is_a_list_of_one() -> None:
    one, several = (parse_network({**NETWORK, "data": data}, "n.yaml").data for data in (TABLE, [TABLE, WORLD]))
    assert [source.kind for source in one] == ["table"]
    assert [source.kind for source in several] == ["table", "world"]


@pytest.mark.parametrize(
    ("place", "fault", "changes"),
    [
        ("name", "letters, digits", {"name": "a/b"}),
        ("name", "letters, digits", {"name": "x" * 41}),
        ("name", "valid string, not 3", {"name": 3}),
        ("agents", "is missing", {"agents": None}),
        ("agents", "1 to 1000", {"agents": 0}),
        ("agents", "1 to 1000", {"agents": 1001}),
        ("agents", "a list, not True", {"agents": True}),
        ("agents", "at least 1 item", {"agents": []}),
        ("agents", "the name a is given twice", {"agents": ["a", "a"]}),
        ("agents", "the url http://x:1 is given twice", {"agents": [{"name": n, "url": "http://x:1"} for n in "ab"]}),
        ("agents.1", "a mapping, not 3", {"agents": ["a", 3]}),
        ("agents.0.name", "printable", {"agents": [{"name": " a"}]}),
        ("agents.0.name", "is missing", {"agents": [{"url": "local"}]}),
        ("agents.0.url", "http://10.0.0.7:8001", {"agents": [{"name": "a", "url": "ftp://x"}]}),
        ("agents.0.likelihood.kind", "'probit'", {"agents": [{"name": "a", "likelihood": "probitt"}]}),
        ("agents.0.likelihood.precision", "is missing", {"agents": [{"name": "a", "likelihood": "gaussian"}]}),
        ("agents.0.position.1", "is missing", {"agents": [{"name": "a", "position": [1]}]}),
        ("agents.0.colour", "is not known here", {"agents": [{"name": "a", "colour": "red"}]}),
        ("topology.kind", "'ring'", {"topology": "rings"}),
        ("topology.kind", "'ring'", {"topology": {"kind": "rings"}}),
        ("topology.kind", "is missing", {"topology": {}}),
        ("topology", "a mapping, not 5", {"topology": 5}),
        ("topology.degree", "greater than 0, not -1", {"topology": {"kind": "random", "degree": -1}}),
        ("topology.foo", "is not known here", {"topology": {"kind": "ring", "foo": 1}}),
        ("topology.edges", "at least 1 item", {"topology": {"edges": []}}),
        ("topology.edges", "a list, not 'ab'", {"topology": {"edges": "ab"}}),
        ("topology.edges.0.1", "is missing", {"topology": {"edges": [["agent-1"]]}}),
        ("topology.edges", "there is no agent b", {"topology": {"edges": [["agent-1", "b"]]}}),
        (
            "topology.directed",
            "a valid boolean",
            {"topology": {"edges": [["agent-1", "agent-2"]], "directed": "perhaps"}},
        ),
        (
            "topology",
            "the position of every agent",
            {"topology": "geometric", "agents": [{"name": "a", "position": [0, 0]}, "b"]},
        ),
        ("mixing_weights", "'sinkhorn', 'metropolis' or 'fastest'", {"mixing_weights": "even"}),
        ("mixing_weights.0.1", "a valid number", {"mixing_weights": [[1, "a"]]}),
        ("mixing_weights.0.0", "a finite number", {"mixing_weights": [[float("nan")]]}),
        ("model", "is missing", {"model": None}),
        ("model", "a mapping, not 5", {"model": 5}),
        ("model.features", "is missing", {"model": {}}),
        ("model.family", "'diagonal' or 'full'", {"model": {**MODEL, "family": "half"}}),
        ("model.features.spacing", "is missing", {"model": {**MODEL, "features": {"kind": "lattice"}}}),
        ("schedule.exchange", "'lockstep' or 'latest'", {"schedule": {"exchange": "sync"}}),
        ("schedule.until_round", "is not known here", {"schedule": {"until_round": 3}}),
        ("schedule.likelihood_weight", "greater than 0, not -1", {"schedule": {"likelihood_weight": -1}}),
        ("schedule.likelihood_weight", "'auto', not 'much'", {"schedule": {"likelihood_weight": "much"}}),
        ("schedule", "a mapping, not 3", {"schedule": 3}),
        ("schedule.observations_per_round", "with data", {"schedule": {"observations_per_round": 0}, "data": TABLE}),
        ("settle_rounds", "greater than or equal to 0, not -1", {"settle_rounds": -1}),
        ("settle_rounds", "a valid integer", {"settle_rounds": 1.5}),
        ("settle_rounds", "'auto', not 'long'", {"settle_rounds": "long"}),
        ("precision", "'float64' or 'float32'", {"precision": "float16"}),
        ("data", "a list, not 'x.npz'", {"data": "x.npz"}),
        ("data.0", "a mapping, not 'x.npz'", {"data": ["x.npz"]}),
        ("data.0.kind", "is missing", {"data": {"path": "x"}}),
        ("data.0.kind", "'table', 'carmen', 'world'", {"data": {**TABLE, "kind": "tabel"}}),
        ("data.0.path", "is missing", {"data": {"kind": "table"}}),
        ("data.1.row", "is not known here", {"data": [TABLE, {**TABLE, "row": "1:"}]}),
        ("data.0.max_range_m", "greater than 0, not 0", {"data": {"kind": "carmen", "path": "x", "max_range_m": 0}}),
        ("data.0.robots", "greater than or equal to 1, not 0", {"data": {"kind": "world", "robots": 0}}),
        ("data.0.agent", "printable", {"data": {**TABLE, "agent": ""}}),
        ("data.agent", "there is no agent west", {"data": {**TABLE, "agent": "west"}}),
        ("stream.batch", "greater than or equal to 1, not 0", {"stream": {"batch": 0}}),
        ("stream.rate_per_s", "greater than 0, not 0", {"stream": {"rate_per_s": 0}}),
        ("stream.rate", "is not known here", {"stream": {"rate": 5}}),
        ("verification", "give one of", {"verification": {}}),
        ("verification", "give one of", {"verification": {"holdout": 5, "points": 5}}),
        ("verification.holdout", "greater than or equal to 2, not 1", {"verification": {"holdout": 1}}),
        ("verification.holdout", "needs data", {"verification": {"holdout": 5}}),
        ("verification.points", "kind: world", {"verification": {"points": 5}, "data": TABLE}),
        ("verification.points", "kind: world", {"verification": {"points": 5}, "data": [WORLD, WORLD]}),
        ("verification.source.path", "is missing", {"verification": {"source": {"kind": "table"}}}),
        ("verification.source.kind", "'table', 'carmen', 'world'", {"verification": {"source": {"kind": "x"}}}),
        ("seed", "greater than or equal to 0, not -1", {"seed": -1}),
        ("colour", "is not known here", {"colour": "red"}),
    ],
)
def test_a_fault_is_one_sentence_that_names_the_place_and_what_would_be_right(
    place: str, fault: str, changes: dict[str, Any]
) -> None:
    sentence = sentence_about(**changes)
    assert sentence.startswith((f"{place}: ", f"{place} "))
    assert fault in sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a network is a mapping"),
        ("[1, 2]", "a network is a mapping"),
        ("agents: 3", "model is missing"),
        ("\tagents: 3", "is no YAML"),
        ("agents: [", "is no YAML"),
        ("[" * 1500, "is no YAML"),
        ("agents: " + "{a: " * 900 + "1" + "}" * 900, "is no YAML"),
        ("seed: 2020-99-99", "is no YAML"),  # what looks like a date is made one
        ("seed: " + "1" * 5000, "is no YAML"),  # and a number, a number
        ("agents: !!python/object:os.system x", "is no YAML"),
        ("agents: &a [*a]\nmodel: x", "agents.0"),
        ("1: 2\nagents: 3\nmodel: x", "keys should be strings"),
        ("agents: .nan\nmodel: x", "agents: input should be a list, not nan"),
        ("a\0b", "is no YAML"),
    ],
)
def test_any_text_that_is_no_network_is_refused_in_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(text)
    with pytest.raises(SettingError) as caught:
        read_network(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"\xff\xfe\x00")
    for name, said in (("latin.yaml", "is no YAML"), ("none.yaml", "there is no such file"), ("", "no such file")):
        with pytest.raises(SettingError, match=said):
            read_network(tmp_path / name)


@pytest.mark.parametrize(
    ("file_name", "name"),
    [
        ("rovers.yaml", "rovers"),
        ("rovers.v2.yaml", "rovers"),
        ("my rovers, all.yaml", "my-rovers-all"),
        ("ü.yml", "network"),
    ],
)
def test_a_network_without_a_name_has_its_files(tmp_path: Path, file_name: str, name: str) -> None:
    path = tmp_path / file_name
    path.write_text(yaml.safe_dump(NETWORK))
    assert read_network(path).name == name
    path.write_text(yaml.safe_dump({**NETWORK, "name": "other"}))
    assert read_network(path).name == "other"


def test_paths_are_beside_the_file_and_take_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLDS", "/data")
    monkeypatch.delenv("HOLDS_NOT", raising=False)
    monkeypatch.setenv("EMPTY", "")
    assert resolve_path("a/b.npz", tmp_path) == tmp_path / "a" / "b.npz"
    assert resolve_path("${HOLDS}/b.npz", tmp_path) == Path("/data/b.npz")
    assert resolve_path("${HOLDS_NOT:-c}/b.npz", tmp_path) == tmp_path / "c" / "b.npz"
    assert resolve_path("${EMPTY:-c}/b.npz", tmp_path) == tmp_path / "c" / "b.npz"
    assert resolve_path("~/b.npz", tmp_path) == Path.home() / "b.npz"
    with pytest.raises(SettingError, match="the environment has no HOLDS_NOT"):
        resolve_path("${HOLDS_NOT}/b.npz", tmp_path)


def test_the_schema_that_is_shipped_is_what_the_code_generates() -> None:
    renew = f"renew it: python -m client.network.document > {SCHEMA.relative_to(ROOT)}"
    assert SCHEMA.read_text() == schema_text(), renew


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # runpy's, as it is imported here
def test_the_module_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_module("client.network.document", run_name="__main__")
    assert capsys.readouterr().out == schema_text()


def test_the_schema_knows_every_field() -> None:
    schema = network_schema()
    assert set(schema["properties"]) == set(NetworkDocument.model_fields)
    assert all("description" in schema["properties"][name] for name in ("agents", "topology", "data", "model"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": "rovers.v2", "seed": 3, "precision": "float32", "settle_rounds": 4},
        {"agents": ["north", {"name": "south", "url": "http://127.0.0.1:8001", "position": [1, 2.5]}]},
        *({"agents": [{"name": "a", "likelihood": kind}]} for kind in ("probit", "logistic", "poisson")),
        {"agents": [{"name": "a", "likelihood": {"kind": "student_t", "degrees": 4, "scale": 0.5}}]},
        {"model": "model.yaml"},
        {"model": {**MODEL, "likelihood": {"kind": "gaussian", "precision": [[1, 0], [0, 1]]}}},
        {"topology": "grid"},
        {"topology": {"kind": "random", "degree": 3, "seed": 1}},
        {"topology": {"edges": [["agent-1", "agent-2"], ["agent-2", "agent-3"]], "directed": True}},
        {"mixing_weights": "fastest"},
        {"mixing_weights": [[0.5, 0.5], [0.5, 0.5]], "agents": 2},
        {"schedule": {"exchange": "latest", "likelihood_weight": "auto", "when_short": "wait"}, "stream": {"batch": 5}},
        {"data": TABLE, "verification": {"holdout": 3}},
        {"data": [{**TABLE, "rows": "0:5", "agent": "agent-1"}, {"kind": "carmen", "path": "x.log", "free_to_m": 3}]},
        {"data": {"kind": "world", "rooms_across": 3}, "verification": {"points": 50}},
        {"verification": {"source": {**TABLE, "partition": "robot"}}},
    ],
)
def test_what_may_be_written_is_right_by_the_schema_as_well(changes: dict[str, Any]) -> None:
    parse_network({**NETWORK, **changes}, "robots.yaml")
    assert faults_by_schema({**NETWORK, **changes}, network_schema()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"agents": 0},
        {"agents": ["a", 3]},
        {"agents": [{"name": "a", "likelihood": "gaussian"}]},
        {"name": "a/b"},
        {"topology": "rings"},
        {"topology": {"kind": "ring", "foo": 1}},
        {"topology": {"edges": []}},
        {"schedule": {"period_s": -1}},
        {"data": {"kind": "table"}},
        {"data": [TABLE, {**TABLE, "row": "1:"}]},
        {"colour": "red"},
    ],
)
def test_an_editor_marks_what_the_schema_can_tell_is_wrong(changes: dict[str, Any]) -> None:
    sentence_about(**changes)
    assert faults_by_schema({**NETWORK, **changes}, network_schema())


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_a_network(path: Path) -> None:
    assert read_network(path).name == path.stem
    assert faults_by_schema(yaml.safe_load(path.read_text()), network_schema()) == []
    assert path.read_text().startswith("# yaml-language-server: $schema=../client/network/network.schema.json")
