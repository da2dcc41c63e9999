"""Asking an agent: a map beside bare products, predictions beside the direct call, rounds with and without pollers."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from benchmarks.measure import ROOT, Figure, Result, Work, compare
from service.inference.belief import DiagonalGaussian
from service.inference.features import LatticeFeatures
from service.inference.likelihoods import Probit
from service.inference.prediction import predict
from service.inference.raster import Grid, raster
from service.wire.configuration import ModelDocument
from service.wire.map_files import to_png
from service.wire.palette import DIVERGING
from service.wire.parameters import MEDIA_TYPE as MSGPACK
from service.wire.points import points_to_msgpack
from tests.processes import AgentProcess, codec_of

LATTICE: dict[str, Any] = {"spacing": 0.2, "lengthscale": 0.15, "lower": [-20.0, -20.0], "upper": [19.8, 19.8]}
MODEL: dict[str, Any] = {
    "features": {"kind": "lattice", **LATTICE},
    "prior": {"information": 0.2},
    "likelihood": {"kind": "probit"},
}
PIXELS, POINTS, REPETITIONS = 300, 10_000, 30
POLLERS, POLL_S, MEASURED_S, TURNS = 10, 1.0, 6.0, 3


def run() -> list[Result]:
    """A map in this process, then a real agent."""
    return [_map(), *_asked()]


def _map() -> Result:
    """The whole map, up to the file, beside nothing but the products that a lattice without a cutoff would need."""
    features, likelihood, generator = LatticeFeatures(**LATTICE), Probit(), np.random.default_rng(0)
    information = generator.uniform(0.2, 5, features.feature_count)
    shift = generator.normal(size=features.feature_count)
    grid = Grid.over((-20.0, -20.0, 20.0, 20.0), 40.0 / PIXELS)
    across = np.exp(-(0.5 / 0.15**2) * (grid.x_axis[:, None] - (-20.0 + 0.2 * np.arange(200))) ** 2)
    means, variances = (shift / information)[1:].reshape(200, 200), (1 / information)[1:].reshape(200, 200)

    def whole() -> bytes:
        fresh = DiagonalGaussian(information, shift)  # as after a round: nothing is computed yet
        return to_png(raster(fresh, features, likelihood, grid.x_axis, grid.y_axis).mean, DIVERGING, 0.0, 1.0, {})

    def products() -> object:
        return across @ means @ across.T, across**2 @ variances @ (across**2).T

    ours, other = Work("raster and PNG", whole), Work("bare products", products)
    result = compare("a map, 300 x 300, 40,000 features", ours, other, "map")
    return replace(result, figures=(Figure("CPU", 1000 * result.ours_amount, "ms", 60.0, is_limit=True),))


def _asked() -> list[Result]:
    generator = np.random.default_rng(0)
    x = generator.uniform(-20, 20, (20_000, 2))
    with tempfile.TemporaryDirectory() as folder:
        agent = AgentProcess("a1", Path(folder) / "a1")
        try:
            agent.launch()
            agent.wait_ready()
            agent.put("model", {"revision": 1, "model": MODEL})
            agent.post(x, (np.hypot(*x.T) < 12).astype(float)).raise_for_status()
            agent.put("schedule", {"revision": 1, "paused": True, "observations_per_round": 20_000})
            agent.http.post("/v1/rounds", json={"rounds": 1}).raise_for_status()
            return [_predictions(agent, generator.uniform(-20, 20, (POINTS, 2))), _pollers(agent)]
        finally:
            agent.close()


def _predictions(agent: AgentProcess, points: Any) -> Result:
    """The time until the answer is there, best of many, in turns with the direct call."""
    codec, document = codec_of(MODEL), ModelDocument.parse({"revision": 1, "model": MODEL})
    message = codec.decode(agent.http.get("/v1/parameters").content)
    belief, likelihood = codec.prior.plus(message.parts[0].evidence), document.build_likelihood()
    features = document.spec.build_features()
    body = points_to_msgpack(points)
    headers = {"content-type": MSGPACK, "accept": MSGPACK}

    def direct() -> object:
        seen = predict(belief, features.activate(points), likelihood)
        return seen.mean, seen.variance, seen.entropy

    def over_http(content: bytes = body, headers: dict[str, str] = headers) -> None:
        agent.http.post("/v1/predictions", content=content, headers=headers).raise_for_status()

    as_json = httpx2.Request("POST", agent.url, json={"x": points.tolist()})
    listed = as_json.read()

    def over_json() -> None:
        over_http(listed, {"content-type": "application/json"})

    ours, other, json_s = _best(over_http, direct, over_json)
    remark = (
        f"10,000 predictions: {1000 * ours:.1f} ms as msgpack, {1000 * json_s:.1f} ms as JSON, "
        f"direct {1000 * other:.1f} ms."
    )
    names = ("10,000 predictions", "over HTTP, msgpack", "direct call")
    return Result(*names, ours, other, "s per request", 0.5, remark=remark)


def _best(*works: Callable[[], object]) -> list[float]:
    best = [float("inf")] * len(works)
    for _ in range(REPETITIONS):
        for which, work in enumerate(works):
            began = time.perf_counter()
            work()
            best[which] = min(best[which], time.perf_counter() - began)
    return best


def _pollers(agent: AgentProcess) -> Result:
    """Rounds without a pause, in turns with and without pollers; the median of the turns of each."""
    agent.put("schedule", {"revision": 2, "observations_per_round": 100, "when_short": "go", "period_s": 0.0})
    alone, polled = [], []
    for _ in range(TURNS):
        alone.append(_rounds_per_s(agent))
        with _polling(agent):
            polled.append(_rounds_per_s(agent))
    rates = float(np.median(alone)), float(np.median(polled))
    slower = Figure("slower", 100 * (1 - rates[1] / rates[0]), "%", 15.0, is_limit=True)
    remark = (
        f"Rounds without observations of a {40_001:,}-feature lattice, committed: {rates[0]:.0f}/s alone, "
        f"{rates[1]:.0f}/s while {POLLERS} pollers each ask for the newest 300 x 300 map every {POLL_S:g} s."
    )
    return Result(
        "a round", "with ten pollers", "alone", 1 / rates[1], 1 / rates[0], "s per round", None, (slower,), remark
    )


def _rounds_per_s(agent: AgentProcess) -> float:
    before, began = agent.status()["rounds_in_all"], time.perf_counter()
    time.sleep(MEASURED_S)
    return float((agent.status()["rounds_in_all"] - before) / (time.perf_counter() - began))


@contextmanager
def _polling(agent: AgentProcess) -> Iterator[None]:
    """Pollers in a process of their own, as dashboards would be."""
    command = [sys.executable, "-m", "benchmarks.map_pollers", agent.url, str(POLLERS), str(POLL_S)]
    pollers = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        if pollers.stdout is not None:
            pollers.stdout.readline()  # all have their first map
        yield
    finally:
        pollers.kill()
        pollers.communicate()
