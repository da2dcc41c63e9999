"""How an agent is asked: one request, or one after the other until there is an answer or the patience is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
import msgspec
from pydantic import TypeAdapter, ValidationError

from client.answers import decoded, foreign, refusal, silence
from client.retries import Patience, Retries
from client.tokens import Tokens, token_for
from service.errors import AgentRefusedError, AgentUnreachableError, SettingError
from service.wire.configuration import Url
from service.wire.parameters import MEDIA_TYPE as MSGPACK
from service.wire.roles import ENDPOINTS
from service.wire.tokens import check_token

Answer = TypeVar("Answer")

JSON = "application/json"
_SILENCE_S = 40.0  # an agent says every 15 s that it is still there
_url = TypeAdapter(Url)


class Requester:
    """Sends requests to one agent."""

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

    async def _get(self, what: str, kind: type[Answer], **query: Any) -> Answer:
        return await self._ask("GET", what, kind, query=query)

    async def _ask(self, method: str, what: str, kind: type[Answer], **request: Any) -> Answer:
        accept = request.pop("accept", JSON)
        content = await self._send(method, what, accept=accept, **request)
        language = msgspec.msgpack if accept == MSGPACK else msgspec.json
        return decoded(self._where(what), content, kind, language)

    async def _send(self, method: str, what: str, *, repeat: bool = True, **request: Any) -> bytes:
        """The body of a good answer; tried again where that can do no harm, until the patience is over."""
        return (await self._insist(method, what, repeat=repeat, **request)).content

    async def _insist(self, method: str, what: str, *, repeat: bool = True, **request: Any) -> httpx2.Response:
        """The same with its headers."""
        retries = Retries(self.patience, repeat)
        while True:
            try:
                return await self._request(method, what, **request)
            except AgentRefusedError as refused:
                await retries.after_refusal(refused)
            except AgentUnreachableError as fault:
                await retries.after_silence(fault)

    async def _once(self, method: str, what: str, **request: Any) -> bytes:
        """The body of a good answer to the only attempt."""
        return (await self._request(method, what, **request)).content

    async def _request(
        self,
        method: str,
        what: str,
        *,
        query: dict[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        wait_s: float = 0.0,
        known: str | None = None,
    ) -> httpx2.Response:
        """One request and its answer; the border where httpx2's errors become ours. known: the ETag that one has."""
        headers = self._headers(method, what, accept) | ({} if body is None else {"content-type": content_type})
        if known is not None:
            headers["if-none-match"] = known
        given = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            async with asyncio.timeout(self.timeout_s + wait_s):  # httpx2's own begins anew with every byte
                answer = await self._http.request(
                    method, self._where(what), params=given, content=body, headers=headers, timeout=None
                )
        except httpx2.InvalidURL as fault:
            raise SettingError(f"{self.url!r} is no address of an agent: {fault}") from None
        except httpx2.DecodingError:
            raise foreign(self._where(what)) from None
        except (httpx2.TransportError, TimeoutError) as fault:
            raise silence(self.url, fault) from None
        unchanged = known is not None and answer.status_code == httpx2.codes.NOT_MODIFIED
        unready = what == "readyz" and answer.status_code == httpx2.codes.SERVICE_UNAVAILABLE
        if answer.is_success or unchanged or unready:
            return answer
        raise refusal(self.url, answer)

    @asynccontextmanager
    async def _listen(self, headers: dict[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The events as they come, in pieces; no longer silent than an agent ever is."""
        headers = self._headers("GET", "events", "text/event-stream") | headers
        timeout = httpx2.Timeout(self.timeout_s, read=_SILENCE_S)
        try:
            async with self._http.stream("GET", self._where("events"), headers=headers, timeout=timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise refusal(self.url, answer)
                yield answer.aiter_bytes()
        except httpx2.DecodingError:
            raise foreign(self._where("events")) from None
        except httpx2.TransportError as fault:
            raise silence(self.url, fault) from None

    def _headers(self, method: str, what: str, accept: str) -> dict[str, str]:
        token = token_for(self._tokens, ENDPOINTS[method, f"/v1/{what}"])
        return {"accept": accept} | ({} if token is None else {"authorization": f"Bearer {token}"})

    def _where(self, what: str) -> str:
        return f"{self.url}/v1/{what}"
