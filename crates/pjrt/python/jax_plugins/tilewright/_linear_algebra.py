"""Factorisations that JAX leaves to libraries of its platforms, as JAX programs.

Sources: the routines `geqrf`, `larfg` and `orgqr` of LAPACK for what is computed of QR, and how it
is laid out: reflections H = 1 - tau v v^H, each v below the diagonal of what is left of its column.
Eigenvalues of Hermitian matrices and singular values are found by rotations of Jacobi's, of all
disjoint pairs of columns at once (R. P. Brent, F. T. Luk, 1985; M. R. Hestenes, 1958).
"""

import functools
import operator

import jax
import jax.numpy as jnp
from jax import lax


def _each(function):
    """A function of a matrix and other arguments, on all of a batch."""

    @functools.wraps(function)
    def on_batch(matrix, *others):
        batch = matrix.shape[:-2]
        count = functools.reduce(operator.mul, batch, 1)
        given = [it.reshape((count,) + it.shape[len(batch):]) for it in (matrix, *others)]
        results = jax.vmap(function)(*given)
        return jax.tree.map(lambda it: it.reshape(batch + it.shape[1:]), results)

    return on_batch


@_each
def geqrf(matrix):
    """The factor R above and on the diagonal, the reflections below it, and their taus."""
    rows, columns = matrix.shape
    row, column = jnp.arange(rows), jnp.arange(columns)

    def reflect(place, state):
        matrix, taus = state
        values = matrix[:, place]
        head, below = values[place], jnp.where(row > place, values, 0)
        rest = jnp.sum(jnp.square(jnp.abs(below)))
        norm = jnp.sqrt(jnp.square(jnp.abs(head)) + rest)
        is_done = (rest == 0) & (jnp.imag(head) == 0)
        beta = jnp.where(jnp.real(head) < 0, norm, -norm).astype(matrix.dtype)
        beta = jnp.where(is_done, head, beta)
        safe = jnp.where(is_done, 1, beta)
        tau = jnp.where(is_done, 0, (safe - head) / safe)
        below = below / jnp.where(is_done, 1, head - safe)
        vector = jnp.where(row == place, 1, below)
        change = jnp.conj(tau) * jnp.outer(vector, jnp.conj(vector) @ matrix)
        matrix = jnp.where(column > place, matrix - change, matrix)
        own = jnp.where(row < place, values, jnp.where(row == place, beta, below))
        return matrix.at[:, place].set(own), taus.at[place].set(tau)

    count = min(rows, columns)
    taus = jnp.zeros(count, matrix.dtype)
    return lax.fori_loop(0, count, reflect, (matrix, taus))


@_each
def householder_product(matrix, taus):
    """The first columns of the product of reflections."""
    rows, columns = matrix.shape
    row, count = jnp.arange(rows), taus.shape[0]

    def reflect(turn, product):
        place = count - 1 - turn
        vector = jnp.where(row > place, matrix[:, place], 0)
        vector = jnp.where(row == place, 1, vector)
        return product - taus[place] * jnp.outer(vector, jnp.conj(vector) @ product)

    return lax.fori_loop(0, count, reflect, jnp.eye(rows, columns, dtype=matrix.dtype))


# Sweeps over all pairs of columns; fewer than ten are the rule.
MOST_SWEEPS = 40


def _rotations(first, across, second):
    """Of Hermitian matrices of two rows the rotations that make them diagonal: cosines, sines, and
    the phase of the element off the diagonal."""
    size = jnp.abs(across)
    is_done = size == 0
    safe = jnp.where(is_done, 1, size)
    phase = jnp.where(is_done, 1, across / safe)
    tau = (second - first) / (2 * safe)
    tangent = jnp.where(tau < 0, -1, 1) / (jnp.abs(tau) + jnp.sqrt(1 + tau * tau))
    tangent = jnp.where(is_done, 0, tangent).astype(size.dtype)
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    return cosine, tangent * cosine, phase


