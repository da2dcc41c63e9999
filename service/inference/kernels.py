"""The numba loops, and nothing else; the modules beside this one say what they mean.

Every kernel has an explicit signature, releases the GIL and is cached on disk: it is compiled once per machine, when
this module is first imported (`python -m service.inference`, run by the installation), never at an observation. They
live in one file because numba's cache looks at the modification time of the file that holds the kernel only, so that
a kernel calling one from another file would go on with the old one.

Arguments are checked by the callers. Arrays that are written to are named last; all others are read-only.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64, njit, types, void

from service.inference.quadrature import NODES, WEIGHTS

# What a likelihood is to a kernel: a number, and up to two parameters.
PROBIT, GAUSSIAN, LOGISTIC, POISSON, STUDENT_T = range(5)

XI = 0.61  # the slope at which the normal distribution function stands in for the sigmoid (Lemma 4)

_floats = types.Array(types.float64, 1, "C", readonly=True)
_floats2 = types.Array(types.float64, 2, "C", readonly=True)
_starts = types.Array(types.int64, 1, "C", readonly=True)
_indices = types.Array(types.int32, 1, "C", readonly=True)
_out = types.Array(types.float64, 1, "C")
_out2 = types.Array(types.float64, 2, "C")
_out_starts = types.Array(types.int64, 1, "C")
_starts2 = types.Array(types.int64, 2, "C", readonly=True)
_out_starts2 = types.Array(types.int64, 2, "C")
_table = (_starts2, _floats2, _floats2)  # as `reach_of_axis` fills it

# Sums may be reordered, so that they vectorise; nothing else of IEEE arithmetic is given up. Never with
# `exp_negative`, whose rounding is a sum that must not be reordered.
_SUMS = {"reassoc", "nsz"}

# Python's error model would test every divisor, one by one.
_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}

_LOWEST_EXPONENT = -700.0  # below, exp is a subnormal number or zero, and slow; a kernel is zero there
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves a double's integer part in its lowest bits


@njit(inline="always")
def exp_negative(exponent):
    """exp on [-700, 0], to 2 units in the last place, in operations that vectorise (libm's exp does not)."""
    shifted = exponent * _LOG2_E + _ROUND
    power = shifted - _ROUND
    r = (exponent - power * _LN2_HIGH) - power * _LN2_LOW  # |r| <= ln(2) / 2
    # The Taylor series to degree 12 by Estrin's scheme: short chains of dependent operations.
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0))
    series = low + r4 * (middle + r4 * (high + r4 * (1.0 / 479001600.0)))
    return np.int64(np.float64(series).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)).view(np.float64)


@njit(void(_floats2, _floats2, _floats, float64, _out2), **_OPTIONS, fastmath={"contract"})
def activate_all(points, center_axes, gamma2, gamma1, values):
    """values[row] = [1, gamma1 exp(-gamma2 |x - c|^2) for every centre]; center_axes is (dimension, centres)."""
    dimension, count = center_axes.shape
    for row in range(points.shape[0]):
        values[row, 0] = 1.0
        out = values[row, 1:]
        for s in range(count):
            out[s] = 0.0
        for axis in range(dimension):
            x = points[row, axis]
            centers = center_axes[axis]
            for s in range(count):
                difference = x - centers[s]
                out[s] += difference * difference
        for s in range(count):
            exponent = -gamma2[s] * out[s]
            value = gamma1 * exp_negative(max(exponent, _LOWEST_EXPONENT))
            out[s] = value if exponent > _LOWEST_EXPONENT else 0.0


_sparse_rows = types.Tuple((types.Array(types.int32, 1, "C"), types.Array(types.float64, 1, "C"), _out_starts))


