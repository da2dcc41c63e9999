"""Valid messages of every kind, and what an answer of success promises about the message that got it."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from service.wire.arrays import to_wire

Message = dict[str, Any]

LATTICE: Message = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 2]}
GAUSSIAN: Message = {"kind": "gaussian", "precision": 4.0}
MODEL: Message = {"features": LATTICE, "prior": {"information": 0.5}, "likelihood": GAUSSIAN}

_X = np.array([[0.1, 0.4], [1.2, 0.3], [1.9, 1.9]])
_NOBODY = "http://127.0.0.1:1"  # no message names another host than this one: nothing leaves the machine
_SIZES = {"<f8": 8, "<f4": 4, "<i8": 8, "<i4": 4, "|u1": 1}
_LONGEST_WAIT_S = 0.02
_LARGEST = 1e30  # beyond any sensor


def valid_messages(number: int) -> dict[tuple[str, str], Message]:
    """One message for each endpoint that takes msgpack, the documents with that number."""
    neighbors = [{"name": "a2", "url": _NOBODY, "weight": 0.25}, {"name": "a3", "url": _NOBODY, "weight": 0.25}]
    return {
        ("POST", "/v1/observations"): {"x": to_wire(_X), "y": to_wire(_X[:, 0])},
        ("POST", "/v1/predictions"): {"x": to_wire(_X)},
        ("PUT", "/v1/verification"): {
            "revision": number, "every_rounds": 3, "x": to_wire(_X), "y": to_wire(_X[:, 0]),
        },
        ("PUT", "/v1/schedule"): {
            "revision": number, "paused": True, "observations_per_round": 5, "exchange": "latest", "seed": 1,
            "forgetting": 1.0, "period_s": 0.1, "deadline_s": 1.0, "until_round": 9, "likelihood_weight": 2.0,
        },
        ("PUT", "/v1/neighbors"): {
            "epoch": number, "agents": 4, "index": 1, "own_weight": 0.5, "neighbors": neighbors, "history": 2,
            "precision": "float64",
        },
        ("PUT", "/v1/model"): {"revision": number, "model": MODEL, "likelihood": GAUSSIAN},
        ("POST", "/v1/rounds"): {"rounds": 1, "wait_s": _LONGEST_WAIT_S},
    }  # fmt: skip


def harmless(path: str, body: bytes, number: int) -> bytes:
    """The same message, unless it would stop the others from meaning anything, or would look for another host."""
    if body.lower().count(b"http") != body.count(_NOBODY.encode()):
        return b"\xc0"
    try:
        document = msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body
    if not isinstance(document, dict):
        return body
    if path == "/v1/observations" and _is_enormous(document.get("y")):
        return b"\xc0"
    for name in ("revision", "epoch"):  # after the highest number there would be none left to put
        if name in document and _is_number(document[name]) and float(document[name]) > number:
            document[name] = number
    if path == "/v1/rounds" and not 0 < _number_or(document.get("wait_s", 30), 0) <= _LONGEST_WAIT_S:
        document["wait_s"] = _LONGEST_WAIT_S if _is_number(document.get("wait_s", 30)) else document["wait_s"]
    if path == "/v1/schedule" and document.get("paused") is not True:
        document["until_round"] = 9  # an agent that runs by itself is soon finished
    return msgspec.msgpack.encode(document)


def _is_enormous(array: Any) -> bool:
    """Finite, but of a size that a belief overflows with: such a round fails, and says so (docs/behaviour.md)."""
    if not (isinstance(array, dict) and array.get("dtype") in ("<f8", "<f4") and isinstance(array.get("data"), bytes)):
        return False
    numbers = np.abs(np.frombuffer(array["data"][: len(array["data"]) // 8 * 8], array["dtype"]))
    return bool(((numbers > _LARGEST) & (numbers < np.inf)).any())


def _is_number(value: Any) -> bool:
    """Whether somebody generous might take it for a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _number_or(value: Any, otherwise: float) -> float:
    return float(value) if _is_number(value) else otherwise


