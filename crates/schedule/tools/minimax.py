"""Computes the polynomial coefficients of `crates/schedule/src/expand`.

Remez exchange in 60-digit arithmetic. Coefficients are rounded to f32 or f64 one after the other,
lowest power first, and the rest fitted again, so that rounding costs almost nothing.
Needs mpmath. Run: python3 minimax.py
"""
import struct

from mpmath import mp, mpf

mp.dps = 60


def to_f32(value):
    return mpf(struct.unpack("f", struct.pack("f", float(value)))[0])


def to_f64(value):
    return mpf(float(value))


def remez(function, weight, low, high, basis):
    """The c that minimise the largest |weight(x) * (sum c_i * x**basis_i - function(x))|."""
    count = len(basis)
    middle, half = (mpf(high) + low) / 2, (mpf(high) - low) / 2
    points = [middle - half * mp.cos(mp.pi * i / count) for i in range(count + 1)]
    grid = [middle - half * mp.cos(mp.pi * i / 500) for i in range(501)]
    values = [(x, function(x), weight(x)) for x in grid]
    for _ in range(30):
        rows = [[weight(x) * x**p for p in basis] + [(-1) ** i] for i, x in enumerate(points)]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([weight(x) * function(x) for x in points]))
        coefficients, level = list(solution[:count]), abs(solution[count])
        error = [w * (sum(c * x**p for c, p in zip(coefficients, basis)) - f)
                 for x, f, w in values]
        peaks = []
        for i, e in enumerate(error):
            if peaks and (error[peaks[-1]] > 0) == (e > 0):
                if abs(e) > abs(error[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > count + 1:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        worst = max(abs(e) for e in error)
        if len(peaks) < count + 1 or worst <= level * mpf("1.001"):
            break
        points = [grid[i] for i in peaks]
    return coefficients, worst


def fit(name, function, weight, low, high, basis, round_to):
    """Prints the rounded coefficients, lowest power first."""
    fixed, rest, coefficients = [], list(basis), []
    while rest:
        def remainder(x):
            return function(x) - sum(c * x**p for c, p in fixed)
        try:
            coefficients, worst = remez(remainder, weight, low, high, rest)
        except ZeroDivisionError:  # an odd power alone on a symmetric interval: keep the last fit
            coefficients = coefficients[1:]
        fixed.append((round_to(coefficients[0]), rest.pop(0)))
    digits = 9 if round_to is to_f32 else 17
    print(f"{name}: largest weighted error {mp.nstr(worst, 4)} = 2^{mp.nstr(mp.log(worst, 2), 4)}")
    for c, p in fixed:
        print(f"    x^{p}: {float(c):.{digits}g}")


def around_zero(function, series):
    """`function`, but `series` (its Taylor expansion) where cancellation would ruin it."""
    return lambda x: series(x) if abs(x) < mpf(10) ** -9 else function(x)


ONE = lambda x: mpf(1)
LN2 = mp.log(2)


def exp_rows(round_to, degree):
    # exp(r) = 1 + r + r^2 q(r), |r| <= ln2/2, relative error.
    q = around_zero(lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: mpf(1) / 2 + r / 6)
    fit("exp q", q, lambda r: r**2 / mp.exp(r), -LN2 / 2 * 1.001, LN2 / 2 * 1.001, range(degree + 1), round_to)


def expm1_rows(round_to, degree):
    # expm1(r) = r + r^2 q(r), relative error.
    q = around_zero(lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: mpf(1) / 2 + r / 6)
    fit("expm1 q", q, lambda r: abs(r), -LN2 / 2 * 1.001, LN2 / 2 * 1.001, range(degree + 1), round_to)


def log_rows(round_to, degree):
    # log(1+f) = f - f^2/2 + f^3 p(f), sqrt(1/2) <= 1+f <= sqrt(2), relative error.
    p = around_zero(lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3, lambda f: mpf(1) / 3 - f / 4)
    fit("log p", p, lambda f: f**2, mp.sqrt(2) / 2 - 1, mp.sqrt(2) - 1, range(degree + 1), round_to)


def sin_cos_rows(round_to, sin_degree, cos_degree):
    # sin(r) = r + r^3 s(r^2), cos(r) = 1 - r^2/2 + r^4 c(r^2), |r| <= pi/4.
    top = (mp.pi / 4 * mpf("1.001")) ** 2
    s = around_zero(lambda z: (mp.sin(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, lambda z: -mpf(1) / 6 + z / 120)
    c = around_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: mpf(1) / 24 - z / 720)
    fit("sin s", s, lambda z: z, 0, top, range(sin_degree + 1), round_to)
    fit("cos c", c, lambda z: z**2, 0, top, range(cos_degree + 1), round_to)


if __name__ == "__main__":
    exp_rows(to_f32, 4)
    expm1_rows(to_f32, 4)
    expm1_rows(to_f32, 5)
    log_rows(to_f32, 6)
    log_rows(to_f32, 7)
    sin_cos_rows(to_f32, 2, 1)
    sin_cos_rows(to_f32, 3, 2)
