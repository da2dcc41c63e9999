"""How well it goes: DELBO terms, consensus errors, and the quality of predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.errors import DataError, SettingError
from service.inference.activations import Activations
from service.inference.arrays import FloatArray, as_floats
from service.inference.belief import Belief, kl_divergence
from service.inference.likelihood import Likelihood
from service.inference.mixing import mix
from service.inference.prediction import predict
from service.inference.stack import check_same_kind

_SMALLEST_PROBABILITY = 1e-15


def expected_log_likelihood(q: Belief, activations: Activations, targets: Any, likelihood: Likelihood) -> float:
    """E_q[log p(y | theta)], summed over the batch; points that no centre reaches are left out, as in conditioning."""
    y = likelihood.check_targets(targets)
    if len(y) != len(activations):
        raise DataError(f"{len(activations)} points and {len(y)} targets: there must be as many of both")
    prediction = predict(q, activations, likelihood)
    terms = likelihood.expected_log_density(y, prediction.latent_mean, prediction.latent_variance)
    return float(terms[activations.covered].sum())


def delbo_component(
    q: Belief, mixed: Belief, activations: Activations, targets: Any, likelihood: Likelihood, agents: int
) -> float:
    """J_i[q] = E_q[log p_i] - KL(q || mixed_i) / n: agent i's part of the distributed evidence lower bound.

    For one q common to all agents the parts sum to a bound:
    log evidence - sum_i J_i[q] = KL(q || posterior) + consensus divergence of the mixed beliefs.
    At the agents' own beliefs the sum is a figure of progress, not a bound.
    """
    if agents < 1:
        raise SettingError(f"a network has at least one agent, not {agents}")
    return expected_log_likelihood(q, activations, targets, likelihood) - kl_divergence(q, mixed) / agents


def consensus_error(beliefs: Sequence[Belief]) -> FloatArray:
    """Per agent |mu_i - mean_j mu_j|, summed over the parameters: what the paper plots."""
    check_same_kind(beliefs)
    means = np.stack([belief.mean for belief in beliefs])
    errors: FloatArray = np.abs(means - means.mean(axis=0)).sum(axis=1)
    return errors


def mean_distance(one: Belief, other: Belief) -> float:
    """|mu_i - mu_j| of two agents, summed over the parameters: the paper's consensus error between them."""
    check_same_kind((one, other))
    return float(np.abs(one.mean - other.mean).sum())


def consensus_divergence(beliefs: Sequence[Belief]) -> float:
    """log(1 / K), K = integral of prod_i p_i^(1/n) (Theorem 1): zero only if all agents agree.

    For Gaussians the mean log-normalizer less that of the average belief, which is the mean of
    `divergences_from_center`.
    """
    center = _average(beliefs)
    return max(float(np.mean([belief.log_normalizer for belief in beliefs])) - center.log_normalizer, 0.0)


def divergences_from_center(beliefs: Sequence[Belief]) -> FloatArray:
    """Per agent KL(p_g || p_i), p_g the network's average belief."""
    center = _average(beliefs)
    return np.array([kl_divergence(center, belief) for belief in beliefs])


def pairwise_divergences(beliefs: Sequence[Belief]) -> FloatArray:
    """KL(p_i || p_j) for every two agents, shape (n, n)."""
    return np.array([[kl_divergence(one, other) for other in beliefs] for one in beliefs])


def modelling_error(beliefs: Sequence[Belief], posterior: Belief) -> float:
    """The mean of KL(q_i || posterior) over the agents."""
    check_same_kind(beliefs)
    return float(np.mean([kl_divergence(belief, posterior) for belief in beliefs]))


def _average(beliefs: Sequence[Belief]) -> Belief:
    check_same_kind(beliefs)
    return mix(beliefs, np.full(len(beliefs), 1 / len(beliefs)))


def cross_entropy(probabilities: Any, labels: Any) -> float:
    """The mean of -log P(true label), in nats."""
    p, y = _pair(probabilities, labels)
    p = np.clip(p, _SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


def accuracy(probabilities: Any, labels: Any) -> float:
    """The share of points whose more probable label is true; P = 1/2 counts as label 1."""
    p, y = _pair(probabilities, labels)
    return float(np.mean((p >= 0.5) == (y == 1)))


def balanced_accuracy(probabilities: Any, labels: Any) -> float:
    """The mean over the classes present of the share that is right within the class."""
    p, y = _pair(probabilities, labels)
    return float(np.mean([accuracy(p[y == label], y[y == label]) for label in np.unique(y)]))


def calibration_error(probabilities: Any, labels: Any, bins: int = 10) -> float:
    """The mean distance, over equal bins of P(y = 1), between the probabilities and the share of label 1."""
    if bins < 1:
        raise SettingError(f"probabilities are sorted into at least one bin, not {bins}")
    p, y = _pair(probabilities, labels)
    which = np.minimum((p * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(which, weights=p - y, minlength=bins)
    return float(np.abs(gaps).sum() / p.size)


def root_mean_square_error(means: Any, targets: Any) -> float:
    """The root of the mean square of mean - target."""
    predicted, y = as_floats("means", means, np.ndim(means)), as_floats("targets", targets, np.ndim(targets))
    if predicted.shape != y.shape or y.size == 0:
        raise DataError(f"means {predicted.shape} and targets {y.shape} must be as many, at least one")
    return float(np.sqrt(np.mean(np.square(predicted - y))))


def _pair(probabilities: Any, labels: Any) -> tuple[FloatArray, FloatArray]:
    p, y = as_floats("probabilities", probabilities, 1), as_floats("labels", labels, 1)
    if p.shape != y.shape or p.size == 0:
        raise DataError(f"{p.size} probabilities and {y.size} labels: there must be as many of both, at least one")
    if not ((p >= 0) & (p <= 1)).all() or not ((y == 0) | (y == 1)).all():
        raise DataError("probabilities must lie between 0 and 1, and labels must be 0 or 1")
    return p, y
