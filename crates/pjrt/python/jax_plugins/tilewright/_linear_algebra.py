"""Factorisations that JAX leaves to libraries of its platforms, as JAX programs.

Source: the routines `geqrf`, `larfg` and `orgqr` of LAPACK for what is computed, and how it is laid
out: reflections H = 1 - tau v v^H, each v below the diagonal of what is left of its column.
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


def register(platform: str) -> None:
    """Has JAX lower these primitives so on a platform."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    lower = functools.partial(mlir.register_lowering, platform=platform)
    lower(linalg.geqrf_p, mlir.lower_fun(geqrf, multiple_results=True))
    lower(
        linalg.householder_product_p, mlir.lower_fun(householder_product, multiple_results=False)
    )