@njit(
    _sparse_rows(_floats2, _floats, float64, _starts, float64, float64, float64),
    **_OPTIONS,
)
def activate_lattice(points, lower, spacing, counts, gamma2, gamma1, threshold):
    """Rows of the active centres of a lattice in up to three dimensions: those with gamma2 |x - c|^2 <= threshold.

    The kernel factorises over the axes, so a row needs the exponentials of a few lines of centres, not of all.
    """
    rows, dimension = points.shape
    reach = math.sqrt(threshold / gamma2)
    widest = int(2.0 * reach / spacing) + 6  # centres within reach, one more at either end, and rounding
    most = 1
    for axis in range(dimension):
        most *= min(widest, counts[axis])
    indices = np.empty(rows * (most + 1), np.int32)
    values = np.empty(rows * (most + 1), np.float64)
    row_starts = np.empty(rows + 1, np.int64)
    # Axes that the lattice does not have are lines of one centre at distance zero.
    first = np.zeros(3, np.int64)
    length = np.ones(3, np.int64)
    size = np.ones(3, np.int64)
    size[:dimension] = counts
    squares = np.zeros((3, widest))
    factors = np.ones((3, widest))
    position = 0
    row_starts[0] = 0
    for row in range(rows):
        for axis in range(dimension):
            offset = (points[row, axis] - lower[axis]) / spacing
            begin = max(math.ceil(offset - reach / spacing) - 1.0, 0.0)
            end = min(math.floor(offset + reach / spacing) + 1.0, size[axis] - 1.0)
            first[axis] = np.int64(min(begin, float(size[axis])))
            length[axis] = np.int64(max(end - begin + 1.0, 0.0))
            for k in range(length[axis]):
                difference = points[row, axis] - (lower[axis] + (first[axis] + k) * spacing)
                squares[axis, k] = difference * difference
                factors[axis, k] = exp_negative(max(-gamma2 * squares[axis, k], _LOWEST_EXPONENT))
        indices[position] = 0
        values[position] = 1.0
        position += 1
        for i in range(length[0]):
            for j in range(length[1]):
                for k in range(length[2]):
                    if gamma2 * (squares[0, i] + squares[1, j] + squares[2, k]) <= threshold:
                        key = ((first[0] + i) * size[1] + first[1] + j) * size[2] + first[2] + k
                        indices[position] = key + 1
                        values[position] = gamma1 * (factors[0, i] * factors[1, j] * factors[2, k])
                        position += 1
        row_starts[row + 1] = position
    return indices[:position], values[:position], row_starts


@njit(
    _sparse_rows(_floats2, _floats2, _floats, float64, float64, _floats, float64, _starts, _starts, _indices),
    **_OPTIONS,
)
def activate_near(points, centers, gamma2, gamma1, threshold, lower, cell, cell_counts, cell_starts, members):
    """Rows of the active centres, those with gamma2 |x - c|^2 <= threshold, found in a uniform grid of cells.

    The grid covers the first (up to three) axes, its cells as wide as the farthest reach: only a point's own cell and
    those around it can hold an active centre, in any dimension.
    """
    rows, dimension = points.shape
    indices = np.empty(rows * 32 + 1, np.int32)
    values = np.empty(rows * 32 + 1, np.float64)
    row_starts = np.empty(rows + 1, np.int64)
    begin = np.zeros(3, np.int64)
    end = np.zeros(3, np.int64)
    position = 0
    row_starts[0] = 0
    for row in range(rows):
        for axis in range(min(dimension, 3)):
            own = math.floor((points[row, axis] - lower[axis]) / cell)
            begin[axis] = np.int64(min(max(own - 1.0, 0.0), float(cell_counts[axis])))
            end[axis] = np.int64(max(min(own + 1.0, cell_counts[axis] - 1.0), -1.0))
        if position + 1 > indices.size:
            indices = np.concatenate((indices, np.empty_like(indices)))
            values = np.concatenate((values, np.empty_like(values)))
        indices[position] = 0
        values[position] = 1.0
        position += 1
        for i in range(begin[0], end[0] + 1):
            for j in range(begin[1], end[1] + 1):
                for k in range(begin[2], end[2] + 1):
                    box = (i * cell_counts[1] + j) * cell_counts[2] + k
                    while position + cell_starts[box + 1] - cell_starts[box] > indices.size:
                        indices = np.concatenate((indices, np.empty_like(indices)))
                        values = np.concatenate((values, np.empty_like(values)))
                    for member in range(cell_starts[box], cell_starts[box + 1]):
                        s = members[member]
                        square = 0.0
                        for axis in range(dimension):
                            difference = points[row, axis] - centers[s, axis]
                            square += difference * difference
                        if gamma2[s] * square <= threshold:
                            indices[position] = s + 1
                            values[position] = gamma1 * exp_negative(max(-gamma2[s] * square, _LOWEST_EXPONENT))
                            position += 1
        row_starts[row + 1] = position
    return indices[:position], values[:position], row_starts


