"""Small random models, beliefs, batches and networks, each from a generator."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from service.inference.arrays import FloatArray, StartArray
from service.inference.belief import Belief, DiagonalGaussian, Evidence, FullGaussian
from service.inference.features import CenterFeatures
from service.inference.likelihoods import Gaussian, Likelihood, Logistic, Poisson, Probit, StudentT
from service.inference.stack import BeliefStack
from tests.inference import oracles
from tests.inference.oracles import Array, Natural


class Sensor(NamedTuple):
    """A likelihood and the equations that it should follow."""

    likelihood: Likelihood
    expectations: oracles.Expectations


SENSORS: dict[str, Sensor] = {
    "probit": Sensor(Probit(), oracles.probit),
    "gaussian": Sensor(Gaussian(4.0), oracles.gaussian(4.0)),
    "logistic": Sensor(Logistic(), oracles.logistic),
    "student_t": Sensor(StudentT(4.0, 0.5), oracles.student_t(4.0, 0.5)),
    "poisson": Sensor(Poisson(), oracles.poisson),
}
KINDS = list(SENSORS)


def targets_for(likelihood: Likelihood, f: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Observations that the likelihood allows, and that follow f."""
    if likelihood.is_binary:
        return (generator.random(f.shape) < expit(f)).astype(np.float64)
    if isinstance(likelihood, Poisson) or likelihood.targets == Poisson.targets:
        return generator.poisson(np.exp(np.clip(f, -5, 3))).astype(np.float64)
    return f + 0.3 * generator.standard_normal(f.shape)


def surface(x: FloatArray) -> FloatArray:
    """Something smooth to learn, of points in any dimension."""
    return 1.5 * np.sin(1.3 * x.sum(axis=-1)) + 0.5 * x[..., 0]


def center_features(
    generator: np.random.Generator, count: int, dimension: int = 2, cutoff: float | None = None
) -> CenterFeatures:
    """Centres in the square from -2 to 2, each with its own lengthscale."""
    centers = generator.uniform(-2, 2, (count, dimension))
    return CenterFeatures(centers, generator.uniform(0.3, 0.9, count), cutoff=cutoff)


def points(generator: np.random.Generator, count: int, dimension: int = 2) -> FloatArray:
    """Points among the centres."""
    return generator.uniform(-2, 2, (count, dimension))


def belief_with(generator: np.random.Generator, family: str, dimension: int) -> Belief:
    """A belief that has seen something: any positive definite information, any shift of moderate size."""
    shift = generator.standard_normal(dimension)
    if family == "diagonal":
        return DiagonalGaussian(generator.uniform(0.3, 3.0, dimension), shift)
    root = generator.standard_normal((dimension, dimension)) / np.sqrt(dimension)
    return FullGaussian(root @ root.T + 0.3 * np.eye(dimension), shift)


def natural(belief: Belief | Evidence) -> Natural:
    """The numbers of a belief, for an oracle."""
    return Natural(belief.information, belief.shift)


def assert_same(found: Belief | Evidence | BeliefStack | Natural, expected: Any, relative: float) -> None:
    """Information and shift agree, relative to the largest entry of each."""
    for name in ("information", "shift"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.shape == other.shape
        scale = np.abs(other).max(initial=1e-300)
        np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=relative, err_msg=name)


def doubly_stochastic(generator: np.random.Generator, agents: int, density: float = 0.3) -> Array:
    """Sinkhorn weights of a random strongly connected digraph with self-loops: a directed ring, and edges at random."""
    order = generator.permutation(agents)
    ring = np.zeros((agents, agents))
    ring[order, np.roll(order, 1)] = 1.0
    weights = np.maximum(np.maximum(ring, np.eye(agents)), generator.random((agents, agents)) < density).astype(float)
    for _ in range(100_000):
        weights /= weights.sum(axis=1, keepdims=True)
        weights /= weights.sum(axis=0, keepdims=True)
        if np.abs(weights.sum(axis=1) - 1).max() < 1e-14:
            return weights
    raise AssertionError("Sinkhorn's iteration is too slow on this graph: take another seed")


def starts_of(lengths: Sequence[int]) -> StartArray:
    """Where each agent's rows begin, and the end of the last."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def snapshot(*arrays: npt.NDArray[Any]) -> list[bytes]:
    """The bytes of arrays, to see later whether anyone wrote to them."""
    return [array.tobytes() for array in arrays]
