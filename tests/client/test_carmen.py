"""CARMEN logs: what is read of whole ones, and of broken ones."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.streams import carmen
from client.streams.carmen import CarmenLog, read_carmen
from service.errors import DataError


def front_laser(number: int, readings: int = 3) -> bytes:
    """A FLASER line whose every field tells the line's number."""
    ranges = " ".join(f"{number}.{beam}5" for beam in range(readings))
    return f"FLASER {readings} {ranges} {number}.1 -0.2 0.3 7 8 9 {number}.5 robot 99.5".encode()


ROBOT_LASER = (
    b"ROBOTLASER1 0 -2.0 4.0 0.5 8.1 0.01 0 3 1.5 2.5 8.1 2 77 78 10 20 0.25 11 21 0.35 0.1 0.2 0.3 0.4 0.5 123.5 pc 9"
)
LINES = [
    b"# CARMEN Logfile",
    b"PARAM a b 0 pc 0",
    *map(front_laser, range(1, 4)),
    ROBOT_LASER,
    front_laser(4),
    b"NEFF 3",
]
LOG = b"\n".join(LINES) + b"\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("logs")


def read(folder: Path, content: bytes, name: str = "robot.log") -> CarmenLog:
    (folder / name).write_bytes(content)
    return read_carmen(folder / name)


def numbers(log: CarmenLog) -> list[list[float]]:
    """All that the scans say."""
    return [
        [*scan.pose, *scan.ranges, scan.angle_min, scan.angle_increment, scan.max_range_m or 0.0, scan.timestamp]
        for scan in log.scans
    ]


def test_the_intel_log_gives_the_shared_scans(data_folder: Path) -> None:
    log, shared = read_carmen(data_folder / "intel.log.gz"), np.load(data_folder / "intel_scans.npz")
    np.testing.assert_array_equal(np.array([scan.ranges for scan in log.scans], np.float32), shared["ranges"])
    np.testing.assert_array_equal([scan.pose for scan in log.scans], shared["poses"])
    np.testing.assert_array_equal([scan.timestamp for scan in log.scans], shared["timestamps"])
    assert {(scan.angle_min, scan.angle_increment) for scan in log.scans} == {
        (float(shared["angle_min"]), float(shared["angle_increment"]))
    }
    assert log.ignored == {"ODOM": 14541, "NEFF": 910}
    assert log.faults == ()
    recorded = shared["poses"][:, 2]
    assert np.abs(np.diff(recorded)).max() > math.pi  # the log jumps by whole turns, and scans keep it
    assert np.abs(np.diff(log.headings)).max() < math.pi
    np.testing.assert_allclose(np.exp(1j * log.headings), np.exp(1j * recorded), atol=1e-12)


def test_a_front_laser_line_has_the_corrected_pose_and_its_first_time(tmp_path: Path) -> None:
    [scan] = read(tmp_path, front_laser(5)).scans
    assert scan.pose.tolist() == [5.1, -0.2, 0.3]
    assert scan.ranges.tolist() == [5.05, 5.15, 5.25]
    assert scan.timestamp == 5.5
    assert scan.max_range_m is None


@pytest.mark.parametrize(
    ("readings", "first", "last"),
    [(180, -90, 89), (181, -90, 90), (360, -90, 89.5), (361, -90, 90), (400, -50, 49.75), (401, -50, 50), (5, -90, 90)],
)
def test_the_number_of_readings_tells_their_angles(tmp_path: Path, readings: int, first: float, last: float) -> None:
    [scan] = read(tmp_path, front_laser(1, readings)).scans
    assert math.degrees(scan.angle_min) == pytest.approx(first)
    assert math.degrees(scan.angle_min + (readings - 1) * scan.angle_increment) == pytest.approx(last)


def test_a_robot_laser_line_has_the_lasers_pose_angles_and_maximum(tmp_path: Path) -> None:
    [scan] = read(tmp_path, ROBOT_LASER).scans
    assert scan.pose.tolist() == [10, 20, 0.25]
    assert scan.ranges.tolist() == [1.5, 2.5, 8.1]
    assert (scan.angle_min, scan.angle_increment, scan.max_range_m, scan.timestamp) == (-2.0, 0.5, 8.1, 123.5)
    [unknown] = read(tmp_path, ROBOT_LASER.replace(b"0.5 8.1 0.01", b"0.5 0 0.01")).scans
    assert unknown.max_range_m is None


