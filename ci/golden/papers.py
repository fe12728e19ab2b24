"""Reference numbers for the loss, from the formulas of the papers: numpy in fp64, no autograd, nothing of learn.py.

Each objective is written as its paper has it, of one segment with its own letters, as what is maximised, and negated at the end. Derivatives are
central differences of the whole loss of a step by each log-probability. Terms behind a stop-gradient are computed
once, at the point itself, and kept while the log-probability moves. No point lies on a kink: the two one-sided differences agree.

    python ci/golden/papers.py           # writes harness/learn/tests/golden/papers.json
    python ci/golden/papers.py --check   # fails if a committed number is off by more than 2e-9
"""

import collections
import json
import pathlib
import sys

import numpy as np

FILE = pathlib.Path(__file__).resolve().parents[2] / "harness/learn/tests/golden/papers.json"
STEP = 1e-5
reached = collections.Counter()


# What stands for the gain of a segment: one number per trained token. n, o, b: log-probabilities of the current policy, of
# the one at the start of the batch, of the one that sampled. A: advantages. `at`: n where the derivative is taken.


def ppo(options, n, at, o, b, A):
    """PPO (1707.06347, 7) with the two bounds of DAPO (2503.14476, 8), and the dual clip of 1912.09729, 5."""
    low, high = 1 - options["clip"]["low"], 1 + options["clip"]["high"]
    r = np.exp(n - o)
    gain = np.minimum(r * A, np.clip(r, low, high) * A)
    reached["clipped above"] += int(((r > high) & (A > 0)).sum())
    reached["clipped below"] += int(((r < low) & (A < 0)).sum())
    if options["dual_clip"] is None:
        return gain
    bounded = np.maximum(gain, options["dual_clip"] * A)
    reached["clipped twice"] += int(((A < 0) & (bounded > gain)).sum())
    return np.where(A < 0, bounded, gain)


def gspo(options, n, at, o, b, A):
    """GSPO (2507.18071): equations 5 to 7, and where advantages differ, its token form, 13 and 14."""
    low, high = 1 - options["clip"]["low"], 1 + options["clip"]["high"]
    if np.all(A == A[0]):
        s = np.prod(np.exp(n) / np.exp(o)) ** (1 / len(n))
        gain = min(s * A[0], np.clip(s, low, high) * A[0])
        reached["segment clipped" if gain != s * A[0] else "segment free"] += 1
        return np.full(len(n), gain)
    s = np.prod(np.exp(at) / np.exp(o)) ** (1 / len(n)) * np.exp(n) / np.exp(at)
    reached["token form"] += 1
    return np.minimum(s * A, np.clip(s, low, high) * A)


def cispo(options, n, at, o, b, A):
    """CISPO (2506.13585): equations 4 and 5, whose lower bound is none there."""
    r = np.exp(at) / np.exp(b)
    reached["weight capped"] += int((r > options["cap"]).sum())
    return np.minimum(r, options["cap"]) * A * n


GAINS = {"token": ppo, "sequence": gspo, "cispo": cispo}


# The weight for the difference between sampler and learner.


def weight(weighting, o, b):
    if weighting == "none":
        return np.ones(len(o))
    (kind, options), = weighting.items()
    pi_train, pi_infer = np.exp(o), np.exp(b)
    if kind == "token":
        k = pi_train / pi_infer
    elif kind == "sequence":
        k = np.full(len(o), np.prod(pi_train) / np.prod(pi_infer))
    elif kind == "geometric":
        # The likelihood of a sequence, normalised for its length as in GSPO, 7.
        k = np.full(len(o), (np.prod(pi_train) / np.prod(pi_infer)) ** (1 / len(o)))
    elif kind == "icepop":
        # IcePop, 2510.18855: M(k) is k within the bounds and 0 beyond.
        k = pi_train / pi_infer
        kept = (options["low"] <= k) & (k <= options["high"])
        reached["kept by IcePop"] += int(kept.sum())
        reached["left out by IcePop"] += int((~kept).sum())
        return k * kept
    reached[f"{kind} capped"] += int((k > options["cap"]).sum())
    return np.minimum(k, options["cap"])


# The estimates of KL[pi, ref] at a token of pi.