def array_of(wire: Any, dimensions: int) -> Any:
    """The numbers of an array, by its definition alone; finite, of that many dimensions."""
    assert set(wire) == {"dtype", "shape", "data"}
    assert len(wire["shape"]) == dimensions
    numbers = np.frombuffer(wire["data"], np.dtype(wire["dtype"])).reshape(wire["shape"])
    assert numbers.itemsize == _SIZES[wire["dtype"]]
    assert np.isfinite(numbers).all()
    return numbers


def _check_pairs(sent: Message) -> int:
    x, y = array_of(sent["x"], 2), array_of(sent["y"], 1)
    assert x.shape == (len(y), 2)
    return len(y)


def check_observations(sent: Message, answer: Message) -> None:
    """As many are stored as there are finite pairs in the message; none comes only with an end."""
    rows = _check_pairs(sent) if sent.get("x") is not None else 0
    assert set(sent) <= {"x", "y", "end"}
    assert rows or sent["end"] is True
    assert answer == {"stored": rows}


def check_predictions(sent: Message, answer: Message) -> None:
    """One finite number of each kind for every point."""
    x = array_of(sent["x"], 2)
    assert x.shape[1] == 2
    for name in ("mean", "variance", "entropy", "latent_mean", "latent_variance"):
        assert array_of(answer[name], 1).shape == (len(x),)
    assert (array_of(answer["variance"], 1) >= 1 / GAUSSIAN["precision"]).all()


def check_verification(sent: Message, answer: Message) -> None:
    """The points are pairs, or there are none."""
    assert set(sent) == {"revision", "every_rounds", "x", "y"}
    sizes = [one["data"] for one in (sent["x"], sent["y"])]
    rows = _check_pairs(sent) if any(sizes) else 0
    assert answer == {"revision": sent["revision"], "points": rows}
    assert 1 <= sent["every_rounds"] <= 10**9


def check_schedule(sent: Message, answer: Message) -> None:
    """Every number is in its range."""
    assert answer == {"revision": int(sent["revision"])}
    ranges = {
        "observations_per_round": (0, 1e6), "seed": (0, 2**62), "forgetting": (0, 1), "period_s": (0, 86_400),
        "deadline_s": (0, 30), "stale_after_s": (0, 86_400), "until_round": (0, 2**62),
    }  # fmt: skip
    for name, (low, high) in ranges.items():
        if sent.get(name) is not None:
            assert low <= float(sent[name]) <= high, name
    weight = sent.get("likelihood_weight", "auto")
    assert weight == "auto" or 0 < float(weight) < float("inf")
    assert sent.get("exchange", "latest") in ("latest", "lockstep")


def check_neighbors(sent: Message, answer: Message) -> None:
    """The weights are a row of mixing weights, and every neighbor is another one, on this machine."""
    assert answer == {"epoch": int(sent["epoch"])}
    neighbors = sent.get("neighbors", [])
    assert all(one["url"].startswith(_NOBODY) for one in neighbors)
    assert len({one["name"] for one in neighbors}) == len(neighbors) < int(sent.get("agents", 1))
    weights = [float(sent["own_weight"]), *(float(one["weight"]) for one in neighbors)]
    assert min(weights) >= 0
    assert abs(sum(weights) - 1) < 1e-6


def check_model(sent: Message, answer: Message) -> None:
    """It is the model that the agent has, spelled with every default or without."""
    features = sent["model"]["features"]
    assert answer["revision"] == int(sent["revision"])
    assert all(
        np.array_equal(np.asarray(features[key], float), value) for key, value in LATTICE.items() if key != "kind"
    )
    assert float(sent["model"]["prior"]["information"]) == 0.5
    assert float(sent["model"]["likelihood"]["precision"]) == 4.0 or sent["likelihood"] is not None


def check_rounds(sent: Message, answer: Message) -> None:
    """No more rounds than were asked for."""
    assert 1 <= int(sent.get("rounds", 1)) <= 10_000
    assert len(answer["rounds"]) <= int(sent.get("rounds", 1))
    assert answer["complete"] == (len(answer["rounds"]) == int(sent.get("rounds", 1)))


CHECKS: dict[str, Callable[[Message, Message], None]] = {
    "/v1/observations": check_observations,
    "/v1/predictions": check_predictions,
    "/v1/verification": check_verification,
    "/v1/schedule": check_schedule,
    "/v1/neighbors": check_neighbors,
    "/v1/model": check_model,
    "/v1/rounds": check_rounds,
}
