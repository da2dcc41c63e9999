"""The file that tells where an agent listens: whole or not there, whatever happened to it."""

import errno
from pathlib import Path

import msgspec
import pytest

from service.wire.address import Address, read_address, write_address

ADDRESS = Address('a "b" ü', 2**62 - 1, 4711, "http://[::1]:8001")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_address(tmp_path, ADDRESS)
    assert read_address(tmp_path) == ADDRESS
    assert [path.name for path in tmp_path.iterdir()] == ["address.json"]


def test_the_newest_is_read(tmp_path: Path) -> None:
    long = Address("a" * 64, 1, 1, "http://127.0.0.1:1")
    write_address(tmp_path, long)
    write_address(tmp_path, ADDRESS)
    assert read_address(tmp_path) == ADDRESS


def test_whoever_reads_while_it_is_replaced_reads_the_old_one_whole(tmp_path: Path) -> None:
    write_address(tmp_path, ADDRESS)
    with (tmp_path / "address.json").open("rb", buffering=0) as reader:
        begin = reader.read(10)
        write_address(tmp_path, Address("a", 1, 2, "http://127.0.0.1:2"))
        assert msgspec.json.decode(begin + reader.read(), type=Address) == ADDRESS


def test_where_there_is_nothing_none_is_read(tmp_path: Path) -> None:
    assert read_address(tmp_path) is None
    assert read_address(tmp_path / "no such folder") is None
    (tmp_path / "address.json").mkdir()
    assert read_address(tmp_path) is None


def test_of_a_torn_file_none_is_read(tmp_path: Path) -> None:
    write_address(tmp_path, ADDRESS)
    whole = (tmp_path / "address.json").read_bytes().rstrip()
    for length in range(len(whole)):
        (tmp_path / "address.json").write_bytes(whole[:length])
        assert read_address(tmp_path) is None, whole[:length]


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 4096,
        b"\xff\xfe",
        b'{"agent": "\xff", "incarnation": 1, "pid": 1, "url": "http://a"}',
        b'{"agent": "a", "incarnation": 1, "pid": "1", "url": "http://a"}',
        b'{"agent": "a", "incarnation": 1, "pid": 1}',
        b'{"more": ' + b"[" * 100_000,
        b"[]",
        b"http://127.0.0.1:8001\n",
    ],
    ids="zeros bytes not-utf8 text-for-number no-url deep list text".split(),
)
def test_of_a_foreign_file_none_is_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "address.json").write_bytes(content)
    assert read_address(tmp_path) is None


def test_a_newer_agents_file_may_tell_more(tmp_path: Path) -> None:
    (tmp_path / "address.json").write_text('{"agent": "a", "incarnation": 1, "pid": 2, "url": "http://a", "since": 3}')
    assert read_address(tmp_path) == Address("a", 1, 2, "http://a")


def test_a_disk_that_fails_leaves_the_old_address_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_address(tmp_path, ADDRESS)

    def fail(path: Path, content: bytes) -> int:
        with path.open("wb") as half:
            half.write(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left"):
        write_address(tmp_path, Address("a", 1, 2, "http://127.0.0.1:2"))
    assert read_address(tmp_path) == ADDRESS
    assert [path.name for path in tmp_path.iterdir()] == ["address.json"]