def _turned(columns, cosine, sine, phase):
    """Columns, each of the first half rotated with one of the other half."""
    first, second = jnp.split(columns, 2, axis=1)
    second = second * jnp.conj(phase)
    # What changes is added, so that small rotations round little (H. Rutishauser, 1966).
    ratio = sine / (1 + cosine)
    turned = [first - sine * (second + ratio * first), second + sine * (first - ratio * second)]
    return jnp.concatenate(turned, axis=1)


def _next_pairs(pairs):
    """Where columns come from that meet others in the next round; after `2 * pairs - 1` rounds each
    has met all others and is where it was."""
    if pairs == 1:
        return jnp.arange(2)
    upper = [0, pairs, *range(1, pairs - 1)]
    return jnp.array(upper + [*range(pairs + 1, 2 * pairs), pairs - 1])


def _sweeps(turn, state, pairs, least):
    """Rounds of rotations until none of a sweep is about more than `least`, which `turn` tells."""
    order = _next_pairs(pairs)

    def sweep(carried):
        count, state, _ = carried

        def round_of(_, carried):
            state, most = carried
            state, found = turn(state, order)
            return state, jnp.maximum(most, found)

        state, most = lax.fori_loop(0, 2 * pairs - 1, round_of, (state, jnp.zeros_like(least)))
        return count + 1, state, most

    goes_on = lambda carried: (carried[0] < MOST_SWEEPS) & (carried[2] > least)
    return lax.while_loop(goes_on, sweep, (jnp.int32(0), state, jnp.full_like(least, jnp.inf)))[1]


@_each
def _hermitian(matrix):
    """Eigenvectors and eigenvalues, the least first, of a matrix whose lower half is given."""
    size, real = matrix.shape[0], jnp.finfo(matrix.dtype)
    lower = jnp.tril(matrix, -1)
    diagonal = jnp.real(jnp.diagonal(matrix)).astype(matrix.dtype)
    whole = lower + jnp.conj(lower.T) + jnp.diag(diagonal)
    pairs = (size + 1) // 2
    whole = jnp.pad(whole, (0, 2 * pairs - size))
    # The greatest element is 1: what is nothing beside it is nothing.
    greatest = jnp.max(jnp.abs(whole), initial=0)
    scale = jnp.where(greatest == 0, 1, greatest)
    whole = whole / scale
    least = jnp.full((), real.eps, real.dtype)

    def turn(state, order):
        whole, vectors = state
        first, second = jnp.split(jnp.real(jnp.diagonal(whole)), 2)
        across = jnp.diagonal(whole[:pairs, pairs:])
        rotation = _rotations(first, across, second)
        whole = _turned(whole, *rotation)
        whole = jnp.conj(_turned(jnp.conj(whole.T), *rotation).T)
        state = (whole[order][:, order], _turned(vectors, *rotation)[:, order])
        return state, jnp.max(jnp.abs(across))

    start = (whole, jnp.eye(2 * pairs, dtype=matrix.dtype))
    whole, vectors = _sweeps(turn, start, pairs, least)
    values = jnp.real(jnp.diagonal(whole))[:size] * scale
    order = jnp.argsort(values)
    return vectors[:size, order], values[order]


def eigh(matrix, *, lower, subset_by_index=None, **_):
    """Eigenvectors and eigenvalues of Hermitian matrices."""
    if matrix.shape[-1] == 0:
        return matrix, jnp.zeros(matrix.shape[:-1], jnp.finfo(matrix.dtype).dtype)
    if not lower:
        matrix = jnp.conj(jnp.swapaxes(matrix, -1, -2))
    vectors, values = _hermitian(matrix)
    first, end = subset_by_index or (0, matrix.shape[-1])
    return vectors[..., first:end], values[..., first:end]


