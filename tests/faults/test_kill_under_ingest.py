"""kill -9 at random moments while a client posts: nothing acknowledged is lost, nothing is applied twice."""

import random
import threading
import time
from collections.abc import Iterator

import httpx2
import numpy as np
import pytest

from service.wire.configuration import ModelDocument
from service.wire.observations import Observations, to_msgpack
from service.wire.parameters import MEDIA_TYPE
from tests.network.networks import Array, model_of
from tests.processes import AgentProcess, Agents, codec_of, problem, until

MODEL = model_of("full", {"kind": "gaussian", "precision": 4.0})


class RetryingClient:
    """Posts batches of random sizes with marks, and repeats each until it is acknowledged."""

    def __init__(self, agent: AgentProcess, name: str, seed: int) -> None:
        self._agent, self._name = agent, name
        self._generator = np.random.default_rng(seed)
        self._stop = threading.Event()
        self.acknowledged: list[tuple[Array, Array]] = []
        self.retries = 0
        self.fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "RetryingClient":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def finish(self) -> None:
        """Stop after the batch under way, and end the stream."""
        self.__exit__()
        if self.fault is not None:
            raise self.fault
        self._agent.end_stream(self._name, len(self.acknowledged))

    def _run(self) -> None:
        try:
            with httpx2.Client(base_url=self._agent.url, timeout=30, trust_env=False) as http:
                for number, (x, y) in enumerate(self._batches()):
                    self._post(http, number, to_msgpack(Observations(x, y)))
                    self.acknowledged.append((x, y))
                    if self._stop.is_set():
                        return
        except BaseException as fault:
            self.fault = fault

    def _batches(self) -> Iterator[tuple[Array, Array]]:
        while True:
            x = self._generator.uniform(0, 3, (int(self._generator.integers(1, 8)), 2))
            yield x, np.sin(x[:, 0]) + self._generator.normal(0, 0.5, len(x))

    def _post(self, http: httpx2.Client, number: int, body: bytes) -> None:
        mark: dict[str, str | int] = {"client": self._name, "sequence": number}
        while True:
            try:
                answer = http.post("/v1/observations", params=mark, content=body, headers={"content-type": MEDIA_TYPE})
            except httpx2.TransportError:
                self.retries += 1
                time.sleep(0.01)  # the agent is dead, or not yet there
                continue
            if answer.status_code == 200:
                return
            assert problem(answer) == (429, "backlog-full"), answer.text
            time.sleep(0.01)


def exact_belief(batches: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The posterior of linear regression in closed form: Omega = Omega_0 + S sum Phi Phi^T, eta = S sum y Phi."""
    spec = ModelDocument.parse({"revision": 1, "model": MODEL}).spec
    features = spec.build_features()
    prior = spec.build_prior(features)
    phi = np.concatenate([features.activate(x).dense() for x, _ in batches])
    y = np.concatenate([y for _, y in batches])
    return prior.information + 4.0 * phi.T @ phi, prior.shift + 4.0 * y @ phi


def test_nothing_acknowledged_is_lost_and_nothing_is_applied_twice(agents: Agents, thorough: bool) -> None:
    moments = random.Random(1)
    agent = agents("a1")
    agent.put("model", {"revision": 1, "model": MODEL})
    agent.put("schedule", {"revision": 1, "observations_per_round": 5, "when_short": "go", "period_s": 0.002})
    with RetryingClient(agent, "one", 1) as one, RetryingClient(agent, "two", 2) as two:
        for number in range(200 if thorough else 5):
            if number % 4 == 3:
                # Any moment at all, also while it starts.
                time.sleep(moments.uniform(0, 2.0))
            else:
                agent.wait_ready()
                time.sleep(moments.expovariate(10))
            agent.kill()
            agent.launch()
        agent.wait_ready()
        one.finish()
        two.finish()
    assert one.retries + two.retries > 0
    batches = one.acknowledged + two.acknowledged
    total = sum(len(y) for _, y in batches)
    until(lambda: agent.status()["observations"]["backlog"] == 0)
    observations = agent.status()["observations"]
    assert observations["collected"] == total
    assert observations["applied"] == total
    assert observations["ended"]
    codec = codec_of(MODEL)
    shown = codec.prior.plus(agent.message(codec).parts[0].evidence)
    information, shift = exact_belief(batches)
    # Sums of as many numbers in another order.
    np.testing.assert_allclose(shown.information, information, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(shown.shift, shift, rtol=1e-9, atol=1e-8)


@pytest.mark.thorough
def test_after_a_kill_the_agent_shows_what_it_last_showed_or_one_round_more(agents: Agents, thorough: bool) -> None:
    agent = agents("a1")
    agent.put("model", {"revision": 1, "model": MODEL})
    generator = np.random.default_rng(2)
    x = generator.uniform(0, 3, (20_000, 2))
    agent.post(x, x[:, 0], "test", 0, end=True)
    agent.put("neighbors", {"epoch": 1, "own_weight": 1.0, "history": 10_000})
    agent.put("schedule", {"revision": 1, "observations_per_round": 1, "period_s": 0})
    for _ in range(20 if thorough else 2):
        goal = agent.status()["round"] + 20
        until(lambda goal=goal: agent.status()["round"] >= goal)  # type: ignore[misc]
        shown = agent.http.get("/v1/parameters")
        agent.kill()
        agent.start()
        _, epoch, round_number, _ = shown.headers["etag"].split("-")
        again = agent.http.get("/v1/parameters", params={"epoch": epoch, "round": round_number})
        assert again.content == shown.content
