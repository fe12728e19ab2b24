"""Reference numbers for `harness/gates`: exact tests, intervals, sign flips, BCa, Holm, boundaries of looks, rates compared,
rates that fell.

Binomial tests, the test of sign flips (every flip enumerated) and the BCa interval, with the means of the samples that it drew, are
scipy's; McNemar's test, intervals of shares and Holm's adjustment are statsmodels'. Boundaries of looks are roots of integrals over the
paths of two and three looks, by scipy's quadrature, without the recursion that the crate has; the probability that one rate is below another is
an integral over scipy's beta distribution. p-values of rates that fell are of all outcomes enumerated, and without a tolerance held against scipy's test of
Boschloo.

    python ci/golden/gates.py            # writes harness/gates/tests/golden/statistics.json
    python ci/golden/gates.py --check    # fails if a committed number is off by more than 1e-9
"""

import argparse
import json
import math
import pathlib
import sys

import numpy
import scipy
import statsmodels
from scipy import integrate, optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from committed import differences, text

FILE = pathlib.Path(__file__).resolve().parents[2] / "harness/gates/tests/golden/statistics.json"
CASES = 50


def versions():
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "statsmodels": statsmodels.__version__,
    }


def count_cases():
    generator = numpy.random.default_rng(1)
    for _ in range(CASES):
        trials = int(generator.choice([1, 2, 5, 10, 40, 300, 2000]))
        p = float(generator.choice([0.5, generator.uniform(0.01, 0.99)]))
        hits = int(generator.binomial(trials, generator.uniform()))
        level = float(generator.choice([0.9, 0.95, 0.99]))
        test = {name: float(stats.binomtest(hits, trials, p, alternative=name).pvalue) for name in ("greater", "less", "two-sided")}
        yield {
            "hits": hits,
            "trials": trials,
            "p": p,
            "greater": test["greater"],
            "less": test["less"],
            "two_sided": test["two-sided"],
            "level": level,
            "clopper_pearson": [float(end) for end in proportion_confint(hits, trials, 1 - level, method="beta")],
            "wilson": [float(end) for end in proportion_confint(hits, trials, 1 - level, method="wilson")],
        }


def changed_cases():
    generator = numpy.random.default_rng(2)
    for _ in range(CASES):
        worse, better, both, none = (int(count) for count in generator.integers(0, 30, 4))
        table = [[both, worse], [better, none]]
        sign = float(stats.binomtest(worse, worse + better, 0.5, alternative="greater").pvalue) if worse + better else 1.0
        yield {"worse": worse, "better": better, "sign": sign, "mcnemar": min(1.0, float(mcnemar(table, exact=True).pvalue))}


def flip_cases():
    generator = numpy.random.default_rng(3)
    for case in range(CASES):
        tasks = int(generator.integers(2, 12))
        if case % 2:
            # Eighths, so that ties are ties.
            differences = (generator.integers(-8, 9, tasks) / 8).tolist()
            tau = float(generator.integers(-2, 3) / 8)
        else:
            differences = generator.normal(0.1, 1, tasks).tolist()
            tau = float(generator.uniform(-0.2, 0.2))
        shifted = numpy.array(differences) - tau
        p = {
            side: float(
                stats.permutation_test(
                    (shifted,), numpy.mean, permutation_type="samples", alternative=side, n_resamples=numpy.inf, vectorized=True
                ).pvalue
            )
            for side in ("greater", "less")
        }
        yield {"differences": differences, "tau": tau, "above": p["greater"], "below": p["less"]}


def bootstrap_cases():
    generator = numpy.random.default_rng(4)
    for case in range(12):
        tasks = int(generator.integers(5, 30))
        differences = generator.exponential(1, tasks) if case % 2 else generator.integers(-2, 4, tasks) / 4
        level = float(generator.choice([0.8, 0.9]))
        found = stats.bootstrap((differences,), numpy.mean, confidence_level=level, n_resamples=99, method="BCa", rng=case)
        yield {
            "differences": differences.tolist(),
            "means": found.bootstrap_distribution.tolist(),
            "level": level,
            "low": float(found.confidence_interval.low),
            "high": float(found.confidence_interval.high),
        }


def holm_cases():
    generator = numpy.random.default_rng(5)
    for _ in range(CASES):
        given = (generator.uniform(0, 1, int(generator.integers(1, 9))) ** 3).tolist()
        yield {"given": given, "adjusted": multipletests(given, method="holm")[1].tolist()}


def spent(spending, alpha, fraction):
    if spending == "obrien_fleming":
        return 2 * stats.norm.sf(stats.norm.isf(alpha / 2) / math.sqrt(fraction))
    return alpha * math.log(1 + (math.e - 1) * fraction)


