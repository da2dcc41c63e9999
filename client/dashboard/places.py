"""Which agents are watched, and where they are: those of a network's file, or some addresses."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from client.site import Site
from service.wire.address import read_address


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
    return [Place(url=url) for url in dict.fromkeys(url.rstrip("/") for url in urls)]
