"""The client for pulls against real sockets: whatever a peer sends, the answer is whole and right, or an error."""

import asyncio
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from service.agent.http_client import HttpClient, Reply
from service.errors import PeerError, WireError

LIMIT = 1000
PATIENCE_S = 20.0
OK = b"HTTP/1.1 200 OK\r\n"

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Peer:
    """A server that answers every request of a connection as its function says."""

    answer: Answer
    url: str = ""
    heads: list[bytes] = field(default_factory=list)
    connections: list[asyncio.StreamWriter] = field(default_factory=list)
    ended: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            while not writer.is_closing():
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                await self.answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended += 1
            writer.close()


@asynccontextmanager
async def listening(
    answer: Answer, host: str = "127.0.0.1", secure: ssl.SSLContext | None = None
) -> AsyncIterator[Peer]:
    peer = Peer(answer)
    server = await asyncio.start_server(peer.serve, host, 0, ssl=secure)
    address, port = server.sockets[0].getsockname()[:2]
    scheme = "http" if secure is None else "https"
    peer.url = f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}"
    try:
        yield peer
    finally:
        server.close()
        for writer in peer.connections:
            writer.close()
        await until(lambda: peer.ended == len(peer.connections))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - any condition
            await asyncio.sleep(0.001)


async def get(client: HttpClient, peer: Peer, target: str = "/v1/x", limit: int = LIMIT) -> Reply:
    async with asyncio.timeout(PATIENCE_S):
        return await client(peer.url, target, {"Accept": "a/b"}, limit)


