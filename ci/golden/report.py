"""Reference numbers for `harness/report`: clustered and Wilson intervals, quantiles, pass@k and pass^k.

The cluster-robust standard error is statsmodels' (OLS on a constant, cov_type "cluster" with its small-sample
correction), Wilson's interval is statsmodels' proportion_confint, Student's quantile is scipy's, and pass@k is the mean over every
subset of size k, enumerated. Our part is the composition that harness/report/src/rate.rs states: the effective
number of episodes from that standard error, in Wilson's interval.

Also the coverage of the interval, by simulation over beta-binomial tasks with an intraclass correlation: the share of
runs whose interval holds the true rate, beside that of Wilson's interval that takes episodes as independent. For
reading, not for a test.

    python ci/golden/report.py            # writes harness/report/tests/golden/statistics.json
    python ci/golden/report.py --check    # fails if a committed number is off by more than 1e-12
    python ci/golden/report.py --coverage # prints the simulation: minutes
"""

import argparse
import itertools
import json
import pathlib
import sys

import numpy
import scipy
import statsmodels
import statsmodels.api
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from committed import differences, text

FILE = pathlib.Path(__file__).resolve().parents[2] / "harness/report/tests/golden/statistics.json"
Z = stats.norm.ppf(0.975)


def versions():
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "statsmodels": statsmodels.__version__,
    }


def standard_error(tasks):
    outcomes, groups = [], []
    for task, (passed, episodes) in enumerate(tasks):
        outcomes += [1.0] * passed + [0.0] * (episodes - passed)
        groups += [task] * episodes
    model = statsmodels.api.OLS(numpy.array(outcomes), numpy.ones(len(outcomes)))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": numpy.array(groups), "use_correction": True})
    return float(fit.bse[0])


def clustered(tasks, error=None):
    passed, episodes = (sum(column) for column in zip(*tasks))
    rate = passed / episodes
    error = standard_error(tasks) if error is None else error
    if error > 1e-12:
        quantile = stats.t.ppf(0.975, len(tasks) - 1)
        effective = min(episodes, rate * (1 - rate) / error**2 * (Z / quantile) ** 2)
    else:
        effective = len(tasks) if passed in (0, episodes) else episodes
    low, high = proportion_confint(rate * effective, effective, alpha=0.05, method="wilson")
    return {"tasks": tasks, "standard_error": error, "effective": effective, "low": low, "high": high}


def cluster_cases():
    generator = numpy.random.default_rng(5)
    yield clustered([[8, 8], [0, 8], [8, 8], [0, 8]])
    yield clustered([[4, 8], [4, 8], [4, 8]])
    yield clustered([[8, 8], [8, 8], [7, 8]])
    yield clustered([[3, 3], [4, 4]])
    yield clustered([[0, 2], [0, 5], [0, 1]])
    yield clustered([[1, 1], [3, 8], [0, 20]])
    for count in (2, 3, 5, 10, 40, 200, 1500):
        for correlation in (0.05, 0.5):
            rate = generator.uniform(0.05, 0.95)
            size = 1 / correlation - 1
            shares = generator.beta(rate * size, (1 - rate) * size, count)
            episodes = generator.integers(2, 17, count)
            passed = generator.binomial(episodes, shares)
            yield clustered([[int(p), int(n)] for p, n in zip(passed, episodes)])


def wilson_cases():
    for passed, episodes in [(0, 1), (1, 1), (0, 10), (5, 10), (10, 10), (81, 263), (9999, 10000)]:
        low, high = proportion_confint(passed, episodes, alpha=0.05, method="wilson")
        yield {"passed": passed, "episodes": episodes, "low": float(low), "high": float(high)}


def quantile_cases():
    for degrees in [*range(1, 31), 50, 99, 100, 250, 500, 998, 999, 1000, 1001, 2000, 10**4, 10**6]:
        yield {"degrees": degrees, "quantile": float(stats.t.ppf(0.975, degrees))}


def at_k_cases():
    generator = numpy.random.default_rng(6)
    for tasks in ([[1, 4], [0, 4], [4, 4]], [[2, 5], [3, 3], [1, 1]], [[0, 8]], None, None):
        if tasks is None:
            episodes = generator.integers(3, 9, 12)
            tasks = [[int(generator.integers(0, n + 1)), int(n)] for n in episodes]
        for k in (1, 2, 3, 4, 5, 8):
            enough = [(passed, episodes) for passed, episodes in tasks if episodes >= k]
            if not enough:
                continue
            one, every = [], []
            for passed, episodes in enough:
                drawn = list(itertools.combinations([1] * passed + [0] * (episodes - passed), k))
                one.append(float(numpy.mean([any(subset) for subset in drawn])))
                every.append(float(numpy.mean([all(subset) for subset in drawn])))
            yield {
                "tasks": tasks,
                "k": k,
                "enough": len(enough),
                "at_least_one": over_tasks(one),
                "all": over_tasks(every),
            }


def over_tasks(values):
    mean = float(numpy.mean(values))
    if len(values) < 2 or numpy.std(values) < 1e-12:
        return {"value": mean, "interval": None}
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=stats.sem(values))
    return {"value": mean, "interval": [max(0.0, float(low)), min(1.0, float(high))]}


def content():
    return {
        "versions": versions(),
        "clustered": list(cluster_cases()),
        "wilson": list(wilson_cases()),
        "quantiles": list(quantile_cases()),
        "at_k": list(at_k_cases()),
    }


def quick_error(tasks):
    """The interval of statsmodels, for simulations; the cases above hold both against each other."""
    passed, episodes = numpy.array(tasks, dtype=float).T
    total = episodes.sum()
    residuals = passed - passed.sum() / total * episodes
    return float(numpy.sqrt(len(tasks) / (len(tasks) - 1) * (residuals**2).sum()) / total)


def coverage():
    generator = numpy.random.default_rng(7)
    runs = 4000
    print("tasks  episodes  correlation  rate   clustered  width   independent  width")
    for count, each, correlation, rate in itertools.product((5, 10, 40, 200), (8,), (0.02, 0.3, 0.8), (0.5, 0.9, 0.98)):
        held, widths = numpy.zeros(2), numpy.zeros(2)
        for _ in range(runs):
            size = 1 / correlation - 1
            passed = generator.binomial(each, generator.beta(rate * size, (1 - rate) * size, count))
            tasks = [[int(p), each] for p in passed]
            ours = clustered(tasks, quick_error(tasks))
            plain = proportion_confint(int(passed.sum()), each * count, method="wilson")
            for at, (low, high) in enumerate(((ours["low"], ours["high"]), plain)):
                held[at] += low <= rate <= high
                widths[at] += high - low
        held, widths = held / runs, widths / runs
        print(f"{count:5}  {each:8}  {correlation:11}  {rate:4}  {held[0]:10.3f}  {widths[0]:5.3f}  {held[1]:11.3f}  {widths[1]:5.3f}")


def main():
    arguments = argparse.ArgumentParser(description="Reference numbers for harness/report.")
    arguments.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    arguments.add_argument("--coverage", action="store_true", help="simulate how often intervals hold the truth")
    chosen = arguments.parse_args()
    if chosen.coverage:
        coverage()
        return 0
    made = json.loads(json.dumps(content()))
    if not chosen.check:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(text(made))
        return 0
    failures = list(differences(json.loads(FILE.read_text()), made, within=1e-12))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
