"""`delbo dashboard`: a web page that shows agents as they learn."""

from pathlib import Path
from typing import Annotated

import typer

from client.commands.app import RUNS, RunsOption, TokensOption, app, site_of, wait_for
from client.console import out
from client.network.document import read_network
from client.tokens import TokenFolder
from service.errors import SettingError


@app.command(name="dashboard", short_help="Watch agents learn, on a web page.")
def dashboard_command(
    network: Annotated[Path | None, typer.Argument(help="The network, a YAML file.", show_default=False)] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option("--agent", help="An agent's url, instead of a network's file; may be given again."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 8080,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Ask the agents every so many seconds.")] = 2.0,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show, and let nobody do anything.")] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines in: the dashboard asks nobody for a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name of this machine under which browsers may come; may be given again.")
    ] = None,
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
) -> None:
    """Serve a web page that shows agents as they learn, until you press Ctrl-C."""
    from client.dashboard.places import places_of_site, places_of_urls
    from client.dashboard.serving import listen, serve, url_of
    from client.dashboard.watching import Watching

    if (network is None) == (not agents):
        raise SettingError("name a network's file, or agents with --agent, and not both")
    if network is not None:
        document = read_network(network)
        name, places = document.name, places_of_site(site_of(document, runs, tokens))
    else:
        name, places = "agents", places_of_urls(agents or [])
    folder = None if tokens is None else TokenFolder(tokens)
    listener = listen(host, port, insecure)

    async def run() -> None:
        watching = Watching(name, places, folder, period_s=every, read_only=read_only)
        await serve(watching, listener, allow_host or (), tell)

    def tell() -> None:
        out.print(f"dashboard of {name}: {url_of(listener)}", soft_wrap=True)

    wait_for(run())
