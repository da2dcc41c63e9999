"""Tokens: how a folder of them is read, which of them a client sends where, how they are made and replaced."""

import asyncio
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from client.agent_client import AgentClient
from client.blocking import BlockingAgentClient
from client.retries import NO_PATIENCE, Patience
from client.tokens import Step, TokenFolder, make_tokens, replace_tokens, token_for
from service.errors import DelboError, SettingError
from service.wire.roles import ENDPOINTS, ROLES, Role
from service.wire.tokens import read_tokens
from tests.client.raw_server import RawServer, problem_reply, raw_server, reply
from tests.client.test_agent_client import CALLS
from tests.conftest import Delbo

RULE = "a token has 16 to 512 letters, digits and any of ._~+/-, and may end with ="
A, B, C = "first-token-of-a-role", "second-token-of-a-role", "third-token-of-a-role"
OF_ROLE: dict[Role, str] = {role: f"the-token-of-{role}-" + "x" * 16 for role in ROLES}

# What each method of a client may be asked with, in the words of a user and not of the table.
ROLE_OF_METHOD: dict[str, Role | None] = {
    **dict.fromkeys(("put_model", "put_neighbors", "put_schedule", "put_verification", "run_rounds"), "control"),
    **dict.fromkeys(("post", "end", "position", "recent"), "ingest"),
    "parameters": "peer",
    **dict.fromkeys(("model", "neighbors", "schedule", "verification"), "read"),
    **dict.fromkeys(("belief", "predict", "map", "events", "status", "history"), "read"),
    **dict.fromkeys(("metrics", "is_alive", "readiness"), None),
}


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Modes of files hang on it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one token for every role."""
    folder = tmp_path / "tokens"
    folder.mkdir()
    for role, token in OF_ROLE.items():
        (folder / role).write_text(f"{token}\n")
    return folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


# Reading.


@pytest.mark.parametrize(
    "content",
    [
        f"{A}\n{B}\n",
        f"{A}\n{B}",
        f"{A}\r\n{B}\r\n",
        f"\n\n  {A}\t\n\n{B}\n\n",
        f"# who has it\n{A}\n  # {C}\n{B}\n#",
        f"{A}\n{B}\n{A}\n",
    ],
)
def test_a_file_has_a_token_a_line_beside_blank_lines_and_comments(tmp_path: Path, content: str) -> None:
    (tmp_path / "read").write_bytes(content.encode())
    assert read_tokens(tmp_path) == {"peer": (), "ingest": (), "read": (A, B), "control": ()}


@pytest.mark.parametrize("token", ["x" * 16, "x" * 512, "x" * 510 + "==", "AZaz09._~+/-AZaz09=="])
def test_what_a_bearer_token_may_be_is_taken(tmp_path: Path, token: str) -> None:
    (tmp_path / "peer").write_text(token)
    assert read_tokens(tmp_path)["peer"] == (token,)


@pytest.mark.parametrize(
    "bad",
    [
        b"x" * 15,
        b"x" * 513,
        b"=" * 20,
        b"two-words-are no-token",
        b"a-token-with-a-comma,",
        b"Bearer-is-not-part:of-it",
        "a-token-with-an-ümlaut".encode(),
        b"\xef\xbb\xbfmarked-as-utf-8-by-an-editor",
        b"one-line\rof-an-old-machine",
        b"a-token-and\x00a-zero-byte",
        bytes(range(128, 192)),
    ],
)
def test_what_is_no_token_is_told_by_its_line_and_not_shown(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "ingest"
    path.write_bytes(f"# a comment\n{A}\n".encode() + bad + f"\n{B}\n".encode())
    with pytest.raises(SettingError) as fault:
        read_tokens(tmp_path)
    assert str(fault.value) == f"{path}, line 3: {RULE}"
    assert fault.value.__cause__ is None


def test_a_folder_without_a_token_is_told_with_what_makes_one(tmp_path: Path) -> None:
    sentence = f"{tmp_path}: has no tokens: delbo tokens {tmp_path} makes a set"
    with pytest.raises(SettingError) as fault:
        read_tokens(tmp_path)
    assert str(fault.value) == sentence
    with pytest.raises(SettingError, match="has no tokens"):
        read_tokens(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["", "# none\n\n"])
def test_a_file_without_a_token_is_a_fault_and_not_a_role_without_one(tmp_path: Path, content: str) -> None:
    """Who copies a file empties it first: for that moment nobody shall be locked out."""
    make_tokens(tmp_path)
    (tmp_path / "peer").write_text(content)
    with pytest.raises(SettingError, match="peer: holds no token; remove the file"):
        read_tokens(tmp_path)


def test_a_file_has_at_most_so_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "read"
    path.write_text(f"{A}\n#".ljust(65_536, "-"))
    assert read_tokens(tmp_path)["read"] == (A,)
    path.write_text(f"{A}\n#".ljust(65_537, "-"))
    with pytest.raises(SettingError) as fault:
        read_tokens(tmp_path)
    assert str(fault.value) == f"{path}: is longer than 65536 bytes, and so no file of tokens"


def test_a_role_has_at_most_a_hundred_tokens(tmp_path: Path) -> None:
    path, tokens = tmp_path / "read", [f"token-number-{number:08}" for number in range(101)]
    path.write_text("\n".join(tokens[:100]))
    assert read_tokens(tmp_path)["read"] == tuple(tokens[:100])
    path.write_text("\n".join(tokens))
    with pytest.raises(SettingError) as fault:
        read_tokens(tmp_path)
    assert str(fault.value) == f"{path}: has 101 tokens, and a role has 100 at most"


def test_what_cannot_be_read_is_told_by_its_name(folder: Path) -> None:
    path = folder / "control"
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingError) as fault:
        read_tokens(folder)
    assert str(fault.value) == f"{path}: cannot be read: Is a directory"
    path.rmdir()
    path.symlink_to(path)  # which root cannot read either
    with pytest.raises(SettingError, match=f"^{path}: cannot be read: "):
        read_tokens(folder)
    with pytest.raises(SettingError) as fault:
        read_tokens(folder / "read")
    assert str(fault.value) == f"{folder / 'read' / 'peer'}: cannot be read: Not a directory"


# A folder that is read again.


def test_a_folder_is_read_again_a_second_later_and_not_before(folder: Path) -> None:
    now = 100.0
    tokens = TokenFolder(folder, lambda: now)
    assert {role: tokens(role) for role in ROLES} == OF_ROLE
    (folder / "read").write_text(f"{A}\n{B}\n")
    (folder / "peer").unlink()
    now = 100.5
    assert (tokens("read"), tokens("peer")) == (OF_ROLE["read"], OF_ROLE["peer"])
    now = 101.0
    assert (tokens("read"), tokens("peer"), tokens("ingest")) == (A, None, OF_ROLE["ingest"])
    (folder / "read").write_text(f"{B}\n{A}\n")
    now = 101.9
    assert tokens("read") == A
    now = 102.0
    assert tokens("read") == B


def test_a_folder_that_breaks_leaves_the_tokens_that_were_read_and_is_read_when_it_is_whole(folder: Path) -> None:
    now = 0.0
    tokens = TokenFolder(folder, lambda: now)
    (folder / "read").write_text(f"{A}\n")
    (folder / "control").write_text("short\n")
    now = 1.0
    assert {role: tokens(role) for role in ROLES} == OF_ROLE
    folder.rename(folder.with_name("elsewhere"))
    now = 2.0
    assert {role: tokens(role) for role in ROLES} == OF_ROLE
    folder.with_name("elsewhere").rename(folder)
    (folder / "control").write_text(f"{B}\n")
    now = 3.0
    assert {role: tokens(role) for role in ROLES} == {**OF_ROLE, "read": A, "control": B}


def test_a_folder_that_is_broken_at_first_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="has no tokens"):
        TokenFolder(tmp_path)


def test_nothing_is_sent_where_no_role_is_needed(folder: Path) -> None:
    for tokens in (None, A, TokenFolder(folder)):
        assert token_for(tokens, None) is None
    assert [token_for(None, role) for role in ROLES] == [None] * 4


# What a client sends.


def sent(server: RawServer) -> list[str | None]:
    return [asked.headers.get("authorization") for asked in server.asked]


@pytest.mark.asyncio
async def test_every_method_sends_the_token_of_its_role(folder: Path) -> None:
    """A method that is not in this table fails here."""
    assert set(ROLE_OF_METHOD) == set(CALLS)
    everything: dict[Role, str | None] = dict.fromkeys(ROLES, A)
    nothing: dict[Role, str | None] = dict.fromkeys(ROLES)
    async with raw_server(reply(200, b"{}")) as server:
        for tokens, expected in ((TokenFolder(folder), OF_ROLE), (A, everything), (None, nothing)):
            async with AgentClient(server.url, NO_PATIENCE, tokens=tokens) as client:
                for name, call in CALLS.items():
                    server.asked.clear()
                    with suppress(DelboError):  # this is no answer
                        await call(client)
                    [asked] = server.asked
                    role = ROLE_OF_METHOD[name]
                    assert ENDPOINTS[asked.method, asked.target.partition("?")[0]] == role, name
                    token = None if role is None else expected[role]
                    assert sent(server) == [None if token is None else f"Bearer {token}"], name


@pytest.mark.asyncio
async def test_where_a_folder_lacks_a_role_nothing_is_sent(folder: Path) -> None:
    for role in ("peer", "ingest", "control"):
        (folder / role).unlink()
    async with raw_server(reply(200, b"{}")) as server:
        async with AgentClient(server.url, NO_PATIENCE, tokens=TokenFolder(folder)) as client:
            for call in CALLS.values():
                with suppress(DelboError):
                    await call(client)
        roles = [ROLE_OF_METHOD[name] for name in CALLS]
        assert sent(server) == [f"Bearer {OF_ROLE['read']}" if role == "read" else None for role in roles]


@pytest.mark.asyncio
async def test_a_stream_sends_the_token_of_ingest(folder: Path) -> None:
    stored = reply(200, b'{"stored": 1, "next_sequence": 1}')
    position = reply(200, b'{"client": "robot", "next_sequence": 0, "ended": false}')
    async with raw_server(position, stored) as server:
        async with AgentClient(server.url, NO_PATIENCE, tokens=TokenFolder(folder)) as client:
            stream = client.stream("robot")
            await stream.post([1.0], 1.0)
            await stream.end()
        assert sent(server) == [f"Bearer {OF_ROLE['ingest']}"] * 3


@pytest.mark.asyncio
async def test_the_client_that_blocks_sends_the_same(folder: Path) -> None:
    def ask(url: str) -> None:
        with BlockingAgentClient(url, NO_PATIENCE, tokens=TokenFolder(folder)) as client:
            for call in (client.status, client.end, client.run_rounds, client.is_alive):
                with suppress(DelboError):
                    call()

    async with raw_server(reply(200, b"{}")) as server:
        await asyncio.to_thread(ask, server.url)
        roles: tuple[Role, ...] = ("read", "ingest", "control")
        assert sent(server) == [*(f"Bearer {OF_ROLE[role]}" for role in roles), None]


@pytest.mark.asyncio
async def test_another_attempt_sends_the_token_of_that_moment() -> None:
    tokens = iter((A, B))
    busy, answer = problem_reply(503, "starting"), reply(200, b'{"rounds": []}')
    async with raw_server(busy, answer) as server:
        patience = Patience(first_pause_s=0.0, longest_pause_s=0.0)
        async with AgentClient(server.url, patience, tokens=lambda _: next(tokens)) as client:
            assert await client.history() == ()
        assert sent(server) == [f"Bearer {A}", f"Bearer {B}"]


@pytest.mark.parametrize("slip", [f"{A}\n", "a-tökën-of-a-user", ""])
@pytest.mark.asyncio
async def test_a_string_that_cannot_be_sent_is_refused_without_showing_it(slip: str) -> None:
    """The first is what reading a file gives; it may as well be taken for the token that it holds."""
    said = ""
    async with raw_server(reply(200, b'{"rounds": []}')) as server:
        try:
            async with AgentClient(server.url, NO_PATIENCE, tokens=slip) as client:
                await client.history()
        except SettingError as fault:
            said = str(fault)
        assert said or sent(server) == [f"Bearer {A}"]
    assert slip == "" or slip.strip() not in said


# Making.


def test_tokens_makes_a_file_for_every_role_in_a_folder_for_its_owner(delbo_here: Delbo, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tokens"
    done = delbo_here("tokens", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "wrote " + " ".join(str(folder / role) for role in ROLES) + "\n"
    assert mode(folder) == 0o700
    assert {path.name: mode(path) for path in folder.iterdir()} == dict.fromkeys(ROLES, 0o644)
    tokens = read_tokens(folder)
    assert [len(tokens[role]) for role in ROLES] == [1, 1, 1, 1]
    assert len({token for of_role in tokens.values() for token in of_role}) == 4
    assert min(len(token) for of_role in tokens.values() for token in of_role) >= 43  # 256 bits


def test_in_a_folder_that_others_may_enter_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    for number, open_mode in enumerate((0o755, 0o710, 0o701, 0o704)):
        folder = tmp_path / str(number)
        folder.mkdir()
        folder.chmod(open_mode)
        make_tokens(folder)
        assert {path.name: mode(path) for path in folder.iterdir()} == dict.fromkeys(ROLES, 0o600), oct(open_mode)
        assert mode(folder) == open_mode
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    make_tokens(closed)
    assert mode(closed / "peer") == 0o644


def test_in_a_closed_folder_files_may_be_read_by_a_container_whatever_the_umask_is(tmp_path: Path) -> None:
    """Who runs in a container is another user, and gets the file without its folder."""
    os.umask(0o077)
    make_tokens(tmp_path / "tokens")
    assert mode(tmp_path / "tokens") == 0o700
    assert {mode(path) for path in (tmp_path / "tokens").iterdir()} == {0o644}


def test_tokens_again_changes_nothing_and_makes_what_is_missing(delbo_here: Delbo, tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    delbo_here("tokens", folder)
    before = contents(folder)
    again = delbo_here("tokens", folder)
    assert (again.returncode, again.stdout) == (0, f"{folder} has them already\n")
    assert contents(folder) == before
    (folder / "read").unlink()
    assert delbo_here("tokens", folder).stdout == f"wrote {folder / 'read'}\n"
    after = contents(folder)
    assert after.pop("read") != before.pop("read")
    assert after == before


def test_tokens_makes_only_the_roles_that_are_named(delbo_here: Delbo, tmp_path: Path) -> None:
    done = delbo_here("tokens", tmp_path / "t", "--role", "read", "--role", "ingest")
    assert done.stdout == f"wrote {tmp_path / 't' / 'ingest'} {tmp_path / 't' / 'read'}\n"
    assert set(contents(tmp_path / "t")) == {"read", "ingest"}
    refused = delbo_here("tokens", tmp_path / "u", "--role", "everything")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert not (tmp_path / "u").exists()


def test_of_many_that_make_tokens_at_once_one_makes_each(tmp_path: Path) -> None:
    threads, made = 8, []
    gate = threading.Barrier(threads)

    def make() -> None:
        gate.wait()
        made.extend(make_tokens(tmp_path / "tokens"))

    running = [threading.Thread(target=make) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert sorted(made) == sorted(tmp_path / "tokens" / role for role in ROLES)
    assert [len(tokens) for tokens in read_tokens(tmp_path / "tokens").values()] == [1, 1, 1, 1]
    assert {path.name for path in (tmp_path / "tokens").iterdir()} == set(ROLES)  # no draft is left


@contextmanager
def full_disk() -> Iterator[None]:
    """Files can be made, but not written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_token_that_cannot_be_written_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    """A file without a token would pass for one that is there already, and be in the way for ever."""
    with full_disk(), pytest.raises(SettingError) as fault:
        make_tokens(tmp_path)
    assert str(fault.value) == f"{tmp_path / 'peer'}: cannot be written: File too large"
    assert contents(tmp_path) == {}
    assert make_tokens(tmp_path) == [tmp_path / role for role in ROLES]


