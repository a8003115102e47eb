"""Functions of JAX that `bench/stablehlo.py --compare` runs besides its programs: NumPy's functions, `vmap`,
`grad`, loops and conditions, each with the shapes of its arguments."""

import jax
import jax.numpy as jnp
import numpy
from jax import lax

FUNCTIONS = {}


def function(*shapes):
    def add(made):
        FUNCTIONS[made.__name__] = (made, shapes)
        return made

    return add


def integers(low, high, shape, dtype=numpy.int32):
    return lambda generator: generator.integers(low, high, shape).astype(dtype)


def positive(*shape):
    def make(generator):
        a = generator.standard_normal(shape).astype(numpy.float32)
        return a @ a.swapaxes(-1, -2) + 3 * numpy.eye(shape[-1], dtype=numpy.float32)

    return make


@function((5, 7))
def statistics(x):
    return x.mean(0), x.var(1), jnp.std(x), jnp.median(x, axis=1), jnp.quantile(x, 0.3, axis=0), jnp.ptp(x, axis=1)


@function((4, 9))
def orders(x):
    return jnp.sort(x, axis=1), jnp.argsort(x, axis=0), jnp.partition(x, 3, axis=1), lax.top_k(x, 4)


@function((6, 5))
def running_sums(x):
    return jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x, axis=1), lax.cumlogsumexp(x, axis=0), jnp.diff(x, axis=1)


@function((3, 4, 5))
def rearranged(x):
    return jnp.roll(x, 2, 1), jnp.flip(x, (0, 2)), jnp.rot90(x), jnp.moveaxis(x, 0, 2), jnp.tile(x, (1, 2, 1)), jnp.repeat(x, 3, 1)


@function((4, 6), integers(-4, 4, (5,)))
def taken(x, i):
    return x[i], jnp.take(x, i, axis=1, mode="clip"), x.at[i].add(2.0), x.at[:, 1].set(0.0), x[::-1, 1:5:2]


@function((5, 5), (5,))
def solved(a, b):
    a = a @ a.T + 5 * jnp.eye(5)
    factor = jax.scipy.linalg.cho_factor(a)
    return jax.scipy.linalg.cho_solve(factor, b), jax.scipy.linalg.solve_triangular(a, b, lower=True)


@function((4, 4), (4, 3))
def traces(a, b):
    return jnp.trace(a), jnp.triu(a), jnp.tril(a, -1), jnp.diag(a), jnp.outer(a[0], b[:, 0]), jnp.kron(a[:2, :2], b[:2]), jnp.cross(a[:, :3], b)


@function((2, 3, 4), (2, 4, 5), (5, 3))
def sums_of_products(a, b, c):
    return jnp.einsum("bij,bjk,ki->b", a, b, c), jnp.tensordot(a, c, axes=([1], [1])), a @ b


@function((20,), (5,))
def convolved(x, k):
    return jnp.convolve(x, k), jnp.convolve(x, k, mode="same"), jnp.correlate(x, k, mode="valid")


@function((3, 4), (3, 4))
def comparisons(a, b):
    return jnp.where(a > b, a, b), jnp.maximum(a, 0), jnp.sign(a), (a < b) | (a > 0), jnp.isclose(a, b), jnp.clip(a, -0.5, 0.5), jnp.heaviside(a, b)


@function((4, 5))
def roundings(x):
    return jnp.floor(x), jnp.ceil(3 * x), jnp.round(4 * x), jnp.trunc(x), jnp.fmod(x, 0.3), jnp.remainder(x, 0.3), jnp.modf(x), jnp.frexp(x)


@function((4, 5))
def elementary(x):
    y = jnp.abs(x) + 0.1
    return jnp.exp2(x), jnp.log1p(y), jnp.sqrt(y), jnp.cbrt(x), jnp.arctan2(x, y), jnp.hypot(x, y), jnp.sinc(x), jnp.logaddexp(x, y), jnp.i0(x), jnp.arcsinh(x)


@function((3, 6))
def activations(x):
    n = jax.nn
    return n.relu(x), n.silu(x), n.gelu(x, approximate=False), n.softplus(x), n.elu(x), n.selu(x), n.log_sigmoid(x), n.hard_swish(x), n.glu(x), n.standardize(x)


