"""CARMEN logs, the text format of most public 2D laser data sets: one message a line, plain or gzipped.

A log that a robot recorded is rarely whole: what can be read is read, and each line that cannot is named.
"""

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from client.streams.scans import LaserScan
from service.errors import DataError
from service.inference.arrays import FloatArray

_FAULTS_TOLD = 10
MOST_FAULTS = 1_000  # that are kept; a damaged file may have as many as it has lines
MOST_LINE_BYTES = 1_000_000  # a hundred times the longest scan: a file without line ends must not fill the memory
_MOST_RADIANS = 1e6  # beyond, a float no longer tells directions apart well enough, and no robot turned so often

# Whatever else CARMEN's logger, and the filters that correct its poses, write. The rear laser is among it, and so are
# raw scans, which have no pose.
_IGNORED = frozenset(
    b"""PARAM COMMENT SYNC ODOM TRUEPOS NEFF RLASER LASER3 LASER4 REMISSIONFLASER REMISSIONRLASER REMISSIONLASER3
    REMISSIONLASER4 RAWLASER1 RAWLASER2 RAWLASER3 RAWLASER4 RAWLASER5 ROBOTLASER2 POSITIONLASER NMEAGGA NMEARMC SONAR
    BUMPER SCANMARK IMU ARM VECTORMOVE ROBOTVELOCITY BASEVELOCITY VELOCITY FOLLOWTRAJECTORY""".split()
)

# FLASER does not tell its angles: they follow from the number of readings, for these as SICK scanners are built, in
# degrees of the first beam and between beams. 180 and 360 are a half circle without its last beam; 400 and 401 look 50
# degrees to either side (CARMEN itself lets them begin at -90). Any other number is a half circle with both its ends.
_SICK_DEGREES = {180: (-90, 1.0), 181: (-90, 1.0), 360: (-90, 0.5), 361: (-90, 0.5), 400: (-50, 0.25), 401: (-50, 0.25)}


@dataclass(frozen=True)
class LineFault:
    """Why a line could not be read."""

    line: int  # from 1
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}"


@dataclass(frozen=True, eq=False)
class CarmenLog:
    """The scans of a log, in its order, and what else was in it."""

    scans: tuple[LaserScan, ...]
    faults: tuple[LineFault, ...]  # the first MOST_FAULTS
    fault_count: int
    ignored: dict[str, int]  # lines by message type; comments are "#"

    @property
    def headings(self) -> FloatArray:
        """The scans' theta without jumps by whole turns, for what follows a robot over time.

        A scan keeps the theta that was recorded, whose turns are arbitrary. Between scans a robot is taken to turn by
        less than half a circle.
        """
        return np.unwrap([scan.pose[2] for scan in self.scans])

    @property
    def positions(self) -> FloatArray:
        """(scans, 2): where the laser was at each scan."""
        return np.array([scan.pose[:2] for scan in self.scans]).reshape(-1, 2)

    def remarks(self, path: Path) -> tuple[str, ...]:
        """What a user should know: the lines that could not be read, by number; of many, the first ones."""
        if not self.faults:
            return ()
        told = [f"{path}: {fault}; left out" for fault in self.faults[:_FAULTS_TOLD]]
        more = self.fault_count - len(told)
        return (*told, f"{path}: {more:,} more lines could not be read") if more else tuple(told)


class _BadLineError(Exception):
    """The sentence that goes into a LineFault."""


def read_carmen(path: Path) -> CarmenLog:
    """The scans of FLASER and ROBOTLASER1 lines; a file without any is refused."""
    reading = _Reading()
    try:
        with path.open("rb") as file:
            is_zipped = file.read(2) == b"\x1f\x8b"  # names lie: a browser may unpack a .gz, and keep its name
            file.seek(0)
            reading.take_all(gzip.GzipFile(fileobj=file) if is_zipped else file)
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault}") from None
    if not reading.scans:
        raise DataError(f"{path}: holds no laser scan, that is no line FLASER or ROBOTLASER1; {reading.seen()}")
    return CarmenLog(tuple(reading.scans), tuple(reading.faults), reading.fault_count, dict(reading.ignored))