def divergence(kl, n, at, b, reference):
    """Schulman, "Approximating KL divergence": k2 = (log r)^2 / 2 and k3 = r - 1 - log r, of r = ref / pi. With the bounds and the
    weight of OpenClaw-RL (2603.10165)."""
    log_r = np.clip(reference - n, -20, 20)
    if kl["estimator"] == "k2":
        k = log_r**2 / 2
    else:
        k = np.minimum(np.exp(log_r) - 1 - log_r, 10)
        reached["k3 at its bound"] += int((k == 10).sum())
    reached["q at its bound"] += int((np.abs(log_r) == 20).sum())
    return kl["coefficient"] * np.minimum(np.exp(at - b), 2) * k


# The loss of an optimizer step.


def terms(config, segment, n):
    """The loss at each trained token of a segment; `n` may be beside the segment's own."""
    trained = np.flatnonzero(segment["mask"])
    of = lambda values: np.array(values, dtype=np.float64)[trained]
    at, o, b, A = (of(segment[name]) for name in ("current", "proximal", "behaviour", "advantages"))
    if len(trained) == 0 or np.any(o - b < -10):
        return np.zeros(len(trained))
    (kind, options), = config["surrogate"].items()
    loss = -weight(config["weighting"], o, b) * GAINS[kind](options, of(n), at, o, b, A)
    if config["kl"]:
        loss = loss + divergence(config["kl"], of(n), at, b, of(segment["reference"]))
    return loss


def step_loss(config, segments, currents):
    """The mean that the objective is: over tokens (DAPO), over episodes of the mean over their tokens (GRPO, 2402.03300, 3), or
    with a constant in place of lengths (Dr.GRPO, 2503.20783)."""
    episodes = collections.defaultdict(list)
    for segment, n in zip(segments, currents):
        if any(segment["mask"]):
            episodes[segment["episode"]].append(terms(config, segment, n))
    episodes = [np.concatenate(parts) for parts in episodes.values()]
    aggregation = config["aggregation"]
    if aggregation == "token_mean":
        return np.concatenate(episodes).mean()
    if aggregation == "episode_mean":
        return np.mean([episode.mean() for episode in episodes])
    return np.mean([episode.sum() / aggregation["constant"]["max_tokens"] for episode in episodes])


def derivatives(config, segments):
    """By each current log-probability, and the loss itself."""
    currents = [np.array(segment["current"], dtype=np.float64) for segment in segments]
    here = step_loss(config, segments, currents)
    rows = []
    for index, segment in enumerate(segments):
        row = []
        for token in range(len(segment["mask"])):
            beside = []
            for by in (STEP, -STEP):
                moved = [current.copy() for current in currents]
                moved[index][token] += by
                beside.append(step_loss(config, segments, moved))
            ahead, behind = (beside[0] - here) / STEP, (here - beside[1]) / STEP
            assert abs(ahead - behind) < 1e-4, (config, index, token, ahead, behind)
            row.append(round((beside[0] - beside[1]) / (2 * STEP), 9))
        rows.append(row)
    return float(here), rows


# Steps and settings.


def fp32(values):
    return np.asarray(values, dtype=np.float32).astype(np.float64).tolist()


def logs(values):
    """Logarithms of probabilities."""
    return fp32(np.minimum(values, 0))


def draw(seed, drift, gap, per_token=False, mismatch=False):
    """Segments of one step, ragged: one to three of an episode, some of which train nothing. With `per_token`, the tokens of an episode
    have advantages of their own; with `mismatch`, a recorded log-probability is far off, within bounds and beyond."""
    generator = np.random.default_rng(seed)
    segments = []
    for episode in range(5):
        outcome = generator.normal(0, 1.3)
        for _ in range(generator.integers(1, 4) if episode else 1):
            length = int(generator.integers(2, 8))
            mask = generator.random(length) < 0.7
            mask[0] = False
            o = -generator.exponential(1.2, length)
            segments.append(
                {
                    "episode": episode,
                    "mask": mask.tolist(),
                    "current": logs(o + generator.normal(0, drift, length)),
                    "proximal": fp32(o),
                    "behaviour": logs(o + generator.normal(0, gap, length)),
                    "advantages": fp32(generator.normal(0, 1.3, length) if per_token else [outcome] * length),
                    # Far below at times, and above.
                    "reference": logs(o + generator.normal(0, 1.5, length) - 25 * (generator.random(length) < 0.05)),
                    # There is no teacher here.
                    "teacher": [None] * length,
                }
            )
    if mismatch:
        trained = [segment for segment in segments if any(segment["mask"])]
        for segment, drop in zip(trained, (9.5, 10.5)):
            token = segment["mask"].index(True)
            segment["behaviour"][token] = fp32([segment["proximal"][token] + drop])[0]
    return segments


