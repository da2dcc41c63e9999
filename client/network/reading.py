"""The observations that a network's sources hold, and what they are measured on."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from client.network.document import NetworkDocument
from client.network.sources import CarmenSource, Source, TableSource, WorldSource, resolve_path
from client.randomness import generator_for
from client.streams.carmen import read_carmen
from client.streams.partitions import Rows, group_of, partition_rows
from client.streams.scans import beams_of, labelled_points
from client.streams.tables import Table, parse_rows, read_table
from client.streams.world.tables import world_tables
from service.errors import DataError


class Observations(NamedTuple):
    """All agents' streams in one table, the rows of each agent in their order, and the verification data."""

    train: Table | None
    parts: list[Rows]
    test: Table | None


def read_observations(document: NetworkDocument, folder: Path) -> Observations:
    """Read every source, keep what verification needs, and deal out the rest; folder: where relative paths begin."""
    count, verification = len(document.agents), document.verification
    tables: list[Table] = []
    held: list[Table] = []
    parts: list[list[Rows]] = [[] for _ in range(count)]
    test: Table | None = None
    begin = 0
    for source in document.data:
        table, points = _read(source, folder, document)
        test = points if test is None else test
        if verification is not None and verification.holdout is not None:
            chosen = np.arange(len(table)) % verification.holdout == 0
            held.append(table.take(chosen))
            table = table.take(~chosen)
        for rows, part in zip(parts, _deal_out(source, table, document), strict=True):
            rows.append(part + begin)
        begin += len(table)
        tables.append(table)
    if verification is not None and verification.source is not None:
        test, _ = _read(verification.source, folder, document)
    train = _joined(tables) if tables else None
    joined = [np.concatenate(rows) if rows else np.empty(0, np.int64) for rows in parts]
    return Observations(train, joined, _joined(held) if held else test)


def _read(source: Source, folder: Path, document: NetworkDocument) -> tuple[Table, Table | None]:
    """The table of a source; and of a world, points to verify on."""
    if isinstance(source, WorldSource):
        return _world(source, document)
    path = resolve_path(source.path, folder)
    table = _log(source, path) if isinstance(source, CarmenSource) else read_table(path, group_of(source.partition))
    if isinstance(source, TableSource) and source.rows is not None:
        table = table.take(parse_rows(source.rows))
        if len(table) == 0:
            raise DataError(f"{path}: rows {source.rows} leave nothing")
    return table, None


def _log(source: CarmenSource, path: Path) -> Table:
    """Points along the beams of a log, by the source's own rule."""
    log = read_carmen(path)
    points = labelled_points(
        beams_of(log.scans, source.max_range_m),
        np.random.default_rng(source.seed),
        free_per_m=source.free_per_m,
        free_per_hit=source.free_per_hit,
        margin_m=source.margin_m,
        free_to_m=source.free_to_m,
    )
    return Table(str(path), points.x, points.y, {"scan": points.scan}, log.remarks(path), log.positions[points.scan])


def _world(source: WorldSource, document: NetworkDocument) -> tuple[Table, Table | None]:
    sizes = source.model_dump(exclude={"kind", "partition", "agent", "robots", "seed"})
    verified = None if document.verification is None else document.verification.points
    tables = world_tables(source.seed, verified or 0, robots=source.robots or len(document.agents), **sizes)
    return tables.train, tables.test if verified else None


def _deal_out(source: Source, table: Table, document: NetworkDocument) -> list[Rows]:
    """Which agent gets which rows."""
    names = [agent.name for agent in document.agents]
    if source.agent is not None:
        rows = np.arange(len(table))
        return [rows if name == source.agent else rows[:0] for name in names]
    how = source.partition or ("robot" if isinstance(source, WorldSource) else "sequential")
    return partition_rows(table, how, len(names), generator_for("partition", document.seed))


def _joined(tables: list[Table]) -> Table:
    """One table below the other; of the groups, those that all have; positions, if all have them."""
    first = tables[0]
    if len(tables) == 1:
        return first
    for table in tables[1:]:
        if table.x.shape[1] != first.x.shape[1] or table.y.shape[1:] != first.y.shape[1:]:
            raise DataError(f"{table.source} and {first.source} have points or targets of different dimension")
    positions = [table.positions for table in tables if table.positions is not None]
    shared = [name for name in first.groups if all(name in table.groups for table in tables)]
    return replace(
        first,
        source=", ".join(dict.fromkeys(table.source for table in tables)),
        x=np.concatenate([table.x for table in tables]),
        y=np.concatenate([table.y for table in tables]),
        groups={name: np.concatenate([table.groups[name] for table in tables]) for name in shared},
        remarks=tuple(remark for table in tables for remark in table.remarks),
        positions=np.concatenate(positions) if len(positions) == len(tables) else None,
    )