class _Reading:
    """What the lines up to here were."""

    def __init__(self) -> None:
        self.scans: list[LaserScan] = []
        self.faults: list[LineFault] = []
        self.fault_count = 0
        self.ignored: Counter[str] = Counter()

    def take_all(self, file: BinaryIO | gzip.GzipFile) -> None:
        """Take all lines of the file, or all up to where its compressed data break off."""
        number = 0
        try:
            for number, line in enumerate(_split(file), start=1):
                try:
                    self._take(line)
                except _BadLineError as fault:
                    self._blame(number, str(fault))
        except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
            self._blame(number + 1, f"the compressed data break off or are damaged here ({fault})")

    def seen(self) -> str:
        """What there is in a file without scans."""
        ignored = ", ".join(f"{count} {kind}" for kind, count in self.ignored.most_common(5))
        others = [f"it has {ignored}"] if ignored else []
        faults = [f"{self.fault_count} line(s) cannot be read, the first is {self.faults[0]}"] if self.faults else []
        return "; ".join(others + faults) or "it is empty"

    def _take(self, line: bytes) -> None:
        if len(line) > MOST_LINE_BYTES and not line.endswith(b"\n"):
            raise _BadLineError(f"it is longer than {MOST_LINE_BYTES:,} bytes")
        if not line.isascii() and not _is_text(line):
            raise _BadLineError("it is not text in UTF-8")
        if not line.strip():
            return
        kind = line.split(None, 1)[0]
        if kind == b"FLASER":
            self.scans.append(_front_laser(line.split()))
        elif kind == b"ROBOTLASER1":
            self.scans.append(_robot_laser(line.split()))
        elif kind in _IGNORED:
            self.ignored[kind.decode()] += 1
        elif kind.startswith(b"#"):
            self.ignored["#"] += 1
        else:
            raise _BadLineError(f"{_quoted(kind)} is no CARMEN message")

    def _blame(self, line: int, what: str) -> None:
        self.fault_count += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(LineFault(line, what))


def _split(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    """The file's lines; of one that is too long, its beginning."""
    while line := file.readline(MOST_LINE_BYTES + 1):
        yield line
        while len(line) > MOST_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(MOST_LINE_BYTES + 1)


def _front_laser(fields: list[bytes]) -> LaserScan:
    """FLASER n r_0 ... r_{n-1} x y theta odom_x odom_y odom_theta timestamp host logger_timestamp."""
    count = _count(fields, 1, "readings")
    if count < 2:
        raise _BadLineError(f"{count} reading(s) do not tell the angle between them: FLASER needs at least 2")
    numbers = _numbers(fields, count + 11)
    start, step = _SICK_DEGREES.get(count, (-90, 180 / (count - 1)))
    readings, pose = numbers[1 : count + 1], numbers[count + 1 : count + 4]
    return _scan(pose, readings, math.radians(start), math.radians(step), None, numbers[count + 7])


def _robot_laser(fields: list[bytes]) -> LaserScan:
    """ROBOTLASER1: seven settings, n, n ranges, m, m remissions, eleven numbers from the laser's pose on, and the time.

    ROBOTLASER1 laser_type start_angle field_of_view angular_resolution maximum_range accuracy remission_mode
    n r_0 ... m s_0 ... laser_x laser_y laser_theta robot_x robot_y robot_theta
    laser_tv laser_rv forward_safety_dist side_safety_dist turn_axis timestamp host logger_timestamp
    """
    count = _count(fields, 8, "readings")
    remissions = _count(fields, 9 + count, "remissions")
    numbers = _numbers(fields, count + remissions + 24)
    if count == 0 or numbers[3] <= 0:
        raise _BadLineError(f"{count} reading(s), {numbers[3]} radians apart, are no scan")
    pose = 9 + count + remissions
    maximum = float(numbers[4]) if numbers[4] > 0 else None
    return _scan(numbers[pose : pose + 3], numbers[8 : 8 + count], numbers[1], numbers[3], maximum, numbers[pose + 11])


def _scan(
    pose: FloatArray, ranges: FloatArray, start: float, step: float, max_range_m: float | None, timestamp: float
) -> LaserScan:
    for angle in (pose[2], start, step):
        if abs(angle) > _MOST_RADIANS:
            raise _BadLineError(f"{angle} cannot be an angle in radians")
    return LaserScan(pose, ranges, float(start), float(step), max_range_m, float(timestamp))


def _count(fields: list[bytes], place: int, what: str) -> int:
    """The whole number that says how many fields follow it."""
    if place >= len(fields):
        raise _BadLineError(f"it ends after {len(fields)} fields, before the number of {what}")
    text = fields[place]
    if not text.isdigit() or len(text) > 9:  # a longer one cannot be true, and int refuses very long ones
        raise _BadLineError(f"field {place + 1} is {_quoted(text)}, where the number of {what} should be")
    return int(text)


def _numbers(fields: list[bytes], expected: int) -> FloatArray:
    """All fields but the message's name, which is the first, and the host, which is the last but one."""
    if len(fields) != expected:
        raise _BadLineError(f"it has {len(fields)} fields, but by its own count of readings it should have {expected}")
    words = [*fields[1:-2], fields[-1]]
    try:
        if b"_" in b"".join(words):  # 1_000 is a number for Python, and nowhere else
            raise ValueError
        numbers = np.array(words, dtype=np.float64)
    except ValueError:
        word = next(word for word in words if not _is_number(word))
        raise _BadLineError(f"{_quoted(word)} is not a number") from None
    if not np.isfinite(numbers).all():
        raise _BadLineError(f"{_quoted(words[int(np.argmin(np.isfinite(numbers)))])} is not a finite number")
    return numbers


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return b"_" not in word


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _quoted(word: bytes) -> str:
    text = word.decode(errors="replace")
    return repr(text if len(text) <= 20 else text[:20] + "...")