@function(integers(0, 1 << 20, (4, 5)), integers(1, 30, (4, 5)))
def bits(a, b):
    return a & b, a | b, a ^ b, a << (b & 7), a >> (b & 7), ~a, lax.population_count(a), lax.clz(a), a // b, a % b, jnp.gcd(a, b), jnp.lcm(a & 63, b)


@function(integers(0, 6, (30,)))
def counted(x):
    return jnp.bincount(x, length=6), jax.ops.segment_sum(x.astype(jnp.float32), x, 6), jax.nn.one_hot(x, 6), jnp.searchsorted(jnp.arange(6), x)


@function((3, 5), (4, 5))
def distances(a, b):
    return jax.vmap(lambda x: jax.vmap(lambda y: jnp.sqrt(jnp.sum((x - y) ** 2)))(b))(a)


@function((6, 3), (6,), (3,))
def regression_gradient(x, y, w):
    loss = lambda w: jnp.mean(jnp.log1p(jnp.exp(-y * (x @ w))))
    return jax.value_and_grad(loss)(w), jax.hessian(loss)(w)


@function((3, 4))
def jacobians(x):
    f = lambda x: jnp.tanh(x).sum(0) * jnp.sin(x[0])
    return jax.jacfwd(f)(x), jax.jacrev(f)(x), jax.jvp(f, (x,), (x,))[1]


@function((7, 3), (3, 3))
def recurrence(xs, w):
    return lax.scan(lambda h, x: (jnp.tanh(x + h @ w), h.sum()), jnp.zeros(3), xs)


@function((7, 3), (3, 3))
def recurrence_gradient(xs, w):
    def loss(w):
        return lax.scan(lambda h, x: (jnp.tanh(x + h @ w), h.sum()), jnp.zeros(3), xs)[1].sum()

    return jax.grad(loss)(w)


@function(integers(1, 40, ()))
def collatz(n):
    return lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))


@function((8,))
def newton(x):
    target = jnp.abs(x) + 1
    return lax.fori_loop(0, 12, lambda _, y: 0.5 * (y + target / y), target)


@function(integers(-1, 5, ()), (4,))
def switched(i, x):
    return lax.switch(i, [lambda x: x + 1, lambda x: x * x, lambda x: -x, jnp.cumsum], x)


@function((5, 3))
def mapped_conditions(x):
    return jax.vmap(lambda row: lax.cond(row.sum() > 0, jnp.cumsum, lambda r: r * 2, row))(x)


@function((2, 8, 8, 3), (3, 3, 3, 4))
def convolution(x, k):
    y = lax.conv_general_dilated(x, k, (2, 1), "SAME", rhs_dilation=(1, 2), dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y, lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@function((2, 6, 6, 4), (3, 3, 1, 8))
def depthwise_gradient(x, k):
    def loss(k):
        return (lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4) ** 2).sum()

    return jax.grad(loss)(k)


