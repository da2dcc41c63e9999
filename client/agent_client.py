"""A client for one agent: one method per endpoint, retries with back-off, marks so that a retry never doubles data.

    async with AgentClient("http://127.0.0.1:8001") as agent:
        stream = agent.stream("robot-7")
        await stream.post([[0.1, 2.0], [0.3, 1.9]], [1, 0])
        await stream.end()
        print((await agent.status()).round)

`client.blocking.BlockingAgentClient` is the same without `await`.
"""

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import msgspec

from client.answers import MapFile, decoded, map_file, read_document, with_arrays
from client.listening import Listener, RoundEvent
from client.observation_stream import Mark, ObservationStream, as_observations, as_points, as_position
from client.requester import JSON, Requester
from client.retries import Retries
from service.errors import AgentRefusedError, AgentUnreachableError
from service.wire.answers import (
    BeliefSummary,
    History,
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
from service.wire.observations import to_msgpack
from service.wire.parameters import MEDIA_TYPE as MSGPACK
from service.wire.parameters import ParameterCodec, ParameterMessage
from service.wire.points import points_to_msgpack
from service.wire.verification import VerificationDocument

__all__ = ["AgentClient", "Mark", "ObservationStream", "as_observations"]

_UNCERTAINTY = ("variance", "entropy", "latent_mean", "latent_variance")


class AgentClient(Requester):
    """Talks to one agent. What may be asked twice is tried again: all but unmarked posts and single rounds."""

    # ---- configuration

    async def put_model(self, document: ModelDocument) -> None:
        """`PUT /v1/model`."""
        await self._put("model", document)

    async def put_neighbors(self, document: NeighborsDocument) -> None:
        """`PUT /v1/neighbors`: a new epoch begins."""
        await self._put("neighbors", document)

    async def put_schedule(self, document: ScheduleDocument) -> None:
        """`PUT /v1/schedule`."""
        await self._put("schedule", document)

    async def put_verification(self, document: VerificationDocument) -> None:
        """`PUT /v1/verification`: score the belief on these points every so many rounds."""
        await self._send("PUT", "verification", body=document.to_msgpack(), content_type=MSGPACK)

    async def model(self) -> ModelDocument | None:
        """`GET /v1/model`: the model in force; None if there is none yet."""
        try:
            return read_document(self._where("model"), await self._send("GET", "model"), ModelDocument)
        except AgentRefusedError as refused:
            if refused.slug == "no-model":
                return None
            raise

    async def neighbors(self) -> NeighborsDocument:
        """`GET /v1/neighbors`: the document in force; epoch 0: none was put yet."""
        return read_document(self._where("neighbors"), await self._send("GET", "neighbors"), NeighborsDocument)

    async def schedule(self) -> ScheduleDocument:
        """`GET /v1/schedule`: the document in force; revision 0: none was put yet."""
        return read_document(self._where("schedule"), await self._send("GET", "schedule"), ScheduleDocument)

    async def verification(self) -> VerificationStatus:
        """`GET /v1/verification`: what is in force, without its points, and the newest scores."""
        return await self._get("verification", VerificationStatus)

    async def run_rounds(self, rounds: int = 1, wait_s: float = 30.0) -> RoundsAnswer:
        """`POST /v1/rounds`: single steps of a paused agent. Sent once: a retry could run them twice."""
        body = msgspec.json.encode({"rounds": rounds, "wait_s": wait_s})
        answer = await self._once("POST", "rounds", body=body, wait_s=wait_s)
        return decoded(self._where("rounds"), answer, RoundsAnswer)

    # ---- observations

    async def post(self, x: Any, y: Any, mark: Mark | None = None, end: bool = False, position: Any = None) -> Stored:
        """`POST /v1/observations`: when this returns they are on disk. Without a mark they are sent only once.

        position: where the one who observes stands, as many coordinates as a point has; it is only shown.
        """
        observations = as_observations(x, y, end)
        where = None if position is None else as_position(position)
        return await self._post(to_msgpack(observations), MSGPACK, mark, where)

    async def end(self, mark: Mark | None = None) -> Stored:
        """`POST /v1/observations`: say that no more will come."""
        return await self._post(b'{"end": true}', JSON, mark)

    async def position(self, client: str) -> StreamPosition:
        """`GET /v1/streams`: how far a client's stream is."""
        return await self._get("streams", StreamPosition, client=client)

    async def recent(self, limit: int = 200) -> RecentObservations:
        """`GET /v1/observations`: the newest that it has stored since it was started, at most 500; x, y as arrays."""
        answer = await self._ask("GET", "observations", RecentObservations, query={"limit": limit}, accept=MSGPACK)
        return with_arrays(self._where("observations"), answer, "x", "y")

    def stream(self, client: str) -> "ObservationStream":
        """A stream whose batches are marked by themselves, from where the agent says that it stands."""
        return ObservationStream(self, client)

    # ---- reading

    async def parameters(
        self,
        codec: ParameterCodec,
        epoch: int | None = None,
        round_number: int | None = None,
        wait_s: float = 0.0,
        precision: Precision = "float64",
    ) -> ParameterMessage:
        """`GET /v1/parameters`: a committed round's evidence, decoded and checked; the newest if none is named."""
        query = {"epoch": epoch, "round": round_number, "wait_s": wait_s, "precision": precision}
        return codec.decode(await self._send("GET", "parameters", query=query, wait_s=wait_s))

    async def belief(self, full: bool = False) -> BeliefSummary:
        """`GET /v1/belief`: in a few figures, or with mean and variance of every parameter, as arrays."""
        query = {"full": "true"} if full else {}
        answer = await self._ask("GET", "belief", BeliefSummary, query=query, accept=MSGPACK)
        return with_arrays(self._where("belief"), answer, "mean", "variance") if full else answer

    async def predict(self, x: Any) -> Predictions:
        """`POST /v1/predictions`: what it expects at these points, rows of coordinates, at most 100,000; as arrays."""
        body = points_to_msgpack(as_points(x))
        request = {"body": body, "content_type": MSGPACK, "accept": MSGPACK}
        answer = await self._ask("POST", "predictions", Predictions, **request)
        expected = "mean" if answer.probability is None else "probability"
        return with_arrays(self._where("predictions"), answer, expected, *_UNCERTAINTY)

    async def map(self, query: MapQuery | None = None, known: str | None = None) -> MapFile | None:
        """`GET /v1/map`: a PNG of all that the model is about, or what the query says.

        known: the tag of the map that one has already; if there is no newer one, the answer is None.
        """
        asked = {} if query is None else query.model_dump(exclude_unset=True)
        answer = await self._insist("GET", "map", query=asked, known=known, accept="*/*")
        return None if answer.status_code == httpx2.codes.NOT_MODIFIED else map_file(self._where("map"), answer)

    async def events(self, last: str | None = None) -> AsyncGenerator[RoundEvent, None]:
        """`GET /v1/events`: the newest round, then every round as it is committed, without end.

        last: the id of the last event that one had before, to go on after it. A broken connection is made anew, and
        goes on where it broke, until the patience is over.
        """
        listener = Listener(last)
        retries = Retries(self.patience, repeat=True)
        while True:
            try:
                async with self._listen(listener.reconnect()) as chunks:
                    async for chunk in chunks:
                        retries.heard()
                        for event in listener.read(self._where("events"), chunk):
                            retries = Retries(self.patience, repeat=True)
                            yield event
                await retries.after_silence(AgentUnreachableError(f"{self.url} has ended the events"))
            except AgentRefusedError as refused:
                await retries.after_refusal(refused)
            except AgentUnreachableError as fault:
                await retries.after_silence(fault)

    async def metrics(self) -> str:
        """`GET /v1/metrics`: as Prometheus reads them."""
        return (await self._send("GET", "metrics", accept="text/plain")).decode("utf-8", "replace")

    async def status(self) -> Status:
        """`GET /v1/status`."""
        return await self._get("status", Status)

    async def history(self, limit: int = 100) -> tuple[RoundSummary, ...]:
        """`GET /v1/history`: summaries of the last rounds."""
        return (await self._get("history", History, limit=limit)).rounds

    async def is_alive(self) -> bool:
        """`GET /v1/livez`: asked once."""
        try:
            await self._once("GET", "livez")
        except (AgentUnreachableError, AgentRefusedError):
            return False
        return True

    async def readiness(self) -> Readiness:
        """`GET /v1/readyz`: whether it can do its work, and if not, why; asked once."""
        return decoded(self._where("readyz"), await self._once("GET", "readyz"), Readiness)

    async def _put(self, what: str, document: ModelDocument | NeighborsDocument | ScheduleDocument) -> None:
        body = document.model_dump_json(exclude_none=True).encode()
        await self._send("PUT", what, body=body, content_type=JSON)

    async def _post(self, body: bytes, content_type: str, mark: Mark | None, position: str | None = None) -> Stored:
        query = ({} if mark is None else mark._asdict()) | {"position": position}
        return await self._ask(
            "POST", "observations", Stored, query=query, body=body, content_type=content_type, repeat=mark is not None
        )
