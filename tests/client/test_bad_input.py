"""Bad input to the command line: one clear sentence saying what, where, and what would be right; exit code 2."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.conftest import Delbo

MODEL: dict[str, Any] = {
    "features": {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.3, "lower": [0, 0], "upper": [1, 1]},
    "prior": {"information": 0.2},
    "likelihood": {"kind": "probit"},
}
X = np.linspace(0, 1, 20).reshape(10, 2)
Y = np.arange(10) % 2
CENTERS = {"kind": "centers", "lengthscale": 0.3}


def with_features(**changes: Any) -> dict[str, Any]:
    return {**MODEL, "features": {**MODEL["features"], **changes}}


def with_value(values: Any, place: Any, value: float) -> Any:
    changed = np.array(values, float)
    changed[place] = value
    return changed


BAD_MODELS: dict[str, tuple[Any, str]] = {
    "unknown feature kind": (with_features(kind="fourier"), "features.kind is 'fourier': it should be one of"),
    "unknown likelihood": ({**MODEL, "likelihood": {"kind": "cauchy"}}, "likelihood.kind is 'cauchy'"),
    "negative lengthscale": (
        with_features(lengthscale=-1),
        "features.lengthscale: input should be greater than 0",
    ),
    "negative information": (
        {**MODEL, "prior": {"information": -2}},
        "prior.information: input should be greater",
    ),
    "missing key": ({"features": MODEL["features"], "likelihood": "probit"}, "prior is missing"),
    "unknown key": ({**MODEL, "colour": 1}, "colour is not known here"),
    "infinite bound": (with_features(upper=[1, float("inf")]), "features.upper.1: input should be a finite number"),
    "bounds of two lengths": (with_features(lower=[0]), "lower has 1, upper 2"),
    "bounds swapped": (with_features(upper=[-1, 1]), "upper [-1.0, 1.0] must not lie below lower"),
    "cutoff too large": (with_features(cutoff=1.5), "features.cutoff: input should be less than 1"),
    "too many centres": (with_features(spacing=1e-7), "is too large: take a wider spacing"),
    "centres from nowhere": ({**MODEL, "features": CENTERS}, "features: give either centers or choose"),
    "more centres than points": (
        {**MODEL, "features": {**CENTERS, "choose": {"how": "random", "count": 50}}},
        "50 centres cannot be chosen from 10 points",
    ),
    "precision not positive definite": (
        {**MODEL, "likelihood": {"kind": "gaussian", "precision": [[1, 2], [2, 1]]}},
        "must be positive definite",
    ),
    "negative seed": (
        {**MODEL, "features": {**CENTERS, "choose": {"how": "random", "count": 5, "seed": -3}}},
        "features.choose.seed: input should be greater than or equal to 0, not -3",
    ),
    "too many parameters for a full family": (
        {**with_features(spacing=0.005, lengthscale=0.01), "family": "full"},
        "40402 parameters are too many for family: full",
    ),
    "not a mapping": ([1, 2], "a model is a mapping"),
}


@pytest.fixture
def refused(delbo_here: Delbo, tmp_path: Path) -> Callable[..., str]:
    """Run `delbo fit` on what is given, see that it is refused as promised, and return the sentence."""

    def run(*options: object, model: Any = MODEL, x: Any = X, y: Any = Y) -> str:
        (tmp_path / "model.yaml").write_text(model if isinstance(model, str) else yaml.safe_dump(model))
        np.savez(tmp_path / "data.npz", x=x, y=y)
        finished = delbo_here("fit", tmp_path / "model.yaml", tmp_path / "data.npz", *options)
        assert finished.returncode == 2, finished.stderr
        assert finished.stdout == ""
        sentences = finished.stderr.splitlines()
        assert len(sentences) == 1, finished.stderr  # no traceback, no second line
        return sentences[0]

    return run


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_bad_model_is_refused(refused: Callable[..., str], case: str) -> None:
    model, reason = BAD_MODELS[case]
    assert reason in refused(model=model)


def test_a_model_that_is_no_yaml_is_refused(refused: Callable[..., str]) -> None:
    assert "is no YAML" in refused(model="features: {kind: [")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"x": np.zeros((10, 3))}, "points have 3 coordinate(s), but the model's features take 2"),
        ({"x": with_value(X, (3, 1), np.nan)}, "x[3, 1] is nan: every value must be finite"),
        ({"x": with_value(X, (0, 0), np.inf)}, "x[0, 0] is inf"),
        ({"y": with_value(Y, 4, np.nan)}, "y[4] is nan"),
        ({"y": with_value(Y, 7, 2)}, "y[7] is 2: it must be 0 or 1"),
        ({"x": np.empty((0, 2)), "y": np.empty(0)}, "holds no observations"),
        ({"y": Y[:5]}, "x has 10 rows, but y has 5"),
        ({"x": X * 1j}, "x must be numbers"),
    ],
)
def test_bad_data_is_refused(refused: Callable[..., str], data: dict[str, Any], reason: str) -> None:
    assert reason in refused(**data)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--rows", "5"), "rows are A:B or A:B:STEP"),
        (("--rows", "20:30"), "no training rows are left of 10"),
        (("--test-rows", "20:30"), "no test rows are left of 10"),
        (("--holdout", 5, "--test-rows", "0:2"), "give only one of --test-rows, --holdout and --test"),
        (("--passes", 2, "--steps", 5), "give either --passes or --steps, not both"),
        (("--partition", "robot"), "cannot be partitioned by 'robot'; known are sequential, random"),
        (("--agents", 11), "11 agents cannot share 10 observations"),
        (("--topology", "moebius"), "there is no graph 'moebius'"),
        (("--likelihood-weight", "heavy"), "--likelihood-weight is auto or a positive number, not 'heavy'"),
        (("--likelihood-weight", "-1"), "--likelihood-weight is auto or a positive number"),
        (("--forgetting", 1.5), "forgetting must be above 0 and at most 1"),
        (("--test", "nowhere.npz"), "nowhere.npz: there is no such file"),
        (("--mixing-weights", "given"), "needs a matrix file as the topology"),
        (("--out", "README.md"), "--out README.md: cannot be made a folder"),
        (("--out", "README.md/plots"), "--out README.md/plots: cannot be made a folder"),
    ],
)
def test_bad_options_are_refused(refused: Callable[..., str], options: tuple[object, ...], reason: str) -> None:
    assert reason in refused(*options)


def test_targets_too_large_to_score_are_refused_and_no_json_is_printed(refused: Callable[..., str]) -> None:
    model = {**MODEL, "likelihood": {"kind": "gaussian", "precision": 1.0}}
    assert "they are far too large" in refused("--json", model=model, y=np.full(10, 1e200))


def test_missing_files_are_named(delbo: Delbo, tmp_path: Path) -> None:
    finished = delbo("fit", "nowhere.yaml", "nowhere.npz")
    assert finished.returncode == 2
    assert finished.stderr.strip() == "delbo: nowhere.yaml: there is no such file"


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        ([[0.5, 0.5], [0.4, 0.6]], "sum"),
        ([[1.5, -0.5], [-0.5, 1.5]], "negative"),
        ([[1.0, 0.0], [0.0, 1.0]], "cannot reach"),
        ([[0.0, 0.0], [0.5, 0.5]], "no entry"),
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], "square"),
    ],
)
def test_a_matrix_that_cannot_work_is_refused_with_the_reason(
    delbo_here: Delbo, tmp_path: Path, matrix: list[list[float]], reason: str
) -> None:
    np.savetxt(tmp_path / "matrix.csv", matrix, delimiter=",")
    finished = delbo_here("weights", tmp_path / "matrix.csv", "--mixing-weights", "given")
    assert finished.returncode == 2
    assert reason in finished.stderr
    assert len(finished.stderr.splitlines()) == 1