@_each
def _tall(matrix):
    """The singular values of a matrix of no fewer rows than columns, the greatest first, and the
    factors on both sides, of which the left is whole."""
    rows, columns = matrix.shape
    whole, triangle = jnp.linalg.qr(matrix, mode="complete")
    triangle = triangle[:columns]
    pairs = (columns + 1) // 2
    more = 2 * pairs - columns
    greatest = jnp.max(jnp.abs(triangle), initial=0)
    scale = jnp.where(greatest == 0, 1, greatest)
    start = jnp.pad(triangle / scale, ((0, 0), (0, more)))
    real = jnp.finfo(matrix.dtype)
    norms = lambda values: jnp.sum(jnp.square(jnp.abs(values)), axis=0)

    def turn(state, order):
        products, vectors = state
        first, second = jnp.split(products, 2, axis=1)
        across = jnp.sum(jnp.conj(first) * second, axis=0)
        own, other = norms(first), norms(second)
        size = jnp.sqrt(own * other)
        # A column that is nothing beside the greatest element is in no direction.
        angle = jnp.where(size > real.eps**2, jnp.abs(across) / jnp.where(size > 0, size, 1), 0)
        rotation = _rotations(own, jnp.where(angle > real.eps, across, 0), other)
        state = tuple(_turned(value, *rotation)[:, order] for value in (products, vectors))
        return state, jnp.max(angle)

    start = (start, jnp.eye(2 * pairs, dtype=matrix.dtype))
    least = jnp.full((), 8 * real.eps, real.dtype)
    products, vectors = _sweeps(turn, start, pairs, least)
    products, vectors = products[:, :columns], vectors[:columns, :columns]
    values = jnp.sqrt(norms(products))
    order = jnp.argsort(-values)
    products, vectors = products[:, order], vectors[:, order]
    # The columns are orthogonal: their own factors are their directions, also where one is zero.
    left, diagonal = jnp.linalg.qr(products)
    diagonal = jnp.diagonal(diagonal)
    size = jnp.abs(diagonal)
    phase = jnp.where(size == 0, 1, diagonal / jnp.where(size == 0, 1, size))
    left = left * phase.astype(matrix.dtype)
    whole = jnp.concatenate([whole[:, :columns] @ left, whole[:, columns:]], axis=1)
    return values[order] * scale, whole, jnp.conj(vectors.T)


def svd(matrix, *, full_matrices, compute_uv, subset_by_index=None, **_):
    """The singular values of matrices, the greatest first, and the factors on both sides."""
    rows, columns = matrix.shape[-2:]
    rank = min(rows, columns)
    is_tall = rows >= columns
    transposed = lambda value: jnp.conj(jnp.swapaxes(value, -1, -2))
    if rank == 0:
        batch = matrix.shape[:-2]
        eye = lambda size: jnp.eye(size, dtype=matrix.dtype)
        unit = lambda size: jnp.broadcast_to(eye(size), (*batch, size, size))
        values = jnp.zeros((*batch, 0), jnp.finfo(matrix.dtype).dtype)
        left, right = unit(rows), unit(columns)
    else:
        values, left, right = _tall(matrix if is_tall else transposed(matrix))
        if not is_tall:
            left, right = transposed(right), transposed(left)
    first, end = subset_by_index or (0, rank)
    values = values[..., first:end]
    if not compute_uv:
        return (values,)
    if full_matrices:
        return values, left, right
    return values, left[..., first:end], right[..., first:end, :]


def register(platform: str) -> None:
    """Has JAX lower these primitives so on a platform."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    lower = functools.partial(mlir.register_lowering, platform=platform)
    lower(linalg.geqrf_p, mlir.lower_fun(geqrf, multiple_results=True))
    lower(
        linalg.householder_product_p, mlir.lower_fun(householder_product, multiple_results=False)
    )
    lower(linalg.eigh_p, mlir.lower_fun(eigh, multiple_results=True))
    lower(linalg.svd_p, mlir.lower_fun(svd, multiple_results=True))
