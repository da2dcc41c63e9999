"""A client for one agent: one method per endpoint, retries with back-off, marks so that a retry never doubles data.

    async with AgentClient("http://127.0.0.1:8001") as agent:
        stream = agent.stream("robot-7")
        await stream.post([[0.1, 2.0], [0.3, 1.9]], [1, 0])
        await stream.end()
        print((await agent.status()).round)

`client.blocking.BlockingAgentClient` is the same without `await`.
"""

import asyncio
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import httpx2
import msgspec
import numpy as np
from pydantic import TypeAdapter, ValidationError

from client.answers import decoded, foreign, plainly, read_document, refusal, with_arrays
from client.retries import Patience, Retries
from client.tokens import Tokens, token_for
from service.errors import AgentRefusedError, AgentUnreachableError, DataError, SettingError
from service.wire.answers import (
    BeliefSummary,
    History,
    Readiness,
    RoundsAnswer,
    RoundSummary,
    Status,
    Stored,
    StreamPosition,
)
from service.wire.arrays import Precision
from service.wire.configuration import ModelDocument, NeighborsDocument, ScheduleDocument, Url, check_name
from service.wire.observations import Observations, to_msgpack
from service.wire.parameters import MEDIA_TYPE as MSGPACK
from service.wire.parameters import ParameterCodec, ParameterMessage
from service.wire.roles import ENDPOINTS
from service.wire.tokens import check_token

Answer = TypeVar("Answer")

_JSON = "application/json"
_url = TypeAdapter(Url)


class Mark(NamedTuple):
    """Who sends a batch, and the how manyeth of theirs it is, from 0."""

    client: str
    sequence: int