@njit(types.UniTuple(float64, 2)(float64, float64, float64, float64), **_OPTIONS)
def poisson_step(target, mean, variance, likelihood_weight):
    """Curvature and gradient of the implicit Poisson step, by Newton's method inside a bracket, on u = log(rate).

    m* = m + s w (y - r), 1/s* = 1/s + w r, log r = m* + s*/2: one equation in u = log r, strictly increasing.
    """
    scale = variance * likelihood_weight
    high = min(mean + scale * target + 0.5 * variance, 700.0)
    low = min(mean + scale * target, 700.0)
    width = 1.0
    while low + scale * math.exp(low) > mean + scale * target:  # then the equation's left side is below zero there
        low -= width
        width *= 2.0
    u = 0.5 * (low + high)
    for _ in range(200):
        rate = math.exp(u)
        shrunk = 1.0 + scale * rate
        excess = (u - mean) - scale * (target - rate) - 0.5 * variance / shrunk
        slope = shrunk + 0.5 * variance * scale * rate / (shrunk * shrunk)
        if excess > 0.0:
            high = u
        else:
            low = u
        following = u - excess / slope
        # Far up Newton's steps shrink u by one at a time only: halve the bracket unless they do better.
        if not (low <= following <= high) or (abs(following - u) < 1.5 and high - low > 8.0):
            following = 0.5 * (low + high)
        if abs(following - u) <= 1e-15 * max(1.0, abs(u)):
            break
        u = following
    rate = math.exp(u)
    # The gradient at m* seen from m is e + a (m* - m) = e (1 + s w r), with e = y - r = (m* - m) / (s w): of the two
    # ways to e, the one that cancels less.
    shrunk = 1.0 + scale * rate
    gradient = ((u - mean) - 0.5 * variance / shrunk) / scale if scale * rate > 1.0 else target - rate
    return rate, gradient * shrunk


@njit(
    types.UniTuple(float64, 2)(int64, _floats, float64, float64, float64, float64),
    **_OPTIONS,
)
def expectations(kind, parameters, target, mean, variance, likelihood_weight):
    """The expected curvature a >= 0 and gradient e of the log-likelihood under f ~ N(mean, variance)."""
    if kind == PROBIT:  # Lemma 5
        beta = 1.0 + XI * XI * variance
        z = XI * mean / math.sqrt(beta)
        curvature = XI / math.sqrt(2.0 * math.pi * beta) * math.exp(-0.5 * z * z)
        return curvature, target - 0.5 * math.erfc(-z / math.sqrt(2.0))
    if kind == GAUSSIAN:  # Lemma 7
        return parameters[0], parameters[0] * (target - mean)
    if kind == POISSON:
        return poisson_step(target, mean, variance, likelihood_weight)
    curvature = 0.0
    gradient = 0.0
    deviation = math.sqrt(variance)
    if kind == LOGISTIC:
        for k in range(NODES.size):
            f = mean + deviation * NODES[k]
            tail = exp_negative(max(-abs(f), _LOWEST_EXPONENT))
            small = tail / (1.0 + tail)  # the sigmoid of -|f|, which never rounds to one
            curvature += WEIGHTS[k] * small * (1.0 - small)
            gradient += WEIGHTS[k] * (target - (1.0 - small if f > 0.0 else small))
        return curvature, gradient
    degrees, scale = parameters[0], parameters[1]  # Student-t
    for k in range(NODES.size):
        residual = target - mean - deviation * NODES[k]
        weight = WEIGHTS[k] * (degrees + 1.0) / (degrees * scale * scale + residual * residual)
        curvature += weight
        gradient += weight * residual
    return curvature, gradient