@function((2, 7, 7, 3))
def pooling_gradient(x):
    pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").sum()
    mean = lambda x: (lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()
    return jax.grad(pool)(x), jax.grad(mean)(x)


@function((16,), (4, 8))
def spectra(x, y):
    return jnp.abs(jnp.fft.fft(x)), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.fft2(y).real, jnp.fft.fftshift(y)


@function((6,), (6,))
def complex_numbers(a, b):
    z = a + 1j * b
    return (z * z.conj()).real, jnp.abs(z), jnp.angle(z), jnp.exp(z), jnp.sqrt(z), z / (z + 1), jnp.sin(z).imag


@function(integers(0, 1 << 30, ()))
def random_numbers(seed):
    key = jax.random.key(seed)
    first, second, third = jax.random.split(key, 3)
    return jax.random.uniform(first, (5,)), jax.random.normal(second, (4,)), jax.random.randint(third, (6,), 0, 100), jax.random.permutation(first, 8), jax.random.bernoulli(second, 0.4, (7,))


@function(integers(0, 1 << 30, ()))
def random_draws(seed):
    key = jax.random.key(seed)
    return jax.random.categorical(key, jnp.log(jnp.array([0.2, 0.5, 0.3])), shape=(9,)), jax.random.exponential(key, (4,)), jax.random.gumbel(key, (3,)), jax.random.truncated_normal(key, -1, 1, (4,)), jax.random.choice(key, 10, (4,), replace=False)


@function(integers(0, 1 << 30, ()))
def random_bits_of_philox(seed):
    key = jax.random.key(seed, impl="rbg")
    return jax.random.bits(key, (7,)), jax.random.uniform(key, (3, 3)), jax.random.normal(key, (5,))


@function((3, 5), (4, 5))
def special_functions(x, y):
    s, p = jax.scipy.special, jnp.abs(x) + 0.5
    return s.gammaln(p), s.digamma(p), s.erf(x), s.erfinv(jnp.tanh(x)), s.logsumexp(x, axis=1), s.expit(x), s.xlogy(p, p), s.ndtr(x), s.i1e(x), s.entr(p), s.betaln(p, p + 1)


@function((12,), (12,))
def interpolated(x, y):
    at = jnp.linspace(-2, 2, 12)
    return jnp.interp(x, at, y), jnp.polyval(y[:4], x), jnp.trapezoid(y, at), jnp.histogram(x, bins=5, range=(-2, 2))[0], jnp.digitize(x, at)


@function((10, 4))
def associative(x):
    return lax.associative_scan(jnp.maximum, x), lax.associative_scan(lambda a, b: a * b + b, x, reverse=True)


@function((4, 8), (8, 8), (8, 8))
def attention_gradient(x, q, k):
    def loss(q):
        scores = jax.nn.softmax((x @ q) @ (x @ k).T / 8**0.5 + jnp.where(jnp.tri(4) > 0, 0.0, -1e9))
        return (scores @ x).sum()

    return jax.grad(loss)(q)


@function((6, 6), (6,))
def conjugate_gradient(a, b):
    return jax.scipy.sparse.linalg.cg(a @ a.T + 6 * jnp.eye(6), b)[0]


@function((5,), (5,))
def checkpointed(x, w):
    layer = jax.checkpoint(lambda x, w: jnp.sin(x * w) + x)
    return jax.grad(lambda w: layer(layer(x, w), w).sum())(w)


@function((4, 3))
def custom_rule(x):
    @jax.custom_jvp
    def f(x):
        return jnp.where(x > 0, x * x, 0.0)

    f.defjvp(lambda p, t: (f(*p), 2 * jnp.maximum(p[0], 0) * t[0]))
    return jax.grad(lambda x: f(x).sum())(x)


@function((3, 3), (3, 2), integers(0, 3, (2, 3)))
def slices(x, y, i):
    return lax.dynamic_slice(x, (i[0, 0], 1), (2, 2)), lax.dynamic_update_slice(x, y, (i[1, 0], i[1, 1])), jnp.take_along_axis(x, i, 0), jnp.stack([x, x.T]), jnp.pad(y, ((1, 2), (0, 1)), mode="reflect"), jnp.pad(y, 2, mode="edge")


@function((64,), integers(0, 255, (16,), numpy.uint8))
def packed(x, b):
    return jnp.packbits(x > 0), jnp.unpackbits(b), lax.bitcast_convert_type(x, jnp.int32), x.astype(jnp.float16), x.astype(jnp.bfloat16).astype(jnp.float32), (x * 50).astype(jnp.int8), lax.reduce_precision(x, 5, 4)


@function((4, 4), (4,), integers(2, 6, ()))
def power_iteration(a, v, n):
    step = lambda _, v: (a @ v) / jnp.linalg.norm(a @ v)
    return lax.fori_loop(0, n, step, v), jnp.linalg.matrix_power(a, 5), jnp.linalg.norm(a, ord=1)


@function((8, 4), integers(0, 8, (5,)), (5, 4))
def embedding_gradient(table, i, y):
    return jax.grad(lambda t: ((t[i] - y) ** 2).sum())(table), table.at[i].max(y), table.at[i[0]].mul(2), table.at[i, 1].min(0.0)


@function(positive(4, 4), (4, 2))
def gaussian_likelihood(a, b):
    logdet = lambda a: 2 * jnp.log(jnp.diag(jnp.linalg.cholesky(a))).sum()
    return logdet(a), jax.grad(logdet)(a), jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b)