def test_other_messages_are_counted_and_empty_lines_are_nothing(tmp_path: Path) -> None:
    others = b"ODOM 0 0 0 0 0 0 1 pc 1\r\n\r\n# comment\n#another\nRLASER 1 2\n  \nSYNC x 0 pc 0\nODOM\nTRUEPOS 1\n"
    log = read(tmp_path, others + LOG.replace(b"\n", b" \r\n"))
    assert log.ignored == {"ODOM": 2, "#": 3, "RLASER": 1, "SYNC": 1, "TRUEPOS": 1, "PARAM": 1, "NEFF": 1}
    assert len(log.scans) == 5
    assert log.faults == ()


BROKEN = [
    (b"garbage", "'garbage' is no CARMEN message"),
    (b"flaser 1 2", "'flaser' is no CARMEN message"),
    (b"\x00\x01", r"'\x00\x01' is no CARMEN message"),
    (b"x" * 99, "'xxxxxxxxxxxxxxxxxxxx...' is no CARMEN message"),
    (b"ODOM \xff\xfe", "it is not text in UTF-8"),
    (b"FLASER", "it ends after 1 fields, before the number of readings"),
    (b"FLASER x 1 2", "field 2 is 'x', where the number of readings should be"),
    (b"FLASER -3 1 2", "field 2 is '-3', where the number of readings should be"),
    (b"FLASER 3.0 1 2", "field 2 is '3.0', where"),
    (b"FLASER " + b"9" * 5000, "where the number of readings should be"),
    (b"FLASER 999999999 1 2", "it has 4 fields, but by its own count of readings it should have 1000000010"),
    (b"FLASER 1 0.5 1 2 3 1 2 3 4 pc 5", "FLASER needs at least 2"),
    (front_laser(1)[:-5], "it has 13 fields, but by its own count of readings it should have 14"),
    (front_laser(1) + b" 7", "it has 15 fields"),
    (front_laser(1).replace(b"1.05", b"1,05"), "'1,05' is not a number"),
    (front_laser(1).replace(b"1.05", b"1_05"), "'1_05' is not a number"),
    (front_laser(1).replace(b"1.05", b"nan"), "'nan' is not a finite number"),
    (front_laser(1).replace(b"1.25", b"1e999"), "'1e999' is not a finite number"),
    (front_laser(1).replace(b"99.5", b"99.5FLASER"), "'99.5FLASER' is not a number"),
    (front_laser(1).replace(b" 0.3 ", b" 1e9 "), "1000000000.0 cannot be an angle"),
    ("FLASER ٣ 1 1 1 1 2 3 1 2 3 4 pc 5".encode(), "field 2 is '٣', where"),
    (ROBOT_LASER[:30], "it ends after 6 fields, before the number of readings"),
    (ROBOT_LASER[:40], "before the number of remissions"),
    (ROBOT_LASER.replace(b" 3 1.5", b" 2 1.5"), "field 12 is '8.1', where the number of remissions should be"),
    (
        ROBOT_LASER.replace(b" 2 77 78", b" 3 77 78"),
        "it has 29 fields, but by its own count of readings it should have 30",
    ),
    (ROBOT_LASER.replace(b"4.0 0.5", b"4.0 0"), "3 reading(s), 0.0 radians apart, are no scan"),
    (ROBOT_LASER.replace(b"3 1.5 2.5 8.1", b"0"), "0 reading(s), 0.5 radians apart"),
    (ROBOT_LASER.replace(b"-2.0", b"-2e7"), "cannot be an angle"),
]


@pytest.mark.parametrize(("line", "sentence"), BROKEN, ids=[sentence for _, sentence in BROKEN])
def test_a_broken_line_is_named_and_costs_no_other(tmp_path: Path, line: bytes, sentence: str) -> None:
    log = read(tmp_path, b"\n".join([*LINES[:4], line, *LINES[4:]]))
    [fault] = log.faults
    assert fault.line == 5
    assert sentence in fault.what
    assert numbers(log) == numbers(read(tmp_path, LOG))


garbage = st.one_of(
    st.sampled_from([line for line, _ in BROKEN]),
    st.binary(min_size=1, max_size=30).map(lambda some: b"?" + some.replace(b"\n", b"")),
)


@given(inserted=st.lists(st.tuples(st.integers(0, len(LINES)), garbage), max_size=6))
def test_garbage_between_lines_changes_nothing_but_the_faults(folder: Path, inserted: list[tuple[int, bytes]]) -> None:
    lines, where = [], []
    for place in range(len(LINES) + 1):
        for line in (line for at, line in inserted if at == place):
            lines.append(line)
            where.append(len(lines))
        lines += LINES[place : place + 1]
    log, whole = read(folder, b"\n".join(lines)), read(folder, LOG)
    assert [fault.line for fault in log.faults] == where
    assert numbers(log) == numbers(whole)
    assert log.ignored == whole.ignored