def look_cases():
    generator = numpy.random.default_rng(6)
    for case in range(12):
        count = 2 + case % 2
        inner = numpy.sort(generator.uniform(0.15, 0.85, count - 1))
        if count == 3 and inner[1] - inner[0] < 0.1:
            inner[1] = inner[0] + 0.1
        fractions = [*inner.tolist(), 1.0]
        alpha = float(generator.choice([0.025, 0.05]))
        spending = ("obrien_fleming", "pocock")[case // 2 % 2]
        yield {"fractions": fractions, "alpha": alpha, "spending": spending, "z": boundaries(fractions, alpha, spending)}


def boundaries(fractions, alpha, spending):
    totals = [0.0] + [spent(spending, alpha, fraction) for fraction in fractions]
    now = [after - before for before, after in zip(totals, totals[1:])]
    first, second = fractions[:2]
    levels = [stats.norm.isf(now[0]) * math.sqrt(first)]
    sharp = {"epsabs": 1e-13, "epsrel": 1e-12}
    density = lambda place, variance: math.exp(-place * place / 2 / variance) / math.sqrt(2 * math.pi * variance)
    tail = lambda place, variance: math.erfc(place / math.sqrt(2 * variance)) / 2

    def leaves_second(level):
        inner = lambda at: density(at, first) * tail(level - at, second - first)
        return integrate.quad(inner, -9 * math.sqrt(first), levels[0], limit=200, **sharp)[0] - now[1]

    levels.append(optimize.brentq(leaves_second, -3, 9, xtol=1e-12))
    if len(fractions) == 3:

        def leaves_third(level):
            def after(at):
                inner = lambda later: density(later - at, second - first) * tail(level - later, 1 - second)
                low = at - 9 * math.sqrt(second - first)
                return integrate.quad(inner, low, levels[1], **sharp)[0] if low < levels[1] else 0.0

            whole = integrate.quad(lambda at: density(at, first) * after(at), -9 * math.sqrt(first), levels[0], **sharp)
            return whole[0] - now[2]

        levels.append(optimize.brentq(leaves_third, -1, 6, xtol=1e-10))
    return [level / math.sqrt(fraction) for level, fraction in zip(levels, fractions)]


def rate_cases():
    generator = numpy.random.default_rng(7)
    for _ in range(CASES):
        attempts = generator.integers(1, 40, 2)
        passes = generator.binomial(attempts, generator.uniform(0, 1, 2))
        (a, b), (c, d) = ((int(k), int(n - k)) for k, n in zip(passes, attempts))
        # The candidate's rate is below the baseline's.
        baseline, candidate = stats.beta(a + 1, b + 1), stats.beta(c + 1, d + 1)
        below = integrate.quad(lambda x: candidate.cdf(x) * baseline.pdf(x), 0, 1, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
        yield {"baseline": [a, a + b], "candidate": [c, c + d], "below": float(below)}


def unconditional(before, after, tolerance):
    """The largest probability of what is as unfavourable by Fisher's p-value, over rates of which the second is lower by the tolerance."""
    (x, b), (y, c) = before, after
    first, second = numpy.arange(b + 1)[:, None], numpy.arange(c + 1)[None, :]
    fisher = stats.hypergeom.cdf(second, b + c, first + second, c)
    as_rare = fisher <= fisher[x, y] * (1 + 1e-7)

    def probability(rate):
        outcomes = stats.binom.pmf(first, b, rate) * stats.binom.pmf(second, c, rate - tolerance)
        return float(outcomes[as_rare].sum())

    rates = numpy.linspace(tolerance, 1, 1001)
    best = int(numpy.argmax([probability(rate) for rate in rates]))
    around = (rates[max(best - 1, 0)], rates[min(best + 1, 1000)])
    found = optimize.minimize_scalar(lambda rate: -probability(rate), bounds=around, method="bounded", options={"xatol": 1e-12})
    return max(-float(found.fun), probability(rates[best]))


def fall_cases():
    generator = numpy.random.default_rng(8)
    for case in range(CASES):
        while True:
            b, c = (int(n) for n in generator.integers(1, 25, 2))
            x, y = int(generator.binomial(b, 0.8)), int(generator.binomial(c, 0.4))
            tolerance = 0.0 if case % 2 else float(generator.choice([0.02, 0.1, 0.25]))
            if x / b - y / c > tolerance + 1e-3:
                break
        p = unconditional((x, b), (y, c), tolerance)
        if tolerance == 0:
            scipys = float(stats.boschloo_exact([[y, x], [c - y, b - x]], alternative="less", n=256).pvalue)
            if abs(scipys - p) > 1e-6 * p:
                raise ValueError(f"scipy has {scipys} of {y} of {c} after {x} of {b}, not {p}")
        yield {"baseline": [x, b], "candidate": [y, c], "tolerance": tolerance, "p": p}


def content():
    return {
        "versions": versions(),
        "counts": list(count_cases()),
        "changed": list(changed_cases()),
        "flips": list(flip_cases()),
        "bootstraps": list(bootstrap_cases()),
        "holm": list(holm_cases()),
        "looks": list(look_cases()),
        "rates": list(rate_cases()),
        "falls": list(fall_cases()),
    }


def main():
    arguments = argparse.ArgumentParser(description="Reference numbers for harness/gates.")
    arguments.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    chosen = arguments.parse_args()
    made = json.loads(json.dumps(content()))
    if not chosen.check:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(text(made))
        return 0
    failures = list(differences(json.loads(FILE.read_text()), made, within=1e-9))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
