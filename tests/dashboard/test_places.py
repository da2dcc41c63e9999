"""Which agents are watched, and where they are."""

from pathlib import Path

import pytest
import yaml

from client.dashboard.places import Place, places_of_site, places_of_urls
from client.network.document import read_network
from client.site import Site
from service.errors import SettingError
from service.wire.address import Address, write_address
from tests.network.plans import write_network


def test_urls_that_are_given_twice_or_with_a_slash_are_one_place() -> None:
    places = places_of_urls(["http://a:1/", "http://b:2", "http://a:1", "http://b:2//"])
    assert places == [Place(url="http://a:1"), Place(url="http://b:2")]
    assert [place.address() for place in places] == ["http://a:1", "http://b:2"]


def test_a_local_agent_is_where_its_file_says_now(tmp_path: Path) -> None:
    place = Place("a1", folder=tmp_path)
    assert place.address() is None
    for port in (8001, 8002):
        write_address(tmp_path, Address("a1", 1, 1, f"http://127.0.0.1:{port}"))
        assert place.address() == f"http://127.0.0.1:{port}"
    (tmp_path / "address.json").write_text("{")
    assert place.address() is None


def test_the_places_of_a_file_are_those_of_its_agents_in_their_order(tmp_path: Path) -> None:
    agents = [{"name": "b"}, {"name": "a", "url": "http://127.0.0.1:8001", "position": [1.5, -2]}]
    path = write_network(tmp_path, agents)
    assert yaml.safe_load(path.read_text())["agents"] == agents
    site = Site(read_network(path), tmp_path / "runs" / "small")
    assert places_of_site(site) == [
        Place("b", folder=site.cluster.data_dir("b")),
        Place("a", "http://127.0.0.1:8001", position=(1.5, -2.0)),
    ]


@pytest.mark.parametrize("url", ["foo", "http://user:secret@10.1.2.3:8001", "ftp://a", "http://127.0.0.1:8001?x=1"])
def test_what_is_no_address_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(SettingError, match="takes the url of an agent") as refused:
        places_of_urls([url])
    assert "secret" not in str(refused.value)