@pytest.mark.parametrize("content", [None, "", "# a comment\n", "short\n"])
def test_tokens_does_not_take_for_a_token_what_is_none(delbo_here: Delbo, tmp_path: Path, content: str | None) -> None:
    """None: a folder, which is what docker makes of a file to mount that is missing."""
    path = tmp_path / "peer"
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    done = delbo_here("tokens", tmp_path)
    if done.returncode == 0:
        assert all(read_tokens(tmp_path).values())
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"delbo: {path}")


def test_a_place_where_no_folder_can_be_is_told(delbo_here: Delbo, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for folder, why in ((file, "File exists"), (file / "below", "Not a directory")):
        refused = delbo_here("tokens", folder)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == f"delbo: {folder}: cannot be made a folder: {why}\n"
    assert file.read_text() == "mine"


# Replacing.


def test_a_token_is_replaced_in_three_steps(delbo_here: Delbo, folder: Path) -> None:
    old = read_tokens(folder)
    files = {role: ((folder / role).stat().st_ino, mode(folder / role)) for role in ROLES}

    def step(name: str) -> dict[Role, tuple[str, ...]]:
        done = delbo_here("tokens", folder, "--replace", name)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("peer, ingest, read, control: ")
        tokens = dict(read_tokens(folder))
        assert not any(token in done.stdout for of_role in tokens.values() for token in of_role)
        return tokens

    added = step("add")
    assert {role: tokens[:-1] for role, tokens in added.items()} == old
    new = {role: tokens[-1] for role, tokens in added.items()}
    assert len({*new.values(), *OF_ROLE.values()}) == 8
    assert step("use") == {role: (new[role], OF_ROLE[role]) for role in ROLES}
    assert step("drop") == {role: (new[role],) for role in ROLES}
    # Somebody may have mounted the very files.
    assert {role: ((folder / role).stat().st_ino, mode(folder / role)) for role in ROLES} == files


def test_of_several_tokens_the_first_is_replaced_and_what_else_is_there_stays(folder: Path) -> None:
    path = folder / "read"
    path.write_text(f"# ours\n{A}\r\n\n# the museum's\n{B}")
    replace_tokens(folder, ["read"], Step.add)
    first, second, new = read_tokens(folder)["read"]
    assert (first, second) == (A, B)
    replace_tokens(folder, ["read"], Step.use)
    assert read_tokens(folder)["read"] == (new, B, A)
    replace_tokens(folder, ["read"], Step.drop)
    assert path.read_text() == f"# ours\n{new}\n\n# the museum's\n{B}\n"


def test_only_the_roles_that_are_named_are_replaced(delbo_here: Delbo, folder: Path) -> None:
    before = contents(folder)
    done = delbo_here("tokens", folder, "--role", "control", "--replace", "add")
    assert done.stdout.startswith("control: a new token is accepted")
    after = contents(folder)
    assert after.pop("control") != before.pop("control")
    assert after == before


def test_steps_out_of_their_turn_are_refused_and_change_nothing(folder: Path) -> None:
    for turn in (Step.add, Step.use, Step.drop, Step.add):
        before = contents(folder)
        for step in set(Step) - {turn}:
            with pytest.raises(SettingError, match=f"peer: the next step there is {turn}, not {step}"):
                replace_tokens(folder, None, step)
            assert contents(folder) == before
        replace_tokens(folder, None, turn)


def test_a_role_without_tokens_stays_without_and_is_not_said_to_have_got_one(delbo_here: Delbo, tmp_path: Path) -> None:
    (tmp_path / "read").write_text(f"{A}\n")
    done = delbo_here("tokens", tmp_path, "--role", "peer", "--replace", "add")
    assert contents(tmp_path) == {"read": f"{A}\n"}
    assert "accepted" not in done.stdout
    done = delbo_here("tokens", tmp_path, "--replace", "add")
    assert set(contents(tmp_path)) == {"read"}
    assert "peer" not in done.stdout


def test_adding_never_breaks_a_file_that_is_full(folder: Path) -> None:
    (folder / "read").write_text("".join(f"token-number-{number:08}\n" for number in range(100)))
    with suppress(SettingError):
        replace_tokens(folder, ROLES, Step.add)
    assert len(read_tokens(folder)["read"]) == 100


@pytest.mark.parametrize("step", Step)
def test_what_cannot_be_replaced_is_told_and_left_alone(delbo_here: Delbo, folder: Path, step: Step) -> None:
    (folder / "control").write_text(f"{A}\nsecret\n")
    before = contents(folder)
    refused = delbo_here("tokens", folder, "--replace", step)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"delbo: {folder / 'control'}, line 2: a token has ")
    assert "secret" not in refused.stderr
    assert contents(folder) == before
    nowhere = folder / "nowhere"
    refused = delbo_here("tokens", nowhere, "--replace", step)
    assert refused.stderr == f"delbo: {nowhere}: has no tokens: delbo tokens {nowhere} makes a set\n"
    assert not nowhere.exists()


def test_a_step_that_cannot_be_written_is_told(folder: Path) -> None:
    before = contents(folder)
    with full_disk(), pytest.raises(SettingError) as fault:
        replace_tokens(folder, ["ingest"], Step.add)
    assert str(fault.value) == f"{folder / 'ingest'}: cannot be written: File too large"
    assert contents(folder) == before
