"""Whatever bytes come as msgpack: they are taken for what they are, or refused with a reason, and that is all."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import msgspec
import numpy as np
import pytest

from service.errors import WireError
from service.inference.belief import Belief, DiagonalGaussian, Evidence, FullGaussian
from service.wire.parameters import Header, ParameterCodec, ParameterMessage, Part
from tests.fuzz.flood import Request, Tally, flood
from tests.fuzz.messages import MODEL, harmless, valid_messages
from tests.fuzz.mutations import Mutator
from tests.fuzz.watching import LONGEST_GAP_S, WatchedAgent
from tests.processes import codec_of

# Together a hundred thousand in `make test`, and a million in `make test-faults`.
DECODED = [69_000, pytest.param(690_000, marks=pytest.mark.thorough)]
POSTED = [9_300, pytest.param(310_000, marks=pytest.mark.thorough)]

MODEL_ID = "c0ffee" * 10 + "beef"
INFORMATION = 0.2  # of the prior
BLOCK = 3100  # messages between two looks at the agent
NUMBERS = 2  # from a document to the next: there is one left in between
# Half of the requests, for they are what strangers send most.
ENDPOINTS = [*valid_messages(1), *[("POST", "/v1/observations")] * 3, *[("POST", "/v1/predictions")] * 2]

# What stays is bounded: the pages of SQLite's cache, a thousand summaries of rounds, the inbox of one block. The rest
# is what an allocator keeps for next time. A leak of a mere kilobyte a message would be more.
MOST_GROWTH = 20 * 2**20


def codec_for(family: str, dimension: int) -> ParameterCodec:
    prior: type[Belief] = FullGaussian if family == "full" else DiagonalGaussian
    return ParameterCodec(MODEL_ID, prior.prior(dimension, INFORMATION))


def valid_message(codec: ParameterCodec, family: str) -> bytes:
    generator = np.random.default_rng(0)
    d = codec.prior.dimension
    rows = generator.normal(size=(2, d))
    information = rows.T @ rows if family == "full" else np.where(np.arange(d) % 3, 0.0, rows[0] ** 2)
    evidence = Evidence(information, information @ rows[1] if family == "full" else information * rows[1])
    return codec.encode(ParameterMessage(Header("a2", 5, MODEL_ID, 3, 41), (Part("a2", 41, 0, evidence),)))


def check_message(codec: ParameterCodec, family: str, message: ParameterMessage) -> None:
    """By the definition, not by the code that is tested."""
    d = codec.prior.dimension
    assert message.header.model_id == MODEL_ID
    assert min(message.header.epoch, message.header.round, message.header.incarnation) >= 0
    (part,) = message.parts
    information, shift = part.evidence.information, part.evidence.shift
    assert shift.shape == (d,)
    assert information.shape == ((d, d) if family == "full" else (d,))
    assert np.isfinite(information).all()
    assert np.isfinite(shift).all()
    if family == "full":
        assert np.array_equal(information, information.T)
        spectrum = np.linalg.eigvalsh(information + INFORMATION * np.eye(d))
        assert spectrum[0] > -1e-12 * spectrum[-1]  # eigenvalues are known to so much of the largest
    else:
        assert (information + INFORMATION > 0).all()


# 300 parameters are enough for a message to name those that it is about.
@pytest.mark.parametrize(("family", "dimension"), [("full", 3), ("diagonal", 4), ("diagonal", 300)])
@pytest.mark.parametrize("messages", DECODED)
def test_the_decoder_of_parameters_gives_a_belief_or_a_wire_error(family: str, dimension: int, messages: int) -> None:
    codec, mutator = codec_for(family, dimension), Mutator(dimension)
    valid = valid_message(codec, family)
    taken, reasons = 0, set()
    for _ in range(messages // 3):
        try:
            message = codec.decode(mutator.message(valid))
        except WireError as fault:
            reasons.add(fault.reason)
        else:
            check_message(codec, family, message)
            taken += 1
    assert taken > messages // 60  # else nothing was shown of those
    assert reasons >= {"malformed", "version", "wrong-model", "dtype", "shape", "size", "not-finite"}


def first_number(answered: int) -> int:
    """The number of the document that comes after so many messages."""
    return 2 + NUMBERS * (1 + answered)


def requests_of(mutator: Mutator) -> Iterator[Request]:
    for number in count(first_number(0), NUMBERS):
        method, path = mutator.pick(ENDPOINTS)
        valid = msgspec.msgpack.encode(valid_messages(number)[method, path])
        yield Request(method, path, harmless(path, mutator.message(valid), number))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[WatchedAgent]:
    agent = WatchedAgent("a1", tmp_path / "a1", "--history-limit", 1000)
    try:
        agent.start()
        agent.put("model", {"revision": 1, "model": MODEL})
        yield agent
    finally:
        agent.close()


def settle(agent: WatchedAgent, number: int, stored: int) -> None:
    """All that was acknowledged is there, is applied in one round, and the belief that comes of it is one."""
    agent.put("neighbors", {"epoch": number, "own_weight": 1.0})
    agent.put("schedule", {"revision": number, "paused": True, "observations_per_round": 1_000_000, "when_short": "go"})
    answer = agent.http.post("/v1/rounds", json={"rounds": 1, "wait_s": 60})
    assert answer.json()["complete"], agent.status()
    counts = agent.status()["observations"]
    assert (counts["collected"], counts["applied"]) == (stored, stored)
    belief = agent.http.get("/v1/belief", params={"full": True}).json()
    assert np.isfinite([belief["mean"], belief["variance"]]).all()
    assert min(belief["variance"]) > 0
    assert len(agent.message(codec_of(MODEL)).parts) == 1


@pytest.mark.parametrize("messages", POSTED)
def test_no_message_breaks_an_agent_or_holds_it_up(agent: WatchedAgent, messages: int) -> None:
    tally, requests = Tally(), requests_of(Mutator(1))
    resident, looked_at = 0, len(agent.gaps())
    for _ in range(messages // BLOCK):
        flood(agent.port, islice(requests, BLOCK), tally)
        settle(agent, first_number(tally.answered) - 1, tally.stored)
        gaps = agent.gaps()
        for gap in [gap for gap in gaps[looked_at:] if gap.counted_s > LONGEST_GAP_S]:
            for request in tally.during(gap):
                assert held_up_by(agent, request) <= LONGEST_GAP_S, request
        looked_at = len(agent.gaps())
        resident = resident or agent.resident_bytes()  # after the first block: by then everything has been used
    assert tally.answered == messages
    assert min(tally.accepted[path] for _, path in ENDPOINTS) > messages // 1000  # else nothing was shown of those
    assert tally.refused.keys() >= {"invalid-msgpack", "invalid-observations", "wrong-dimension", "not-finite"}
    assert agent.resident_bytes() - resident < MOST_GROWTH
    assert "Traceback" not in agent.log.read_text()


def held_up_by(agent: WatchedAgent, request: Request) -> float:
    return agent.held_up_by(lambda: flood(agent.port, iter([request]), Tally()))