@given(place=st.integers(0, len(LOG) - 1), byte=st.integers(0, 255))
def test_a_wrong_byte_costs_the_lines_beside_it_at_most(folder: Path, place: int, byte: int) -> None:
    whole = numbers(read(folder, LOG))
    log = read(folder, LOG[:place] + bytes([byte]) + LOG[place + 1 :])
    kept = [scan for scan in numbers(log) if scan in whole]
    assert len(kept) >= len(whole) - 2  # two where it was the line's end
    assert len(log.scans) <= len(whole) + 1


def test_a_log_cut_at_any_byte_keeps_every_line_before_the_cut(folder: Path) -> None:
    whole = numbers(read(folder, LOG))
    for cut in range(len(LOG)):
        complete = sum(b"LASER" in line for line in LOG[:cut].split(b"\n")[:-1])
        try:
            kept = numbers(read(folder, LOG[:cut]))
        except DataError:
            kept = []
        assert kept == whole[: len(kept)]
        assert complete <= len(kept) <= complete + 1  # a last line may lack its end and have all that is needed


def test_a_compressed_log_cut_at_any_byte_keeps_every_line_before_the_cut(folder: Path) -> None:
    lines = [front_laser(number, 2 + number % 90) for number in range(300)]
    packed = gzip.compress(b"\n".join(lines) + b"\n")
    whole = numbers(read(folder, packed))
    assert len(whole) == 300
    for cut in [*range(2, len(packed) - 10, 401), *range(len(packed) - 10, len(packed))]:
        complete = zlib.decompressobj(31).decompress(packed[:cut]).count(b"\n")
        if complete == 0:
            with pytest.raises(DataError, match="line 1: the compressed data break off"):
                read(folder, packed[:cut])
            continue
        log = read(folder, packed[:cut])
        assert numbers(log) == whole[:complete]
        [fault] = log.faults
        assert fault.line == complete + 1
        assert "the compressed data break off or are damaged here" in fault.what


def test_damaged_compressed_data_keep_what_came_before(folder: Path) -> None:
    content = b"".join(front_laser(number, 90) + b"\n" for number in range(300))
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH) + b"\x07"  # which begins no block of data
    log = read(folder, packed)
    assert 260 < len(log.scans) <= 300  # zlib keeps back its last 8 kB, or some 15 lines, when it stumbles
    assert [fault.line for fault in log.faults] == [len(log.scans) + 1]
    followed = read(folder, gzip.compress(LOG) + b"more")
    assert numbers(followed) == numbers(read(folder, LOG))
    assert [fault.line for fault in followed.faults] == [len(LINES) + 1]


@pytest.mark.parametrize("name", ["a.log", "a.log.gz"])
def test_whether_a_log_is_compressed_is_seen_and_not_believed(tmp_path: Path, name: str) -> None:
    assert numbers(read(tmp_path, LOG, name)) == numbers(read(tmp_path, gzip.compress(LOG), name))


def test_of_very_many_faults_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    log = read(tmp_path, b"?\n" * (carmen.MOST_FAULTS + 500) + LOG)
    assert [fault.line for fault in log.faults] == list(range(1, carmen.MOST_FAULTS + 1))
    assert log.fault_count == carmen.MOST_FAULTS + 500


def test_a_line_without_end_is_passed_over_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = len(ROBOT_LASER)
    monkeypatch.setattr(carmen, "MOST_LINE_BYTES", longest)
    whole = numbers(read(tmp_path, LOG))
    assert len(whole) == 5  # a line as long as allowed is read
    for length in (longest + 1, longest + 2, 2 * longest + 2, 10 * longest):
        for end in (b"", b"\n?"):
            log = read(tmp_path, LINES[2] + b"\n" + b"#" * length + b"\n" + LOG + b"#" * length + end)
            assert numbers(log)[1:] == whole
            assert [fault.line for fault in log.faults] == [2, 11] + [12] * len(end[1:])
            assert log.faults[0].what == f"it is longer than {longest} bytes"


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"", "it is empty"),
        (b"ODOM 1\nODOM 2\n# x\n", "it has 2 ODOM, 1 #"),
        (b"ODOM 1\nFLASER 2\n?\n", "it has 1 ODOM; 2 line(s) cannot be read, the first is line 2: it has 2 fields"),
    ],
)
def test_a_file_without_scans_is_refused_with_what_is_in_it(tmp_path: Path, content: bytes, seen: str) -> None:
    with pytest.raises(DataError) as fault:
        read(tmp_path, content)
    assert str(tmp_path / "robot.log") in str(fault.value)
    assert "holds no laser scan" in str(fault.value)
    assert seen in str(fault.value)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere.log"):
        with pytest.raises(DataError, match=f"{path}: cannot be read"):
            read_carmen(path)