STEPS = {
    "near": draw(1, 8e-4, 0.02),
    "far": draw(2, 0.6, 0.7),
    "turns": draw(3, 0.4, 0.4, per_token=True),
    "mismatched": draw(4, 0.3, 0.3, mismatch=True),
}


def configs():
    def of(surrogate, weighting="none", aggregation="token_mean", kl=None):
        return {
            "surrogate": surrogate, "weighting": weighting, "aggregation": aggregation, "kl": kl,
            "outcome_weight": 1.0, "distillation": None,
        }

    def token(low, high, dual_clip=None):
        return {"token": {"clip": {"low": low, "high": high}, "dual_clip": dual_clip}}

    published = {"sequence": {"clip": {"low": 3e-4, "high": 4e-4}}}
    wide = {"sequence": {"clip": {"low": 0.2, "high": 0.28}}}
    bounded = {"cispo": {"cap": 5.0}}
    dapo, truncated, geometric = token(0.2, 0.28), {"token": {"cap": 2.0}}, {"geometric": {"cap": 2.0}}
    # As the objectives of the train file fill them in.
    yield of(token(0.2, 0.2), truncated, "episode_mean")
    yield of(token(0.2, 0.2), truncated, {"constant": {"max_tokens": 16}})
    yield of(dapo, truncated)
    yield of(published, geometric, "episode_mean")
    yield of(bounded)
    # And with other bounds, corrections, means and costs.
    for dual_clip in (1.2, 3.0):
        yield of(token(0.2, 0.28, dual_clip))
        yield of(token(0.2, 0.28, dual_clip), {"icepop": {"low": 0.5, "high": 5.0}}, "episode_mean")
    yield of(dapo, {"icepop": {"low": 0.9, "high": 1.2}})
    yield of(dapo, {"geometric": {"cap": 1.05}}, "episode_mean")
    yield of(dapo, {"sequence": {"cap": 2.0}})
    yield of(wide, "none", "episode_mean")
    yield of(wide, {"sequence": {"cap": 1.1}}, {"constant": {"max_tokens": 16}})
    yield of({"cispo": {"cap": 1.1}}, "none", "episode_mean")
    for estimator in ("k2", "k3"):
        kl = {"coefficient": 0.3, "estimator": estimator}
        yield of(dapo, truncated, "token_mean", kl)
        yield of(wide, geometric, "episode_mean", kl)
        yield of(bounded, "none", "token_mean", kl)


def content():
    cases = []
    for name, segments in STEPS.items():
        trained = lambda segment: np.flatnonzero(segment["mask"])
        gaps = [np.subtract(segment["proximal"], segment["behaviour"])[trained(segment)] for segment in segments]
        dropped = sum(bool(np.any(gap < -10)) for gap in gaps)
        for config in configs():
            loss, d_current = derivatives(config, segments)
            cases.append({"step": name, "config": config, "loss": loss, "d_current": d_current, "dropped": dropped})
    expected = [
        "clipped above", "clipped below", "clipped twice", "segment clipped", "segment free", "token form", "weight capped",
        "token capped", "sequence capped", "geometric capped", "kept by IcePop", "left out by IcePop", "k3 at its bound",
        "q at its bound",
    ]
    missing = [branch for branch in expected if not reached[branch]]
    assert not missing, f"never reached: {missing}"
    return {"numpy": np.__version__, "steps": STEPS, "cases": cases}


def text(made):
    row = lambda value: json.dumps(value, separators=(",", ":"))
    steps = ",\n".join(f"{json.dumps(name)}:[\n" + ",\n".join(map(row, segments)) + "\n]" for name, segments in made["steps"].items())
    cases = ",\n".join(map(row, made["cases"]))
    return f'{{\n"numpy":{json.dumps(made["numpy"])},\n"steps":{{\n{steps}\n}},\n"cases":[\n{cases}\n]\n}}\n'


def is_same(left, right):
    """Up to what differences in fp64 leave."""
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in right)
    if isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(right, float):
        return abs(left - right) <= 2e-9 * max(1.0, abs(right))
    return left == right


if __name__ == "__main__":
    made = content()
    if sys.argv[1:] == ["--check"]:
        committed = json.loads(FILE.read_text())
        sys.exit(0 if is_same(committed, {**made, "numpy": committed["numpy"]}) else f"{FILE.name} has other numbers")
    FILE.write_text(text(made))
    print(dict(reached))