def sends(*pieces: bytes, close: bool = False) -> Answer:
    """Each piece in a packet of its own, as far as one can tell."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if close:
            writer.close()

    return answer


def whole(body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n%s\r\n%s" % (status, len(body), more, body)


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return OK + b"transfer-encoding: chunked\r\n\r\n" + body + b"0\r\n" + trailer + b"\r\n"


async def ask_once(answer: Answer, limit: int = LIMIT) -> Reply:
    client = HttpClient()
    async with listening(answer) as peer:
        try:
            return await get(client, peer, limit=limit)
        finally:
            client.close()


# Answers that are right.


@pytest.mark.asyncio
async def test_the_request_says_what_it_has_to_and_no_more() -> None:
    client = HttpClient()
    async with listening(sends(whole(b"hello", more=b'ETag: "x"\r\n'))) as peer:
        assert await get(client, peer, "/v1/x?a=1") == Reply(200, '"x"', b"hello")
        host = peer.url.removeprefix("http://").encode()
        assert peer.heads == [b"GET /v1/x?a=1 HTTP/1.1\r\nHost: " + host + b"\r\nAccept: a/b\r\n\r\n"]
        client.close()


@pytest.mark.asyncio
async def test_a_base_url_with_a_path_keeps_it() -> None:
    client = HttpClient()
    async with listening(sends(whole(b""))) as peer:
        for prefix in ("/agents/a%20b", "/agents/a%20b/"):
            await client(peer.url + prefix, "/v1/x?a=1", {}, LIMIT)
        assert {head.split(b" ")[1] for head in peer.heads} == {b"/agents/a%20b/v1/x?a=1"}
        client.close()


@pytest.mark.asyncio
async def test_a_user_in_the_url_does_not_get_into_the_host_header() -> None:
    client = HttpClient()
    async with listening(sends(whole(b""))) as peer:
        await client(peer.url.replace("//", "//me:secret@"), "/", {}, LIMIT)
        assert b"secret" not in peer.heads[0]
        assert f"\r\nHost: {peer.url[7:]}\r\n".encode() in peer.heads[0]
        client.close()


@pytest.mark.asyncio
async def test_an_ipv6_address_is_in_brackets_in_the_host_header() -> None:
    client = HttpClient()
    try:
        async with listening(sends(whole(b"six")), host="::1") as peer:
            assert (await get(client, peer)).body == b"six"
            assert f"\r\nHost: {peer.url[7:]}\r\n".encode() in peer.heads[0]
            assert b"Host: [::1]:" in peer.heads[0]
            client.close()
    except OSError:
        pytest.skip("no IPv6 here")


@pytest.mark.parametrize(
    ("sent", "reply"),
    [
        (whole(b"hello", more=b'etag: "1"\r\n'), Reply(200, '"1"', b"hello")),
        (whole(b""), Reply(200, None, b"")),
        (chunked(b"hel", b"lo"), Reply(200, None, b"hello")),
        (chunked(*([b"x"] * LIMIT)), Reply(200, None, b"x" * LIMIT)),
        (whole(b"x" * LIMIT), Reply(200, None, b"x" * LIMIT)),
        (b'HTTP/1.1 304 Not Modified\r\netag: "7"\r\n\r\n', Reply(304, '"7"', b"")),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\n\r\n", Reply(304, None, b"")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Reply(204, None, b"")),
        (whole(b'{"type": "x"}', b"404 Not Found"), Reply(404, None, b'{"type": "x"}')),
        (b'HTTP/1.1 100 Continue\r\nETag: "no"\r\n\r\n' + whole(b"proper"), Reply(200, None, b"proper")),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3 + chunked(b"proper"), Reply(200, None, b"proper")),
    ],
    ids="length empty chunked tiny-chunks exactly-the-limit 304 304-with-length 204 404 100 103".split(),
)
@pytest.mark.parametrize("in_bytes", [False, True], ids=["one packet", "byte by byte"])
@pytest.mark.asyncio
async def test_an_answer_is_whole_however_it_comes_and_the_connection_is_used_again(
    sent: bytes, reply: Reply, in_bytes: bool
) -> None:
    client = HttpClient()
    pieces = [sent[at : at + 1] for at in range(len(sent))] if in_bytes else [sent]
    async with listening(sends(*pieces)) as peer:
        for _ in range(3):
            assert await get(client, peer) == reply
        assert len(peer.connections) == 1
        client.close()


@pytest.mark.parametrize(
    "head", [OK, b"HTTP/1.0 200 OK\r\n", OK + b"Connection: close\r\n"], ids=["1.1", "1.0", "told so"]
)
@pytest.mark.asyncio
async def test_an_answer_without_a_length_ends_with_its_connection(head: bytes) -> None:
    client = HttpClient()
    async with listening(sends(head + b'etag: "1"\r\n\r\n', b"hel", b"lo", close=True)) as peer:
        for count in (1, 2):
            assert await get(client, peer) == Reply(200, '"1"', b"hello")
            assert len(peer.connections) == count
        client.close()


@pytest.mark.asyncio
async def test_after_connection_close_a_new_one_is_made() -> None:
    client = HttpClient()
    async with listening(sends(whole(b"bye", more=b"Connection: close\r\n"))) as peer:
        for count in (1, 2):
            assert (await get(client, peer)).body == b"bye"
            await until(lambda count=count: peer.ended == count)  # type: ignore[misc]
        client.close()


@pytest.mark.asyncio
async def test_of_a_long_problem_the_beginning_is_kept_and_of_an_endless_one_nothing() -> None:
    reply = await ask_once(sends(whole(b"x" * 60_000, b"500 Oh")))
    assert reply.status == 500
    assert len(reply.body) <= 4096
    with pytest.raises(WireError, match="an error's body is too long") as fault:
        await ask_once(sends(whole(b"x" * 100_000, b"500 Oh")))
    assert fault.value.reason == "oversized"


@pytest.mark.asyncio
async def test_a_problem_may_be_longer_than_a_message() -> None:
    assert await ask_once(sends(whole(b"12345", b"404 Not Found")), limit=3) == Reply(404, None, b"12345")


# Answers that are wrong.


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (OK + b"content-length: 1001\r\n\r\n", "oversized"),  # told before any of it comes
        (OK + b"content-length: 99999999999\r\n\r\n", "oversized"),
        (OK + b"content-length: 99999999999999999999999\r\n\r\n", "malformed"),
        (chunked(b"x" * 600, b"x" * 401), "oversized"),
        (OK + b"\r\n" + b"x" * 1001, "oversized"),
        (whole(b"hello", more=b"content-encoding: gzip\r\n"), "malformed"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "malformed"),
        (b"\x16\x03\x01\x02\x00" * 10, "malformed"),
        (b"HTTP/1.1 twohundred OK\r\n\r\n", "malformed"),
        (OK + b"transfer-encoding: chunked\r\n\r\nnot hexadecimal\r\n", "malformed"),
        (OK + b"content-length: five\r\n\r\nhello", "malformed"),
        (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nxyz", "malformed"),
        (OK + b"x-flood: 1\r\n" * 10_000, "oversized"),
        (OK + b"x-flood: " + b"x" * 100_000, "oversized"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "oversized"),
        (chunked(b"hello")[:-2] + b"x-trailer: " + b"x" * 200_000, "oversized"),
        (OK + b"transfer-encoding: chunked\r\n\r\n5;" + b"x" * 200_000, "oversized"),
    ],
    ids="length huge-length absurd-length chunks until-close gzip ssh tls status chunk length-word upgrade headers "
    "one-header interim trailer extension".split(),
)
@pytest.mark.asyncio
async def test_a_bad_answer_is_refused_while_the_peer_still_holds_the_connection(sent: bytes, reason: str) -> None:
    client = HttpClient()
    async with listening(sends(sent)) as peer:
        with pytest.raises(WireError) as fault:
            await get(client, peer)
        assert fault.value.reason == reason
        await until(lambda: peer.ended == 1)  # by this side: the peer would have gone on
        assert not any(client._idle.values())


@pytest.mark.parametrize(
    "sent",
    [
        OK[:7],
        OK,
        OK + b"content-length: 5\r\n\r\n",
        whole(b"hello")[:-1],
        chunked(b"hello")[:-1],
        chunked(b"hello")[:-12],
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids="line head empty body end chunk interim".split(),
)
@pytest.mark.asyncio
async def test_an_answer_that_breaks_off_is_truncated(sent: bytes) -> None:
    with pytest.raises(WireError) as fault:
        await ask_once(sends(sent, close=True))
    assert fault.value.reason == "truncated"


@pytest.mark.asyncio
async def test_an_answer_without_a_length_that_ends_by_a_reset_is_truncated() -> None:
    ready = asyncio.Event()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\nhello")
        await ready.wait()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    client = HttpClient()
    async with listening(answer) as peer:
        waiting = asyncio.create_task(get(client, peer))
        await until(lambda: len(peer.heads) == 1)
        for _ in range(10):
            await asyncio.sleep(0.001)  # so that the beginning is read before the reset
        ready.set()
        with pytest.raises(WireError) as fault:
            await waiting
        assert fault.value.reason == "truncated"


@pytest.mark.asyncio
async def test_a_peer_that_closes_without_a_word_is_a_plain_error_and_is_not_asked_twice() -> None:
    client = HttpClient()
    async with listening(sends(close=True)) as peer:
        with pytest.raises(PeerError, match="it closed the connection"):
            await get(client, peer)
        assert len(peer.heads) == 1


@pytest.mark.asyncio
async def test_a_peer_that_is_not_there_is_told_in_plain_words() -> None:
    async with listening(sends()) as peer:
        pass
    for url in (peer.url, peer.url.replace("http:", "https:"), "http://no-such-host.invalid:1"):
        with pytest.raises(PeerError, match="it cannot be reached: ") as fault:
            await HttpClient()(url, "/", {}, LIMIT)
        assert "Errno" not in str(fault.value)


# TLS.


def certificate(folder: Path) -> ssl.SSLContext:
    key, signed = folder / "key.pem", folder / "certificate.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    try:
        subprocess.run([*command.split(), "-keyout", key, "-out", signed], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed, key)
    return context


@pytest.mark.asyncio
async def test_tls_is_spoken_to_who_can_prove_who_he_is_and_to_no_one_else(tmp_path: Path) -> None:
    context = certificate(tmp_path)
    client = HttpClient()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server's view of a refused handshake
    async with listening(sends(whole(b"secret")), secure=context) as peer:
        with pytest.raises(PeerError, match=r"it cannot be reached: .*self[- ]signed certificate"):
            await get(client, peer)
        assert peer.heads == []
        client._secure = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
        for _ in range(2):
            assert (await get(client, peer)).body == b"secret"
        assert len(peer.heads) == 2
        client.close()
        await until(lambda: peer.ended == len(peer.connections))


@pytest.mark.asyncio
async def test_tls_to_a_peer_that_speaks_plain_http_is_told() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        with pytest.raises(PeerError, match="it cannot be reached: "):
            await HttpClient()(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", "/", {}, LIMIT)


# Connections.


@pytest.mark.asyncio
async def test_a_kept_connection_that_the_peer_closed_is_replaced_once() -> None:
    """Whether the client has noticed it yet or not."""
    client = HttpClient()
    async with listening(sends(whole(b"here"))) as peer:
        for notices in (False, True):
            await get(client, peer)
            connections = len(peer.connections)
            [kept] = [kept for idle in client._idle.values() for kept in idle]
            peer.connections[-1].close()
            if notices:
                await until(lambda kept=kept: not kept.is_open)  # type: ignore[misc]
            assert (await get(client, peer)).body == b"here"
            assert len(peer.connections) == connections + 1
        client.close()


@pytest.mark.asyncio
async def test_a_kept_connection_that_is_closed_after_the_request_is_replaced_once_and_no_more() -> None:
    served = 0

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        if served == 1:
            writer.write(whole(b"first"))
        else:
            writer.close()

    client = HttpClient()
    async with listening(answer) as peer:
        await get(client, peer)
        with pytest.raises(PeerError, match="it closed the connection"):
            await get(client, peer)
        assert (served, len(peer.connections)) == (3, 2)


@pytest.mark.asyncio
async def test_an_answer_that_broke_off_on_a_kept_connection_is_not_asked_for_again() -> None:
    served = 0

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        writer.write(whole(b"hello")[: None if served == 1 else -1])
        if served > 1:
            writer.close()

    client = HttpClient()
    async with listening(answer) as peer:
        await get(client, peer)
        with pytest.raises(WireError, match="broke off"):
            await get(client, peer)
        assert served == 2


@pytest.mark.parametrize("again", [b"", whole(b"unasked"), b"HTT", b"\r\n"], ids=["none", "answer", "piece", "newline"])
@pytest.mark.asyncio
async def test_what_comes_unasked_is_never_taken_for_an_answer(again: bytes) -> None:
    """On an idle connection, and in one packet with the answer proper: the connection is not used again."""
    number = 0

    def answers(together: bool) -> Answer:
        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal number
            number += 1
            asked = whole(b"%d" % number)
            writer.writelines([asked + again] if together else [asked])

        return answer

    for together in (True, False):
        client = HttpClient()
        number = 0
        async with listening(answers(together)) as peer:
            for expected in (b"1", b"2", b"3"):
                assert (await get(client, peer)).body == expected
                if again and not together:
                    peer.connections[-1].write(again)
                    await until(lambda peer=peer, number=number: peer.ended == number)  # type: ignore[misc]
            # llhttp passes over empty lines between messages, as HTTP wants it.
            assert len(peer.connections) == (3 if again.strip() or (again and not together) else 1)
            client.close()


@pytest.mark.asyncio
async def test_whoever_gives_up_closes_the_connection_and_the_next_gets_his_own_answer() -> None:
    release = asyncio.Event()
    number = 0

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        number += 1
        mine = number
        if mine == 2:
            await release.wait()
        writer.write(whole(b"%d" % mine))

    client = HttpClient()
    async with listening(answer) as peer:
        await get(client, peer)
        waiting = asyncio.create_task(get(client, peer))
        await until(lambda: len(peer.heads) == 2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not any(client._idle.values())
        release.set()
        assert (await get(client, peer)).body == b"3"
        assert len(peer.connections) == 2
        client.close()


@pytest.mark.asyncio
async def test_requests_at_once_have_connections_of_their_own_and_few_are_kept() -> None:
    count = 7
    together = asyncio.Barrier(count)

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = peer.heads[-1].split(b" ")[1]
        await together.wait()
        writer.write(whole(target))

    client = HttpClient()
    async with listening(answer) as peer:
        for made in (count, count + 3):  # four were kept
            replies = await asyncio.gather(*(get(client, peer, f"/{number}") for number in range(count)))
            assert len(peer.connections) == made
        assert {reply.status for reply in replies} == {200}
        assert sum(map(len, client._idle.values())) == 4
        client.close()
        await until(lambda: peer.ended == len(peer.connections))


@pytest.mark.asyncio
async def test_peers_do_not_share_connections() -> None:
    client = HttpClient()
    async with listening(sends(whole(b"one"))) as one, listening(sends(whole(b"two"))) as two:
        for _ in range(3):
            assert (await get(client, one)).body == b"one"
            assert (await get(client, two)).body == b"two"
        assert (len(one.connections), len(two.connections)) == (1, 1)
        client.close()


@pytest.mark.asyncio
async def test_closing_ends_idle_connections_at_once_and_busy_ones_with_their_answers() -> None:
    release = asyncio.Event()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(peer.heads) == 2:
            await release.wait()
        writer.write(whole(b"late"))

    client = HttpClient()
    async with listening(answer) as peer, listening(sends(whole(b"idle"))) as idle:
        await get(client, peer)
        await get(client, idle)
        busy = asyncio.create_task(get(client, peer))
        await until(lambda: len(peer.heads) == 2)
        client.close()
        await until(lambda: idle.ended == 1)
        release.set()
        assert (await busy).body == b"late"
        await until(lambda: peer.ended == 1)


@pytest.mark.asyncio
async def test_thousands_of_pulls_use_one_connection() -> None:
    client = HttpClient()
    async with listening(sends(whole(b"x" * 500))) as peer:
        for _ in range(2000):
            assert len((await client(peer.url, "/v1/x", {}, LIMIT)).body) == 500
        assert len(peer.connections) == 1
        client.close()
