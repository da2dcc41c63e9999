"""What a network found out, be it simulated or of real agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from client.curves import Curves
from client.mixing_weights import spectral_gap
from client.streams.tables import Table
from service.inference.belief import Belief
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.inference.objective import consensus_divergence, consensus_error, divergences_from_center
from service.inference.scores import Scores
from service.wire.model import ModelSpec


@dataclass(frozen=True, eq=False)
class Result:
    """Everything that a report needs."""

    spec: ModelSpec
    features: Features
    likelihood: Likelihood
    beliefs: list[Belief]
    isolated_beliefs: list[Belief]
    summary: dict[str, Any]
    curves: Curves
    train: Table
    test: Table


def summarize(
    spec: ModelSpec,
    mixing_matrix: Any,
    names: Sequence[str],
    beliefs: Sequence[Belief],
    scores: Sequence[Scores],
    observations: Sequence[int],
    uncovered: Sequence[int],
) -> dict[str, Any]:
    """The network's figures, and each agent's."""
    errors = consensus_error(beliefs).tolist()
    divergences = divergences_from_center(beliefs).tolist()
    return {
        "model_id": spec.model_id,
        "features": beliefs[0].dimension // spec.outputs,
        "spectral_gap": spectral_gap(mixing_matrix),
        "consensus_divergence": consensus_divergence(beliefs),
        "agents": [
            {
                "name": name,
                "observations": int(observations[agent]),
                "uncovered": int(uncovered[agent]),
                **scores[agent],
                "consensus_error": errors[agent],
                "consensus_divergence": divergences[agent],
            }
            for agent, name in enumerate(names)
        ],
    }
