"""What `delbo fit` reaches on the real data sets: the accuracies that the README promises."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Fit = Callable[..., Any]


@pytest.mark.thorough
def test_banana_reaches_the_papers_accuracy_with_the_full_family(delbo_json: Fit, data_folder: Path) -> None:
    """One seed varies by a point (it draws the centres), so ten are averaged; for one agent a batch equals the loop."""
    options = "--rows 0::2 --test-rows 1::2 --order replay --steps 20000 --batch 50".split()
    results = [
        delbo_json("fit", "examples/models/banana.yaml", data_folder / "banana.csv.gz", *options, "--seed", seed)
        for seed in range(10)
    ]
    assert np.mean([result["agents"][0]["accuracy"] for result in results]) >= 0.88
    assert len({result["model_id"] for result in results}) == 10  # the seed chooses the centres


@pytest.mark.thorough
def test_intel_reaches_the_papers_accuracy_with_one_diagonal_agent(delbo_json: Fit, data_folder: Path) -> None:
    options = "--holdout 10 --order replay --steps 400000 --batch 100".split()
    result = delbo_json("fit", "examples/models/intel.yaml", data_folder / "intel_points.npz", *options)
    assert result["agents"][0]["accuracy"] >= 0.875
    assert result["features"] == 1201


@pytest.mark.thorough
def test_four_agents_on_a_ring_reach_it_at_a_quarter_of_the_steps(delbo_json: Fit, data_folder: Path) -> None:
    options = "--rows 80000:370000 --holdout 10 --agents 4 --topology ring --order replay --steps 100000".split()
    run = ("fit", "examples/models/intel-1500.yaml", data_folder / "intel_points.npz", *options)
    paper = delbo_json(*run, "--likelihood-weight", 1)
    assert min(agent["accuracy"] for agent in paper["agents"]) >= 0.875
    weighted = delbo_json(*run, "--likelihood-weight", "auto")
    assert weighted["likelihood_weight"] == 4
    assert min(agent["accuracy"] for agent in weighted["agents"]) >= 0.885


def test_on_a_lattice_every_agent_maps_the_whole_of_intel_and_none_could_alone(
    delbo_json: Fit, data_folder: Path
) -> None:
    options = "--agents 4 --topology ring --partition sequential --order stream --batch 100 --holdout 10 --compare"
    data = data_folder / "intel_points.npz"
    result = delbo_json("fit", "examples/models/intel-lattice.yaml", data, *options.split())
    for agent in result["agents"]:
        assert agent["accuracy"] >= 0.97
        assert agent["cross_entropy"] <= 0.085
        assert agent["calibration_error"] <= 0.02
    assert sum(agent["observations"] for agent in result["agents"]) == 344_807  # one pass over all that is not held out
    assert result["centralized"]["accuracy"] >= 0.97
    assert max(agent["accuracy"] for agent in result["isolated"]) <= 0.93


@pytest.mark.thorough
def test_on_a_lattice_seven_robots_map_the_dinno_floor(delbo_json: Fit, data_folder: Path) -> None:
    options = "--partition robot --topology ring --batch 500 --holdout 11".split()
    data = data_folder / "dinno_points.npz"
    result = delbo_json("fit", "examples/models/dinno-lattice.yaml", data, *options)
    assert len(result["agents"]) == 7
    for agent in result["agents"]:
        assert agent["accuracy"] >= 0.99
        assert agent["balanced_accuracy"] >= 0.985


@pytest.mark.thorough
def test_stratified_centres_map_dinno_as_the_paper_does(delbo_json: Fit, data_folder: Path) -> None:
    """300 centres in walls and 700 in rooms see most of the floor; few epochs show that the model file works."""
    options = "--partition robot --batch 50 --holdout 11 --order replay --steps 5000".split()
    result = delbo_json("fit", "examples/models/dinno.yaml", data_folder / "dinno_points.npz", *options)
    assert result["features"] == 1001
    assert min(agent["accuracy"] for agent in result["agents"]) >= 0.92