@njit(
    void(_starts, _indices, _floats, _starts, _floats, _starts, _floats2, float64, types.boolean, _out2, _out2),
    **_OPTIONS,
    fastmath=_SUMS,
)
def condition_diagonal(
    agent_starts,
    indices,
    values,
    row_starts,
    targets,
    kinds,
    parameters,
    likelihood_weight,
    projected,
    information,
    shift,
):
    """Apply each agent's rows to its diagonal belief, one after the other (Lemma 6); rows that lie apart are skipped.

    Agent i has the rows agent_starts[i] to agent_starts[i + 1]. Without indices every row has all features.
    """
    dense = indices.size == 0
    inverse = np.empty(information.shape[1])
    for agent in range(agent_starts.size - 1):
        d = information[agent]
        eta = shift[agent]
        for row in range(agent_starts[agent], agent_starts[agent + 1]):
            begin = row_starts[row]
            length = row_starts[row + 1] - begin
            if length == 1 and not dense:
                continue  # only the constant is active: no centre reaches this point
            phi = values[begin : begin + length]
            active = indices[begin : begin + length]
            mean = 0.0
            variance = 0.0
            if dense:
                for k in range(length):
                    inverse[k] = 1.0 / d[k]
                    mean += phi[k] * inverse[k] * eta[k]
                    variance += phi[k] * phi[k] * inverse[k]
            else:
                for k in range(length):
                    i = active[k]
                    inverse[k] = 1.0 / d[i]
                    mean += phi[k] * inverse[k] * eta[i]
                    variance += phi[k] * phi[k] * inverse[k]
            a, e = expectations(kinds[agent], parameters[agent], targets[row], mean, variance, likelihood_weight)
            a *= likelihood_weight
            e *= likelihood_weight
            # paper: mu' = mu + e phi / d'.  projected: mu' = mu + e (phi / d) / (1 + a s).
            step = e / (1.0 + a * variance) if projected else e
            pull = a * step if projected else 0.0
            if dense:
                for k in range(length):
                    gained = a * phi[k] * phi[k]
                    eta[k] += (
                        step * phi[k] + gained * inverse[k] * eta[k] + pull * phi[k] * phi[k] * phi[k] * inverse[k]
                    )
                    d[k] += gained
            else:
                for k in range(length):
                    i = active[k]
                    gained = a * phi[k] * phi[k]
                    eta[i] += (
                        step * phi[k] + gained * inverse[k] * eta[i] + pull * phi[k] * phi[k] * phi[k] * inverse[k]
                    )
                    d[i] += gained


@njit(
    void(_floats, int64, _floats, float64, _out2, _out, _out, _out),
    **_OPTIONS,
)
def condition_projections(targets, kind, parameters, likelihood_weight, covariance, means, curvatures, shifts):
    """Apply observations one after the other to their own projections Phi^T theta ~ N(means, covariance) (Lemma 5).

    Each is a rank-one (Woodbury) correction of the covariance of those that come after it; of `covariance` the upper
    triangle is read and used up. Gives w a and w (a m + e) of each: what it adds to information and shift.
    """
    count = targets.size
    for row in range(count):
        mean = means[row]
        variance = max(covariance[row, row], 0.0)
        a, e = expectations(kind, parameters, targets[row], mean, variance, likelihood_weight)
        curvatures[row] = likelihood_weight * a
        shifts[row] = likelihood_weight * (a * mean + e)
        scale = 1.0 / (1.0 + likelihood_weight * a * variance)
        for i in range(row + 1, count):
            shared = covariance[row, i]
            means[i] += likelihood_weight * e * scale * shared
            lost = likelihood_weight * a * scale * shared
            for j in range(i, count):
                covariance[i, j] -= lost * covariance[row, j]


