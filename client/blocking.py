"""The client of an agent for scripts: the methods of AgentClient without `await`.

with BlockingAgentClient("http://127.0.0.1:8001") as agent:
    stream = agent.stream("robot-7")
    stream.post([[0.1, 2.0], [0.3, 1.9]], [1, 0])
    stream.end()
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeVar

from client.agent_client import AgentClient
from client.answers import MapFile
from client.listening import RoundEvent
from client.observation_stream import Mark, ObservationStream
from client.retries import Patience
from client.tokens import Tokens
from service.wire.answers import (
    BeliefSummary,
    Predictions,
    Readiness,
    RecentObservations,
    RoundsAnswer,
    RoundSummary,
    Status,
    Stored,
    StreamPosition,
    VerificationStatus,
)
from service.wire.arrays import Precision
from service.wire.configuration import ModelDocument, NeighborsDocument, ScheduleDocument
from service.wire.map_query import MapQuery
from service.wire.parameters import ParameterCodec, ParameterMessage
from service.wire.verification import VerificationDocument

Result = TypeVar("Result")


class BlockingAgentClient:
    """AgentClient, run by an event loop in a thread of its own: so it also works where a loop runs already."""

    def __init__(
        self, url: str, patience: Patience | None = None, timeout_s: float = 30.0, tokens: Tokens | None = None
    ) -> None:
        self._agent = AgentClient(url, patience, timeout_s, tokens=tokens)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="delbo-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Break off what another thread may wait for, close the connections, end the thread; twice does no harm."""
        if self._loop.is_closed():
            return
        try:
            self._wait(self._finish())
        finally:  # after a second Ctrl-C as well
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def put_model(self, document: ModelDocument) -> None:
        """See AgentClient, here and below."""
        self._wait(self._agent.put_model(document))

    def put_neighbors(self, document: NeighborsDocument) -> None:
        self._wait(self._agent.put_neighbors(document))

    def put_schedule(self, document: ScheduleDocument) -> None:
        self._wait(self._agent.put_schedule(document))

    def put_verification(self, document: VerificationDocument) -> None:
        self._wait(self._agent.put_verification(document))

    def model(self) -> ModelDocument | None:
        return self._wait(self._agent.model())

    def neighbors(self) -> NeighborsDocument:
        return self._wait(self._agent.neighbors())

    def schedule(self) -> ScheduleDocument:
        return self._wait(self._agent.schedule())

    def verification(self) -> VerificationStatus:
        return self._wait(self._agent.verification())

    def run_rounds(self, rounds: int = 1, wait_s: float = 30.0) -> RoundsAnswer:
        return self._wait(self._agent.run_rounds(rounds, wait_s))

    def post(self, x: Any, y: Any, mark: Mark | None = None, end: bool = False, position: Any = None) -> Stored:
        return self._wait(self._agent.post(x, y, mark, end, position))

    def end(self, mark: Mark | None = None) -> Stored:
        return self._wait(self._agent.end(mark))

    def position(self, client: str) -> StreamPosition:
        return self._wait(self._agent.position(client))

    def recent(self, limit: int = 200) -> RecentObservations:
        return self._wait(self._agent.recent(limit))

    def stream(self, client: str) -> "BlockingStream":
        return BlockingStream(self, self._agent.stream(client))

    def parameters(
        self,
        codec: ParameterCodec,
        epoch: int | None = None,
        round_number: int | None = None,
        wait_s: float = 0.0,
        precision: Precision = "float64",
    ) -> ParameterMessage:
        return self._wait(self._agent.parameters(codec, epoch, round_number, wait_s, precision))

    def belief(self, full: bool = False) -> BeliefSummary:
        return self._wait(self._agent.belief(full))

    def predict(self, x: Any) -> Predictions:
        return self._wait(self._agent.predict(x))

    def map(self, query: MapQuery | None = None, known: str | None = None) -> MapFile | None:
        return self._wait(self._agent.map(query, known))

    def events(self, last: str | None = None) -> Iterator[RoundEvent]:
        heard: asyncio.Queue[RoundEvent | Exception] = asyncio.Queue(1)
        self._check_open()
        listening = asyncio.run_coroutine_threadsafe(_listen(self._agent.events(last), heard), self._loop)
        try:
            while not isinstance(event := self._wait(heard.get()), Exception):
                yield event
            raise event
        finally:
            listening.cancel()

    def metrics(self) -> str:
        return self._wait(self._agent.metrics())

    def status(self) -> Status:
        return self._wait(self._agent.status())

    def history(self, limit: int = 100) -> tuple[RoundSummary, ...]:
        return self._wait(self._agent.history(limit))

    def is_alive(self) -> bool:
        return self._wait(self._agent.is_alive())

    def readiness(self) -> Readiness:
        return self._wait(self._agent.readiness())

    def _check_open(self) -> None:
        if self._loop.is_closed():
            raise RuntimeError("this client has been closed: make another")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # which ends what is left, and closes the loop
            runner.get_loop().run_forever()

    async def _finish(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._agent.close()

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            self._check_open()
        except RuntimeError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C as well: the request must not go on behind the caller's back
            future.cancel()
            raise


async def _listen(events: AsyncGenerator[RoundEvent, None], heard: "asyncio.Queue[RoundEvent | Exception]") -> None:
    """In a task of its own, which closes what it listens to, however it ends."""
    try:
        async with aclosing(events):
            async for event in events:
                await heard.put(event)
    except Exception as fault:  # for whoever waits for the next event
        await heard.put(fault)


class BlockingStream:
    """ObservationStream without `await`."""

    def __init__(self, owner: BlockingAgentClient, stream: ObservationStream) -> None:
        self._owner, self._stream = owner, stream
        self.client = stream.client

    def next_sequence(self) -> int:
        return self._owner._wait(self._stream.next_sequence())

    def post(self, x: Any, y: Any, end: bool = False, position: Any = None) -> Stored:
        return self._owner._wait(self._stream.post(x, y, end, position))

    def end(self) -> None:
        self._owner._wait(self._stream.end())
