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


LN2 = mp.log(2)


def expm1(round_to, degree):
    # exp(r) = 1 + r + r^2 q(r), |r| <= ln2/2, relative error of exp(r) - 1.
    q = around_zero(lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: mpf(1) / 2 + r / 6)
    top = LN2 / 2 * mpf("1.001")
    fit("expm1 q", q, abs, -top, top, range(degree + 1), round_to)


def log(round_to, degree):
    # log(m) = 2 s + s^3 p(s^2), s = (m - 1) / (m + 1), m <= sqrt(2).
    top = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mpf("1.001")

    def exact(z):
        return (2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z)) / mp.sqrt(z) ** 3

    p = around_zero(exact, lambda z: mpf(2) / 3 + z * 2 / 5)
    fit("log p", p, lambda z: z / 2, 0, top, range(degree + 1), round_to)


def sin_cos(round_to, sin_degree, cos_degree):
    # sin(r) = r + r^3 s(r^2), cos(r) = 1 - r^2/2 + r^4 c(r^2), |r| <= pi/4.
    top = (mp.pi / 4 * mpf("1.001")) ** 2

    def exact_sin(z):
        return (mp.sin(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3

    s = around_zero(exact_sin, lambda z: -mpf(1) / 6 + z / 120)
    c = around_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
                    lambda z: mpf(1) / 24 - z / 720)
    fit("sin s", s, lambda z: z, 0, top, range(sin_degree + 1), round_to)
    fit("cos c", c, lambda z: z**2, 0, top, range(cos_degree + 1), round_to)


def erf(round_to, near_degree, far_degree, middle, last):
    # erf(x) = x + x p(x^2) up to the middle, 1 - exp(-g(x)) from there to the last point.
    p = around_zero(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
                    lambda z: 2 / mp.sqrt(mp.pi) * (1 - z / 3) - 1)
    fit("erf p", p, lambda z: 1 / (p(z) + 1), 0, middle**2, range(near_degree + 1), round_to)
    fit("erf g", lambda x: -mp.log(mp.erfc(x)), mp.erfc, mpf("0.9"), last,
        range(far_degree + 1), round_to)


def erfc(round_to, degree, last):
    # erfc(x) = exp(x h(x)) up to the last point, behind which it no longer counts beside 1. Far out
    # little is asked of h, but that it stays near: Lawson's weights, and all rounded in the end.
    basis, points = range(degree + 1), [mpf(last) * (i + 1) ** 2 / 400**2 for i in range(400)]
    values = [(x, mp.log(mp.erfc(x)) / x, x * max(mp.erfc(x), mpf("2e-9"))) for x in points]
    shares = [mpf(1)] * len(values)
    for _ in range(100):
        normal, right = mp.matrix(degree + 1), mp.matrix(degree + 1, 1)
        for (x, h, weight), share in zip(values, shares):
            powers = [x**p for p in basis]
            for i in basis:
                right[i] += share * weight**2 * powers[i] * h
                for j in basis:
                    normal[i, j] += share * weight**2 * powers[i] * powers[j]
        fitted = mp.lu_solve(normal, right)
        errors = [abs(w * (sum(c * x**p for c, p in zip(fitted, basis)) - h))
                  for x, h, w in values]
        shares = [share * (error + max(errors) / 10) for share, error in zip(shares, errors)]
        shares = [share / max(shares) for share in shares]
    print(f"erfc h: largest weighted error {mp.nstr(max(errors), 4)}")
    for p in basis:
        print(f"    x^{p}: {float(round_to(fitted[p])):.9g}")


def atan(round_to, degree):
    # atan(x) = x + x^3 p(x^2), x <= tan(pi/8).
    def exact(z):
        return (mp.atan(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3

    p = around_zero(exact, lambda z: -mpf(1) / 3 + z / 5)
    fit("atan p", p, lambda z: z, 0, mpf("0.4143") ** 2, range(degree + 1), round_to)


def asin(round_to, degree):
    # asin(x) = x + x^3 p(x^2), x <= 1/2.
    def exact(z):
        return (mp.asin(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3

    p = around_zero(exact, lambda z: mpf(1) / 6 + z * 3 / 40)
    fit("asin p", p, lambda z: z, 0, mpf("0.251"), range(degree + 1), round_to)


if __name__ == "__main__":
    expm1(to_f32, 4)
    log(to_f32, 3)
    log(to_f64, 7)
    sin_cos(to_f32, 3, 2)
    sin_cos(to_f64, 6, 6)
    erf(to_f32, 6, 7, mpf("0.95"), 4)
    erf(to_f64, 11, 20, mpf("0.9"), 6)
    erfc(to_f32, 9, 9)
    atan(to_f32, 4)
    atan(to_f64, 12)
    asin(to_f32, 5)
    asin(to_f64, 13)
