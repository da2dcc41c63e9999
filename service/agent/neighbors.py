"""Pulls from all neighbors: deadlines, back-off, conditional requests, and what is known of each."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from service.agent.exchange import Query
from service.agent.http_client import Reply
from service.errors import DelboError, PeerError, WireError
from service.wire.answers import NeighborStatus
from service.wire.arrays import Precision
from service.wire.configuration import Neighbor
from service.wire.parameters import MEDIA_TYPE, Header, ParameterCodec, ParameterMessage
from service.wire.problems import ROUND_GONE, ROUND_UNKNOWN, problem_slug

LinkState = Literal["fresh", "stale", "unreachable", "refused"]

_FIRST_BACK_OFF_S = 0.05
_LONGEST_BACK_OFF_S = 2.0
_GRACE_S = 2.0  # for the way there and back of a long poll
_LARGE = 1 << 18  # bytes; messages above are decoded in a thread


class Fetch(Protocol):
    """How url + target is fetched: at most `limit` bytes of body; a WireError if there are more, or fewer than told."""

    def __call__(self, url: str, target: str, headers: dict[str, str], limit: int) -> Awaitable[Reply]: ...


@dataclass(eq=False)
class Link:
    """What is known of one neighbor."""

    neighbor: Neighbor
    message: ParameterMessage | None = None
    etag: str | None = None
    heard_at: float | None = None
    outcome: Literal["none", "heard", "failed", "refused"] = "none"
    reason: str | None = "it has not been asked yet"
    failures: int = 0
    retry_at: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    received: int = 0  # bytes of its answers' bodies

    def age_s(self, now: float) -> float | None:
        """Seconds since the neighbor last answered properly."""
        return None if self.heard_at is None else now - self.heard_at

    def state(self, now: float, stale_after_s: float) -> LinkState:
        """How good what is known of the neighbor is."""
        if self.outcome == "refused":
            return "refused"
        age = self.age_s(now)
        if age is None:
            return "unreachable"
        if age <= stale_after_s:
            return "fresh" if self.outcome == "heard" else "stale"
        return "stale" if self.outcome == "heard" else "unreachable"

    def shows(self, query: Query) -> bool:
        """Whether the last good message is the one that is asked for."""
        return self.message is not None and self.message.header.name == (query.epoch, query.round)


class Neighbors:
    """All links. The clock counts seconds; `fetch` and `jitter` are arguments so that tests can drive them."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float], jitter: Callable[[], float] = random.random) -> None:
        self._fetch, self._clock, self._jitter = fetch, clock, jitter
        self.links: list[Link] = []
        self._precision: Precision = "float64"

    def connect(self, neighbors: Sequence[Neighbor], precision: Precision) -> None:
        """Take these neighbors; what is known of those that stay is kept."""
        known = {link.neighbor.name: link for link in self.links}
        self.links = []
        self._precision = precision
        for neighbor in neighbors:
            link = known.get(neighbor.name)
            if link is None or link.neighbor.url != neighbor.url:
                link = Link(neighbor)
            link.neighbor = neighbor
            link.failures, link.retry_at = 0, 0.0
            if link.outcome != "heard":
                link.outcome, link.reason = "none", "it has not been asked yet in this epoch"
            self.links.append(link)

    async def pull_exactly(self, query: Query, deadline_s: float, codec: ParameterCodec) -> dict[str, ParameterMessage]:
        """Everybody's parameters of that very round, however long it takes (lockstep)."""
        pulls = (self._insist(link, query, deadline_s, codec) for link in self.links)
        messages = await asyncio.gather(*pulls)
        return {message.header.agent: message for message in messages}

    async def pull_latest(
        self, query: Query, deadline_s: float, stale_after_s: float, codec: ParameterCodec
    ) -> dict[str, ParameterMessage]:
        """Whatever the neighbors show, by the deadline; of those that do not answer, what they showed a while ago."""
        now = self._clock()
        due = [link for link in self.links if link.retry_at <= now]
        if due:
            pulls = {asyncio.create_task(self._ask(link, query, 0.0, codec)): link for link in due}
            try:
                _, late = await asyncio.wait(pulls, timeout=deadline_s)
            finally:
                for pull in pulls:
                    pull.cancel()
            if late:
                await asyncio.wait(late)  # until they have ended; unlike awaiting them, it keeps our own cancellation
            for pull in late:
                self._failed(pulls[pull], "deadline", "it did not answer by the deadline")
        now = self._clock()
        return {
            link.neighbor.name: link.message
            for link in self.links
            if link.message is not None and (link.age_s(now) or 0.0) <= stale_after_s
        }

    async def pull_once(self, name: str, deadline_s: float, codec: ParameterCodec) -> ParameterMessage:
        """What that neighbor shows, now or not at all."""
        link = next(link for link in self.links if link.neighbor.name == name)
        try:
            async with asyncio.timeout(deadline_s):
                await self._ask(link, Query(), 0.0, codec)
        except TimeoutError:
            self._failed(link, "deadline", "it did not answer by the deadline")
        if link.outcome != "heard" or link.message is None:
            raise PeerError(f"{name} cannot be asked for its belief: {link.reason}")
        return link.message

    async def _insist(self, link: Link, query: Query, deadline_s: float, codec: ParameterCodec) -> ParameterMessage:
        while True:
            if link.message is not None and link.shows(query):
                return link.message
            pause = link.retry_at - self._clock()
            if pause > 0:
                await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(deadline_s + _GRACE_S):
                    await self._ask(link, query, deadline_s, codec)
            except TimeoutError:
                self._failed(link, "deadline", "it did not answer by the deadline")

    async def _ask(self, link: Link, query: Query, wait_s: float, codec: ParameterCodec) -> None:
        """One request; whatever comes of it is noted in the link."""
        asked_at = self._clock()
        headers = {"Accept": MEDIA_TYPE}
        if query.round is None and link.etag is not None:
            headers["If-None-Match"] = link.etag
        try:
            reply = await self._fetch(link.neighbor.url, self._target(query, wait_s), headers, codec.size_limit)
            link.received += len(reply.body)
            if reply.status == 200:
                await self._accept(link, query, reply, codec)
            elif reply.status == 304 and "If-None-Match" in headers:
                self._heard(link, "unchanged")
            else:
                self._answered_otherwise(link, reply, patient=self._clock() - asked_at >= wait_s / 2)
        except WireError as fault:
            link.refusals[fault.reason] += 1
            self._refused(link, fault.reason, str(fault))
        except DelboError as fault:
            self._failed(link, "unreachable", str(fault))
        except ValueError as fault:  # UnicodeError: no host can have that name, no request that path
            self._failed(link, "unreachable", f"its url cannot be used: {fault}")

    async def _accept(self, link: Link, query: Query, reply: Reply, codec: ParameterCodec) -> None:
        large = len(reply.body) > _LARGE
        message = await asyncio.to_thread(codec.decode, reply.body) if large else codec.decode(reply.body)
        header, known = message.header, link.message
        if header.agent != link.neighbor.name:
            raise WireError("wrong-agent", f"{link.neighbor.name} was asked, and {header.agent} answered")
        if query.round is not None and header.name != (query.epoch, query.round):
            raise WireError("wrong-round", f"round {query.round} was asked for, and {header.round} came")
        if query.round is None and known is not None and _is_older(header, known.header):
            raise WireError("older", f"(epoch, round) {header.name} is older than {known.header.name}, known already")
        link.message, link.etag = message, reply.etag
        self._heard(link, "new")

    def _answered_otherwise(self, link: Link, reply: Reply, patient: bool) -> None:
        slug = problem_slug(reply.body)
        if reply.status == 404 and slug == ROUND_UNKNOWN:
            # It is there, and not yet so far. Ask again at once if it waited with us; else after a pause.
            if patient:
                self._heard(link, "waiting")
            else:
                self._failed(link, "waiting", "it is not yet so far")
        elif reply.status == 410 and slug == ROUND_GONE:
            link.refusals[ROUND_GONE] += 1
            self._refused(link, ROUND_GONE, "the round is no longer kept there: a new epoch is needed")
        else:
            self._failed(link, "error", f"it answered {reply.status} {slug or ''}".rstrip())

    def _heard(self, link: Link, what: str) -> None:
        link.outcome, link.reason, link.heard_at = "heard", None, self._clock()
        link.failures, link.retry_at = 0, 0.0
        link.counts[what] += 1

    def _failed(self, link: Link, what: str, reason: str) -> None:
        link.outcome, link.reason = "failed", reason
        link.counts[what] += 1
        self._back_off(link)

    def _refused(self, link: Link, slug: str, reason: str) -> None:
        link.outcome, link.reason = "refused", f"{slug}: {reason}"
        link.counts["refused"] += 1
        self._back_off(link)

    def _back_off(self, link: Link) -> None:
        pause = min(_FIRST_BACK_OFF_S * 2.0 ** min(link.failures, 20), _LONGEST_BACK_OFF_S)
        link.failures += 1
        link.retry_at = self._clock() + pause * (0.5 + 0.5 * self._jitter())

    def _target(self, query: Query, wait_s: float) -> str:
        target = f"/v1/parameters?precision={self._precision}"
        if query.round is not None:
            target += f"&epoch={query.epoch}&round={query.round}&wait_s={wait_s:g}"
        return target


def _is_older(one: Header, other: Header) -> bool:
    return one.incarnation == other.incarnation and one.name < other.name


def describe(link: Link, now: float, stale_after_s: float) -> NeighborStatus:
    """A link, as `/v1/status` tells it."""
    age = link.age_s(now)
    header = None if link.message is None else link.message.header
    return NeighborStatus(
        name=link.neighbor.name,
        url=link.neighbor.url,
        weight=link.neighbor.weight,
        state=link.state(now, stale_after_s),
        reason=link.reason,
        age_s=None if age is None else round(age, 3),
        epoch=None if header is None else header.epoch,
        round=None if header is None else header.round,
        pulls=dict(link.counts),
        refusals=dict(link.refusals),
    )
