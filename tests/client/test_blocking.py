"""The client without `await` does all that the other does, in a thread that ends with it."""

import asyncio
import inspect
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, get_type_hints

import pytest

from client.agent_client import AgentClient, ObservationStream
from client.blocking import BlockingAgentClient, BlockingStream
from client.retries import NO_PATIENCE, Patience
from service.errors import AgentUnreachableError, SettingError
from tests.processes import PATIENCE_S, free_port, until

NOWHERE = "http://127.0.0.1:1"


def public_methods(kind: type) -> dict[str, Callable[..., Any]]:
    return {name: method for name, method in inspect.getmembers(kind, callable) if not name.startswith("_")}


def is_running() -> bool:
    return any(thread.name == "delbo-client" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    assert not is_running()
    yield
    assert not is_running()


# The same methods.


@pytest.mark.parametrize(
    ("blocking", "awaited"), [(BlockingAgentClient, AgentClient), (BlockingStream, ObservationStream)]
)
def test_there_is_every_method_with_the_same_parameters(blocking: type, awaited: type) -> None:
    here, there = public_methods(blocking), public_methods(awaited)
    assert set(here) == set(there)
    for name, method in there.items():
        assert inspect.signature(here[name]).parameters == inspect.signature(method).parameters, name
        if name not in ("stream", "events"):
            assert get_type_hints(here[name])["return"] == get_type_hints(method)["return"], name
        assert not inspect.iscoroutinefunction(here[name]), name


def test_the_client_is_made_with_the_same_arguments() -> None:
    """But for the shared connections, which belong to an event loop."""
    there = dict(inspect.signature(AgentClient).parameters)
    del there["http"]
    assert dict(inspect.signature(BlockingAgentClient).parameters) == there
    patience = Patience(silent_s=7)
    with BlockingAgentClient(NOWHERE, patience, 3.0) as client:
        made = client._agent
    assert (made.url, made.patience, made.timeout_s) == (NOWHERE, patience, 3.0)


class Recorder:
    """Stands where the client is that awaits, and writes down what it is asked."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def method(*arguments: Any) -> Any:
            self.heard.append((name, arguments))
            return arguments

        return method


@pytest.mark.parametrize("name", sorted(set(public_methods(AgentClient)) - {"close", "stream", "events"}))
def test_a_method_passes_on_everything_and_gives_back_what_comes(name: str) -> None:
    recorder = Recorder()
    method = getattr(AgentClient, name)
    given = tuple(object() for _ in list(inspect.signature(method).parameters)[1:])
    with BlockingAgentClient(NOWHERE) as client:
        client._agent = recorder  # type: ignore[assignment]
        answer = getattr(client, name)(*given)
        assert recorder.heard == [(name, given)]
        assert answer == (None if get_type_hints(method)["return"] is type(None) else given)


def test_a_stream_passes_on_everything_and_gives_back_what_comes() -> None:
    recorder = Recorder()
    recorder.client = "robot"  # type: ignore[attr-defined]
    with BlockingAgentClient(NOWHERE) as client:
        stream = BlockingStream(client, recorder)  # type: ignore[arg-type]
        assert stream.client == "robot"
        assert stream.post("x", "y", True, "here") == ("x", "y", True, "here")  # type: ignore[comparison-overlap]
        assert stream.next_sequence() == ()  # type: ignore[comparison-overlap]
        stream.end()
    assert recorder.heard == [("post", ("x", "y", True, "here")), ("next_sequence", ()), ("end", ())]


# The thread.


@pytest.mark.asyncio
async def test_it_works_where_an_event_loop_runs() -> None:
    """As it does in every notebook; tests/client/test_examples.py does it with an agent."""
    with BlockingAgentClient(f"http://127.0.0.1:{free_port()}") as client:
        assert not client.is_alive()


def test_closing_twice_does_no_harm_and_nothing_goes_on_afterwards() -> None:
    client = BlockingAgentClient(f"http://127.0.0.1:{free_port()}")
    assert not client.is_alive()
    client.close()
    assert not is_running()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.status()


def test_a_client_that_could_not_be_made_leaves_no_thread() -> None:
    with pytest.raises(SettingError):
        BlockingAgentClient("nowhere")


def test_a_fault_comes_as_it_is() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with BlockingAgentClient(url, NO_PATIENCE) as client, pytest.raises(AgentUnreachableError, match=url):
        client.status()


@contextmanager
def silent_server(then: Callable[[], object]) -> Iterator[tuple[str, threading.Event]]:
    """Takes one request, does `then` and says nothing; the event tells that the client has hung up."""
    hung_up = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                then()
                while connection.recv(65_536):
                    pass
            hung_up.set()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", hung_up
        thread.join(PATIENCE_S)


def test_after_ctrl_c_the_request_is_broken_off_and_the_client_works_on() -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with silent_server(interrupt) as (url, hung_up), BlockingAgentClient(url, timeout_s=3600) as client:
        with pytest.raises(KeyboardInterrupt):
            client.status()
        assert hung_up.wait(PATIENCE_S)
        assert is_running()
        assert client.stream("robot").client == "robot"


def test_ctrl_c_ends_a_script_and_its_thread() -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with silent_server(interrupt) as (url, hung_up):
        with pytest.raises(KeyboardInterrupt), BlockingAgentClient(url) as client:
            client.status()
        assert not is_running()
        assert hung_up.wait(PATIENCE_S)


def test_ctrl_c_while_it_closes_leaves_no_thread() -> None:
    async def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    client = BlockingAgentClient(NOWHERE)
    client._agent.close = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        client.close()
    assert not is_running()


def test_closing_breaks_off_what_another_thread_waits_for() -> None:
    waiting, faults = threading.Event(), []

    def ask(client: BlockingAgentClient) -> None:
        try:
            client.status()
        except CancelledError as fault:
            faults.append(fault)

    with silent_server(waiting.set) as (url, hung_up):
        client = BlockingAgentClient(url)
        thread = threading.Thread(target=ask, args=(client,), daemon=True)
        thread.start()
        assert waiting.wait(PATIENCE_S)
        client.close()
        until(lambda: not thread.is_alive())
        assert len(faults) == 1
        assert hung_up.wait(PATIENCE_S)
