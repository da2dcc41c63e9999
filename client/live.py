"""A network as it runs: a table that renews itself on a terminal, a line now and then in a pipe."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from client.console import err
from client.running import Picture
from client.streaming import OUR_STREAMS, StreamProgress
from service.wire.answers import Status

_LINE_EVERY_S = 5.0
_HELD_UP = "waits for data of"


class LiveView:
    """Shows a run while it lasts, and leaves nothing behind: the results are printed afterwards."""

    def __init__(self, console: Console = err, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
        self._began = clock()
        self._last_line_at = float("-inf")
        self._doing = ""
        self._picture: Picture | None = None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, what: str) -> None:
        """What is being done now."""
        self._doing = what
        if self._live is None:
            self._print(what)
        else:
            self._refresh()

    def show(self, picture: Picture) -> None:
        """How the network stands."""
        self._picture = picture
        if self._live is not None:
            self._refresh()
        elif self._clock() - self._last_line_at >= _LINE_EVERY_S:
            self._last_line_at = self._clock()
            self._print(one_line(picture))

    def _print(self, text: str) -> None:
        self._console.print(f"{self._clock() - self._began:6.1f} s  {text}", soft_wrap=True)

    def _refresh(self) -> None:
        if self._live is None:
            return
        head = Text(f"{self._clock() - self._began:6.1f} s  {self._doing}", style="bold")
        parts: list[RenderableType] = [head]
        if self._picture is not None:
            parts.append(table_of(self._picture))
            if self._picture.progress is not None:
                parts.append(bar_of(self._picture.progress, self._picture.statuses))
        self._live.update(Group(*parts), refresh=True)


REFUSES_US = "asks for another token"


def table_of(picture: Picture) -> RichTable:
    """One line per agent; headings in two lines, so that it fits 80 characters."""
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("agent", no_wrap=True, min_width=8, vertical="bottom")
    for column in ("round", "observa-\ntions", "back-\nlog", "neigh-\nbors", *_measured_columns(picture)):
        table.add_column(column, justify="right", vertical="bottom")
    table.add_column("state", no_wrap=True, overflow="ellipsis", vertical="bottom")
    for agent, (name, status) in enumerate(zip(picture.names, picture.statuses, strict=True)):
        state = REFUSES_US if name in picture.refusing else state_of(status)
        table.add_row(name, *_counted(status), *_measured(picture, agent), state)
    return table


def _counted(status: Status | None) -> list[str]:
    if status is None:
        return [""] * 4
    counts = status.observations
    fresh = sum(neighbor.state == "fresh" for neighbor in status.neighbors)
    numbers = [f"{number:,}" for number in (status.round or 0, counts.applied, counts.backlog)]
    return [*numbers, f"{fresh}/{len(status.neighbors)}"]


_SCORES = {"accuracy": "{:.1%}", "balanced_accuracy": "{:.1%}", "rmse": "{:.4g}"}


def _measured_columns(picture: Picture) -> list[str]:
    columns = [name.partition("_")[0] for name in _scores_shown(picture)]
    if any(value is not None for value in picture.alone):
        columns.append("alone")
    return [*columns, "consensus\nerror"] if picture.consensus_errors else columns


def _measured(picture: Picture, agent: int) -> list[str]:
    cells = []
    for name in _scores_shown(picture):
        score = picture.scores[agent]
        cells.append(_as_text(None if score is None else score[name], _SCORES[name]))
    if any(value is not None for value in picture.alone):
        cells.append(_as_text(picture.alone[agent], "{:.1%}"))
    return [*cells, _as_text(picture.consensus_errors[agent], "{:.3g}")] if picture.consensus_errors else cells


def _scores_shown(picture: Picture) -> list[str]:
    known = next((score for score in picture.scores if score is not None), {})
    return [name for name in _SCORES if name in known]


def _as_text(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def state_of(status: Status | None) -> str:
    """What an agent does, in a few words."""
    if status is None:
        return "does not answer"
    if status.faults:
        return next(iter(status.faults.values()))
    others = [name for name in status.observations.open_streams if not name.startswith(OUR_STREAMS)]
    if status.phase == "observations" and others:
        return f"{_HELD_UP} {others[0]}"
    if status.waits_for:
        return f"waits for {', '.join(status.waits_for)}"
    words = {
        "no-model": "has no model",
        "paused": "paused",
        "observations": "waits for data",
        "neighbors": "asks neighbors",
        "computing": "learns",
        "resting": "rests",
        "finished": "finished",
        "failed": "stopped: the arithmetic failed",
    }
    return words.get(status.phase, status.phase)


def bar_of(progress: StreamProgress, statuses: Sequence[Status | None] = ()) -> RenderableType:
    """How much of the streams is posted, how fast, and what waits at the agents."""
    posted, total = sum(progress.posted.values()), sum(progress.totals.values())
    backlog = sum(status.observations.backlog for status in statuses if status is not None)
    waiting = f", {backlog:,} waiting" if statuses else ""
    line = RichTable.grid(padding=(0, 2, 0, 0))
    text = f"{posted:,} of {total:,} posted, {progress.rate_per_s:,.0f}/s{waiting}"
    line.add_row(ProgressBar(total=max(1, total), completed=posted, width=30), text)
    return line


def one_line(picture: Picture) -> str:
    """The same in one line, for a log."""
    parts = [f"round {min(status.round or 0 for status in picture.statuses if status is not None):,}"]
    if picture.progress is not None:
        posted, total = sum(picture.progress.posted.values()), sum(picture.progress.totals.values())
        parts.append(f"{posted:,} of {total:,} observations posted")
    accuracies = [score["balanced_accuracy"] for score in picture.scores if score and "balanced_accuracy" in score]
    if accuracies:
        parts.append("balanced accuracy " + " ".join(f"{value:.1%}" for value in accuracies))
    held = [f"{one.agent} {state_of(one)}" for one in picture.statuses if one and state_of(one).startswith(_HELD_UP)]
    parts += held[:1]
    alone = [value for value in picture.alone if value is not None]
    if alone:
        parts.append("alone " + " ".join(f"{value:.1%}" for value in alone))
    return ", ".join(parts)