class AgentClient:
    """Talks to one agent. GET, PUT and marked posts are tried again; what must not happen twice is sent once."""

    def __init__(
        self,
        url: str,
        patience: Patience | None = None,
        timeout_s: float = 30.0,
        http: httpx2.AsyncClient | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """What it needs to know of the agent, and of how to ask it.

        timeout_s: for an answer, beyond what the agent is asked to wait; http: one to share, its owner closes it;
        tokens: a token for everything, or a TokenFolder with one for each role.
        """
        try:
            self.url: str = _url.validate_python(url)
        except ValidationError:
            raise SettingError(f"{url!r} is no address of an agent; one is like http://127.0.0.1:8001") from None
        self.patience = patience or Patience()
        self.timeout_s, self._tokens = timeout_s, check_token(tokens) if isinstance(tokens, str) else tokens
        # Agents are found by the addresses given, not by a proxy that the environment names. Certificates take a while
        # to load, and plain http has none.
        self._http = http or httpx2.AsyncClient(trust_env=False, verify=self.url.startswith("https:"))
        self._owns_http = http is None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            await self._http.aclose()

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

    async def run_rounds(self, rounds: int = 1, wait_s: float = 30.0) -> RoundsAnswer:
        """`POST /v1/rounds`: single steps of a paused agent. Sent once: a retry could run them twice."""
        body = msgspec.json.encode({"rounds": rounds, "wait_s": wait_s})
        answer = await self._once("POST", "rounds", body=body, wait_s=wait_s)
        return decoded(self._where("rounds"), answer, RoundsAnswer)

    # ---- observations

    async def post(self, x: Any, y: Any, mark: Mark | None = None, end: bool = False) -> Stored:
        """`POST /v1/observations`: when this returns they are on disk. Without a mark they are sent only once."""
        observations = as_observations(x, y, end)
        return await self._post(to_msgpack(observations), MSGPACK, mark)

    async def end(self, mark: Mark | None = None) -> Stored:
        """`POST /v1/observations`: say that no more will come."""
        return await self._post(b'{"end": true}', _JSON, mark)

    async def position(self, client: str) -> StreamPosition:
        """`GET /v1/streams`: how far a client's stream is."""
        return await self._get("streams", StreamPosition, client=client)

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
        return with_arrays(self._where("belief"), answer) if full else answer

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

    # ---- how requests are sent

    async def _put(self, what: str, document: ModelDocument | NeighborsDocument | ScheduleDocument) -> None:
        body = document.model_dump_json(exclude_none=True).encode()
        await self._send("PUT", what, body=body, content_type=_JSON)

    async def _post(self, body: bytes, content_type: str, mark: Mark | None) -> Stored:
        query = {} if mark is None else mark._asdict()
        return await self._ask(
            "POST", "observations", Stored, query=query, body=body, content_type=content_type, repeat=mark is not None
        )

    async def _get(self, what: str, kind: type[Answer], **query: Any) -> Answer:
        return await self._ask("GET", what, kind, query=query)

    async def _ask(self, method: str, what: str, kind: type[Answer], **request: Any) -> Answer:
        accept = request.pop("accept", _JSON)
        content = await self._send(method, what, accept=accept, **request)
        language = msgspec.msgpack if accept == MSGPACK else msgspec.json
        return decoded(self._where(what), content, kind, language)

    async def _send(self, method: str, what: str, *, repeat: bool = True, **request: Any) -> bytes:
        """The body of a good answer; tried again where that can do no harm, until the patience is over."""
        retries = Retries(self.patience, repeat)
        while True:
            try:
                return await self._once(method, what, **request)
            except AgentRefusedError as refused:
                await retries.after_refusal(refused)
            except AgentUnreachableError as fault:
                await retries.after_silence(fault)

    async def _once(
        self,
        method: str,
        what: str,
        *,
        query: dict[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        wait_s: float = 0.0,
    ) -> bytes:
        """One request and the body of its answer; the border where httpx2's errors become ours."""
        headers = {"accept": accept} | ({} if body is None else {"content-type": content_type})
        token = token_for(self._tokens, ENDPOINTS[method, f"/v1/{what}"])
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        known = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            async with asyncio.timeout(self.timeout_s + wait_s):  # httpx2's own begins anew with every byte
                answer = await self._http.request(
                    method, self._where(what), params=known, content=body, headers=headers, timeout=None
                )
        except httpx2.InvalidURL as fault:
            raise SettingError(f"{self.url!r} is no address of an agent: {fault}") from None
        except httpx2.DecodingError:
            raise foreign(self._where(what)) from None
        except (httpx2.TransportError, TimeoutError) as fault:
            raise AgentUnreachableError(f"{self.url} does not answer: {plainly(fault)}") from None
        if answer.is_success or (what == "readyz" and answer.status_code == httpx2.codes.SERVICE_UNAVAILABLE):
            return answer.content
        raise refusal(self.url, answer)

    def _where(self, what: str) -> str:
        return f"{self.url}/v1/{what}"


class ObservationStream:
    """One client's marked batches to one agent, one after the other. A retry of a batch never doubles it."""

    def __init__(self, agent: AgentClient, client: str) -> None:
        try:
            self.client = check_name(client)
        except ValueError as fault:
            raise SettingError(f"client {client!r}: {fault}") from None
        self._agent = agent
        self._next: int | None = None
        self._turn = asyncio.Lock()  # two batches must not have one number

    async def next_sequence(self) -> int:
        """How many batches the agent has of this stream: where to go on."""
        if self._next is None:
            self._next = (await self._agent.position(self.client)).next_sequence
        return self._next

    async def post(self, x: Any, y: Any, end: bool = False) -> Stored:
        """The next batch; on disk when this returns."""
        async with self._turn:
            stored = await self._agent.post(x, y, Mark(self.client, await self.next_sequence()), end)
            self._next = stored.next_sequence
        return stored

    async def end(self) -> None:
        """Say that no more will come."""
        async with self._turn:
            self._next = (await self._agent.end(Mark(self.client, await self.next_sequence()))).next_sequence


def as_observations(x: Any, y: Any, end: bool = False) -> Observations:
    """Points and targets as arrays: rows of them, or a single point with its target."""
    try:
        points, targets = np.asarray(x, float), np.asarray(y, float)
    except (TypeError, ValueError):
        raise DataError("x and y must be numbers: rows of coordinates, and a target for each") from None
    if points.ndim == 1:
        points, targets = points[None], targets[None]
    if points.ndim != 2 or targets.ndim not in (1, 2) or len(points) != len(targets):
        raise DataError(
            f"x of shape {points.shape} and y of shape {targets.shape}: x has a row of coordinates for every target"
        )
    return Observations(points, targets, end)