@njit(
    void(_floats, _floats, _floats2, _floats, float64, float64, _floats, _floats, _out2, _out2),
    **_OPTIONS,
)
def splat(x_axis, y_axis, centers, gamma2, gamma1, threshold, means, variances, mean, variance):
    """Add each centre's share of mean and variance to the pixels that it reaches (gamma2 |x - c|^2 <= threshold)."""
    squares = np.empty(x_axis.size)
    factors = np.empty(x_axis.size)
    left = right = 0
    for s in range(centers.shape[0]):
        reach = math.sqrt(threshold / gamma2[s])
        if s == 0 or centers[s, 0] != centers[s - 1, 0] or gamma2[s] != gamma2[s - 1]:
            # Behind one another on a lattice, centres share their columns.
            left = np.searchsorted(x_axis, centers[s, 0] - reach * 1.0001)
            right = np.searchsorted(x_axis, centers[s, 0] + reach * 1.0001)
            for column in range(left, right):
                difference = x_axis[column] - centers[s, 0]
                squares[column] = difference * difference
                factors[column] = exp_negative(max(-gamma2[s] * squares[column], _LOWEST_EXPONENT))
        bottom = np.searchsorted(y_axis, centers[s, 1] - reach * 1.0001)
        top = np.searchsorted(y_axis, centers[s, 1] + reach * 1.0001)
        for row in range(bottom, top):
            difference = y_axis[row] - centers[s, 1]
            square = difference * difference
            factor = gamma1 * exp_negative(max(-gamma2[s] * square, _LOWEST_EXPONENT))
            # The columns that are reached lie together; a loop without a question is one that the compiler vectorises.
            begin = left
            end = right
            while begin < end and gamma2[s] * (squares[begin] + square) > threshold:
                begin += 1
            while end > begin and gamma2[s] * (squares[end - 1] + square) > threshold:
                end -= 1
            mean_part = means[s] * factor
            variance_part = variances[s] * factor * factor
            for column in range(begin, end):
                value = factors[column]
                mean[row, column] += mean_part * value
                variance[row, column] += variance_part * value * value


@njit(
    void(_floats, float64, float64, int64, float64, float64, _out_starts2, _out2, _out2),
    **_OPTIONS,
)
def reach_of_axis(axis, lower, spacing, count, gamma2, threshold, ranges, squares, factors):
    """For each position of a lattice along one axis: the pixels that it reaches, squared distances, kernel factors."""
    reach = math.sqrt(threshold / gamma2)
    for k in range(count):
        center = lower + k * spacing
        ranges[k, 0] = np.searchsorted(axis, center - reach * 1.0001)
        ranges[k, 1] = np.searchsorted(axis, center + reach * 1.0001)
        for pixel in range(ranges[k, 0], ranges[k, 1]):
            difference = axis[pixel] - center
            squares[k, pixel] = difference * difference
            factors[k, pixel] = exp_negative(max(-gamma2 * squares[k, pixel], _LOWEST_EXPONENT))


@njit(
    void(*_table, *_table, float64, float64, float64, _floats, _floats, _out2, _out2),
    **_OPTIONS,
)
def splat_lattice(
    x_ranges,
    x_squares,
    x_factors,
    y_ranges,
    y_squares,
    y_factors,
    gamma2,
    gamma1,
    threshold,
    means,
    variances,
    mean,
    variance,
):
    """`splat` for a lattice, whose centres share what `reach_of_axis` knows of their columns and rows."""
    across = x_ranges.shape[0]
    down = y_ranges.shape[0]
    for i in range(across):
        for j in range(down):
            s = i * down + j
            for row in range(y_ranges[j, 0], y_ranges[j, 1]):
                square = y_squares[j, row]
                begin = x_ranges[i, 0]
                end = x_ranges[i, 1]
                while begin < end and gamma2 * (x_squares[i, begin] + square) > threshold:
                    begin += 1
                while end > begin and gamma2 * (x_squares[i, end - 1] + square) > threshold:
                    end -= 1
                factor = gamma1 * y_factors[j, row]
                mean_part = means[s] * factor
                variance_part = variances[s] * factor * factor
                for column in range(begin, end):
                    value = x_factors[i, column]
                    mean[row, column] += mean_part * value
                    variance[row, column] += variance_part * value * value


@njit(void(_floats2, _out), **_OPTIONS)
def pack_triangle(matrix, packed):
    """The lower triangle of a symmetric matrix, row by row: entry (i, j) at i (i + 1) / 2 + j."""
    place = 0
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            packed[place] = matrix[i, j]
            place += 1


@njit(void(_floats, _out2), **_OPTIONS)
def unpack_triangle(packed, matrix):
    """The symmetric matrix of a packed lower triangle."""
    place = 0
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            matrix[i, j] = packed[place]
            matrix[j, i] = packed[place]
            place += 1


@njit(types.boolean(_floats, _floats, _floats), **{**_OPTIONS, "nogil": False})  # so short that handing over costs more
def is_diagonal_belief(prior, information, shift):
    """Whether prior + information is positive and finite everywhere, and shift finite: one pass over a message."""
    for k in range(information.size):
        total = prior[k] + information[k]
        if not (total > 0.0 and total < math.inf and abs(shift[k]) < math.inf):
            return False
    return True
