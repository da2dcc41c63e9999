"""Which agents are watched, and where they are: those of a network's file, or some addresses."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from client.site import Site
from service.errors import SettingError
from service.wire.address import read_address
from service.wire.configuration import Url

_url = TypeAdapter(Url)


class Place(NamedTuple):
    """Where one agent is: at a url, or where the file in its folder says. A local one may move when it restarts."""

    name: str | None = None  # None: whoever answers there
    url: str | None = None
    folder: Path | None = None
    position: tuple[float, float] | None = None  # where the network's file has it

    def address(self) -> str | None:
        """Where it is now, as far as anybody knows."""
        if self.url is not None or self.folder is None:
            return self.url
        told = read_address(self.folder)
        return None if told is None else told.url


def places_of_site(site: Site) -> list[Place]:
    """The agents of a network's file."""
    cluster = site.cluster
    return [
        Place(agent.name, folder=cluster.data_dir(agent.name), position=agent.position)
        if agent.url == "local"
        else Place(agent.name, agent.url, position=agent.position)
        for agent in site.document.agents
    ]


def places_of_urls(urls: Sequence[str]) -> list[Place]:
    """Agents by their addresses; their names are what they say."""
    try:
        checked = [_url.validate_python(url) for url in urls]
    except ValidationError:  # and nothing of it is repeated: there may be a password in it
        raise SettingError("--agent takes the url of an agent, like http://10.0.0.7:8001, without a password") from None
    return [Place(url=url) for url in dict.fromkeys(checked)]
