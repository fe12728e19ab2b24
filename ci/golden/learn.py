"""Reference numbers for `harness/learn`: advantages, losses and derivatives, by PyTorch autograd in fp64.

Every formula is written here a second time, over whole optimizer steps and with torch's own clamp, maximum and std,
so that neither side can copy the other's mistake. Inputs are drawn once from fixed seeds, rounded to what fp32 holds
and kept in the files, so the numbers do not depend on torch's generator.

    python ci/golden/learn.py           # writes harness/learn/tests/golden/*.json
    python ci/golden/learn.py --check   # fails if a committed number is off by more than 1e-12
"""

import argparse
import json
import math
import pathlib
import sys

import numpy
import torch

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "harness/learn/tests/golden"
MAX_DROP = 10.0
F64 = torch.float64


def versions():
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


# Advantages.


def advantages(kind, rewards):
    r = torch.tensor(rewards, dtype=F64)
    if kind == "grpo":
        return (r - r.mean()) / (r.std() + 1e-6)
    if kind == "dr_grpo":
        return r - r.mean()
    if kind == "leave_one_out":
        others = ~torch.eye(len(rewards), dtype=torch.bool)
        return torch.stack([r[i] - r[others[i]].mean() for i in range(len(rewards))])
    raise ValueError(kind)


def advantage_cases():
    generator = numpy.random.default_rng(11)
    groups = [[1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [1.0] * 7 + [0.0], [0.3, 0.9, 0.1], [1e6, 1e6 + 1.0, 1e6 - 2.5]]
    groups += [generator.normal(size=int(generator.integers(2, 17))).tolist() for _ in range(8)]
    groups += [generator.integers(0, 2, size=8).astype(float).tolist() for _ in range(4)]
    for rewards in groups:
        for kind in ("grpo", "dr_grpo", "leave_one_out"):
            yield {"kind": kind, "rewards": rewards, "advantages": advantages(kind, rewards).tolist()}


# Losses.


def fp32(values):
    return torch.tensor(values, dtype=torch.float32).to(F64)


def draw_step(seed, drift, gap, outcomes=False):
    """Samples of one optimizer step. Episode 1 has two segments, episode 3 trains nothing. With `outcomes`, all tokens of an
    episode have one advantage."""
    generator = numpy.random.default_rng(seed)
    samples = []
    for episode, length in [(0, 7), (1, 5), (1, 9), (2, 12), (3, 4), (4, 3), (5, 10)]:
        mask = generator.random(length) < 0.6
        mask[0] = False
        mask[-1] = True
        if episode == 3:
            mask[:] = False
        proximal = -generator.exponential(1.5, length)
        samples.append(
            {
                "episode": episode,
                "mask": mask.tolist(),
                "current": fp32(proximal + generator.normal(0, drift, length)).tolist(),
                "proximal": fp32(proximal).tolist(),
                "behaviour": fp32(proximal + generator.normal(0, gap, length)).tolist(),
                "advantages": fp32(generator.normal(0, 1.2, length)).tolist(),
            }
        )
    # Drawn apart, so that the columns above stay as they were before these were there.
    generator = numpy.random.default_rng(seed + 1000)
    of_episode = generator.normal(0, 1.2, 6)
    for sample in samples:
        length = len(sample["mask"])
        proximal = numpy.array(sample["proximal"])
        teacher = fp32(proximal + generator.normal(0, 0.8, length)).tolist()
        asked = generator.random(length) < 0.7
        sample["reference"] = fp32(proximal + generator.normal(0, 1.5, length)).tolist()
        sample["teacher"] = [value if is_asked else None for value, is_asked in zip(teacher, asked)]
        if outcomes:
            sample["advantages"] = fp32([of_episode[sample["episode"]]] * length).tolist()
    return samples


def importance(weighting, gap):
    """One detached weight per token of a segment, from o - b of its trained tokens."""
    kind, options = ("none", {}) if weighting == "none" else next(iter(weighting.items()))
    ratio = torch.exp(gap)
    if kind == "none":
        return torch.ones_like(gap)
    if kind == "token":
        return ratio.clamp(max=options["cap"])
    if kind == "sequence":
        return torch.exp(gap.sum()).clamp(max=options["cap"]).expand_as(gap)
    if kind == "geometric":
        return torch.exp(gap.mean()).clamp(max=options["cap"]).expand_as(gap)
    if kind == "icepop":
        inside = (ratio >= options["low"]) & (ratio <= options["high"])
        return torch.where(inside, ratio, torch.zeros_like(ratio))
    raise ValueError(kind)


def clipped(ratio, advantage, clip):
    bounded = torch.clamp(ratio, 1 - clip["low"], 1 + clip["high"])
    return torch.maximum(-ratio * advantage, -bounded * advantage)


def surrogate(config, current, column, advantage):
    kind, options = next(iter(config["surrogate"].items()))
    if kind == "token":
        terms = clipped(torch.exp(current - column["proximal"]), advantage, options["clip"])
        if options["dual_clip"] is not None:
            bound = torch.minimum(terms, -options["dual_clip"] * advantage)
            terms = torch.where(advantage < 0, bound, terms)
        return terms
    if kind == "sequence":
        ratio = torch.exp((current - column["proximal"]).mean())
        if bool((advantage == advantage[0]).all()):
            # The paper's equation 5: one term for the segment, which all its tokens share.
            return clipped(ratio, advantage[0], options["clip"]).expand_as(advantage)
        # Its token form, equations 13 and 14.
        return clipped(ratio.detach() * torch.exp(current - current.detach()), advantage, options["clip"])
    if kind == "cispo":
        weight = torch.exp(current - column["behaviour"]).clamp(max=options["cap"]).detach()
        return -weight * advantage * current
    raise ValueError(kind)


def distance(kl, current, column):
    q = torch.clamp(column["reference"] - current, -20, 20)
    terms = {"k3": torch.clamp(torch.exp(q) - 1 - q, max=10.0), "k2": q * q / 2}[kl["estimator"]]
    weight = torch.exp(current - column["behaviour"]).clamp(max=2.0).detach()
    return kl["coefficient"] * weight * terms


def taught(distillation, column, teacher):
    """The teacher's term of each advantage."""
    bound = distillation["bound"]
    terms = [
        0.0 if said is None else min(max(said - proximal, -bound), bound)
        for said, proximal in zip(teacher, column["proximal"].tolist())
    ]
    return distillation["weight"] * torch.tensor(terms, dtype=F64)


def aggregate(aggregation, samples, terms, masks):
    """One number from the terms of a step: directly by definition, without weights of tokens."""
    by_episode = {}
    for sample, of_segment, mask in zip(samples, terms, masks):
        if mask.any():
            by_episode.setdefault(sample["episode"], []).append((of_segment, int(mask.sum())))
    sums = [sum(terms.sum() for terms, _ in segments) for segments in by_episode.values()]
    lengths = [sum(length for _, length in segments) for segments in by_episode.values()]
    if aggregation == "token_mean":
        return sum(sums) / sum(lengths)
    if aggregation == "episode_mean":
        return sum(s / length for s, length in zip(sums, lengths)) / len(sums)
    return sum(sums) / (len(sums) * aggregation["constant"]["max_tokens"])


def step_loss(config, samples):
    """Loss of the step and its derivative by each current log-probability."""
    leaves, terms, masks, dropped = [], [], [], 0
    for sample in samples:
        mask = torch.tensor(sample["mask"])
        leaf = torch.tensor(sample["current"], dtype=F64, requires_grad=True)
        names = ("proximal", "behaviour", "advantages", "reference")
        column = {name: torch.tensor(sample[name], dtype=F64)[mask] for name in names}
        gap = column["proximal"] - column["behaviour"]
        if config is None:
            of_segment = -leaf[mask]
        elif bool((gap < -MAX_DROP).any()):
            of_segment = torch.zeros(int(mask.sum()), dtype=F64)
            dropped += 1
        else:
            advantage = config["outcome_weight"] * column["advantages"]
            if config["distillation"] is not None:
                teacher = [said for said, is_trained in zip(sample["teacher"], sample["mask"]) if is_trained]
                advantage = advantage + taught(config["distillation"], column, teacher)
            of_segment = gap
            if mask.any():
                of_segment = importance(config["weighting"], gap) * surrogate(config, leaf[mask], column, advantage)
            if config["kl"] is not None:
                of_segment = of_segment + distance(config["kl"], leaf[mask], column)
        leaves.append(leaf)
        terms.append(of_segment)
        masks.append(mask)
    aggregation = "token_mean" if config is None else config["aggregation"]
    loss = aggregate(aggregation, samples, terms, masks)
    loss.backward()
    derivatives = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
    return loss.item(), [derivative.tolist() for derivative in derivatives], dropped


WEIGHTINGS = [
    "none",
    {"token": {"cap": 2.0}},
    {"sequence": {"cap": 2.0}},
    {"geometric": {"cap": 2.0}},
    {"icepop": {"low": 0.5, "high": 5.0}},
]
AGGREGATIONS = ["token_mean", "episode_mean", {"constant": {"max_tokens": 16}}]


def loss_cases(steps):
    def token(low, high, dual_clip=None):
        return {"token": {"clip": {"low": low, "high": high}, "dual_clip": dual_clip}}

    plain = {
        "surrogate": token(0.2, 0.28),
        "weighting": {"token": {"cap": 2.0}},
        "aggregation": "token_mean",
        "kl": None,
        "outcome_weight": 1.0,
        "distillation": None,
    }
    configs = [
        {**plain, "surrogate": token(0.2, 0.28, dual_clip), "weighting": weighting, "aggregation": aggregation}
        for weighting in WEIGHTINGS
        for aggregation in AGGREGATIONS
        for dual_clip in (None, 1.5)
    ]
    configs.append({**plain, "surrogate": token(0.0003, 0.0004)})
    of_sequence = {"sequence": {"clip": {"low": 3e-4, "high": 4e-4}}}
    wide = {"sequence": {"clip": {"low": 0.2, "high": 0.28}}}
    geometric = {"geometric": {"cap": 2.0}}
    configs += [
        {**plain, "surrogate": surrogate, "weighting": weighting, "aggregation": "episode_mean"}
        for surrogate in (of_sequence, wide)
        for weighting in ("none", geometric)
    ]
    configs += [
        {**plain, "surrogate": {"cispo": {"cap": cap}}, "weighting": "none", "aggregation": aggregation}
        for cap in (1.2, 5.0)
        for aggregation in ("token_mean", "episode_mean")
    ]
    configs += [{**plain, "surrogate": wide, "weighting": {"sequence": {"cap": 2.0}}, "aggregation": "episode_mean"}]
    for base in (plain, {**plain, "surrogate": wide, "weighting": geometric, "aggregation": "episode_mean"},
                 {**plain, "surrogate": {"cispo": {"cap": 5.0}}, "weighting": "none"}):
        configs += [{**base, "kl": {"coefficient": 0.3, "estimator": estimator}} for estimator in ("k3", "k2")]
    sampled = {"weight": 0.7, "bound": 1.0, "form": "sampled"}
    configs += [
        {**plain, "distillation": sampled},
        {**plain, "distillation": {**sampled, "bound": 0.25}, "outcome_weight": 0.0},
        {**plain, "distillation": sampled, "kl": {"coefficient": 0.1, "estimator": "k3"}, "outcome_weight": 0.5},
    ]
    for name, samples in steps.items():
        for config in [None, *configs]:
            loss, derivatives, dropped = step_loss(config, samples)
            assert math.isfinite(loss)
            # No configuration: imitation.
            yield {"step": name, "config": config, "loss": loss, "d_current": derivatives, "dropped": dropped}


def steps():
    on_policy = draw_step(21, 0.0, 0.0)
    near = draw_step(22, 0.05, 0.02)
    far = draw_step(23, 0.7, 0.8)
    mismatched = draw_step(24, 0.3, 0.3)
    # One recorded log-probability cannot be of the same token, and one is far off but credible.
    for sample, drop in ((1, 10.5), (3, 9.5)):
        token = mismatched[sample]["mask"].index(True)
        mismatched[sample]["behaviour"][token] = fp32([mismatched[sample]["proximal"][token] + drop]).item()
    outcomes = draw_step(25, 0.3, 0.2, outcomes=True)
    return {"on_policy": on_policy, "near": near, "far": far, "mismatched": mismatched, "outcomes": outcomes}


# Candidates of a teacher.


def candidate_loss(case):
    """Sum over tokens, each with its weight, of the clipped terms of its candidates."""
    leaves, loss = [], torch.tensor(0.0, dtype=F64)
    distillation = case["distillation"]
    for row in case["rows"]:
        current = torch.tensor(row["current"], dtype=F64, requires_grad=True)
        proximal, teacher = (torch.tensor(row[name], dtype=F64) for name in ("proximal", "teacher"))
        share = torch.softmax(proximal, 0) if case["counts"] == "renormalised" else torch.exp(proximal)
        advantage = torch.clamp(teacher - proximal, -distillation["bound"], distillation["bound"]) * share
        terms = clipped(torch.exp(current - proximal), advantage, case["clip"])
        loss = loss + distillation["weight"] * row["weight"] * terms.sum()
        leaves.append(current)
    loss.backward()
    return loss.item(), [leaf.grad.tolist() for leaf in leaves]


def candidate_cases():
    generator = numpy.random.default_rng(31)
    for counts in ("renormalised", "mass"):
        for k, drift, bound in ((1, 0.0, 1.0), (4, 0.0, 1.0), (4, 0.4, 1.0), (8, 0.4, 0.3)):
            rows = []
            for _ in range(6):
                # The most probable ones of a distribution with a rest.
                proximal = numpy.sort(numpy.log(generator.dirichlet(numpy.ones(k + 3))))[::-1][:k].copy()
                rows.append(
                    {
                        "proximal": fp32(proximal).tolist(),
                        "current": fp32(proximal + generator.normal(0, drift, k)).tolist(),
                        "teacher": fp32(proximal + generator.normal(0, 1.0, k)).tolist(),
                        "weight": float(generator.random()) / 6,
                    }
                )
            case = {
                "counts": counts,
                "clip": {"low": 0.2, "high": 0.28},
                "distillation": {"weight": 1.3, "bound": bound, "form": "sampled"},
                "rows": rows,
            }
            loss, derivatives = candidate_loss(case)
            yield {**case, "loss": loss, "d_current": derivatives}


# Files.


def files():
    drawn = steps()
    return {
        "advantage.json": {"versions": versions(), "cases": list(advantage_cases())},
        "loss.json": {"versions": versions(), "steps": drawn, "cases": list(loss_cases(drawn))},
        "candidates.json": {"versions": versions(), "cases": list(candidate_cases())},
    }


def differences(committed, made, place=""):
    if isinstance(made, dict):
        keys = made.keys() if made.keys() == committed.keys() else ["keys differ"]
        for key in keys:
            if key != "versions":
                yield from differences(committed.get(key), made.get(key), f"{place}.{key}")
    elif isinstance(made, list) and isinstance(committed, list) and len(made) == len(committed):
        for index, (left, right) in enumerate(zip(committed, made)):
            yield from differences(left, right, f"{place}[{index}]")
    elif isinstance(made, float) and isinstance(committed, float):
        if abs(made - committed) > 1e-12 * max(1.0, abs(made)):
            yield f"{place}: {committed} is committed, {made} is made"
    elif made != committed:
        yield f"{place}: {committed} is committed, {made} is made"


def text(content):
    """JSON with one case, or one sample, a line."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            lines.append(f"{json.dumps(key)}: [\n{rows}\n]")
        elif key == "steps":
            rows = ",\n".join(
                f"  {json.dumps(name)}: [\n" + ",\n".join("    " + json.dumps(row) for row in samples) + "\n  ]"
                for name, samples in value.items()
            )
            lines.append(f"{json.dumps(key)}: {{\n{rows}\n}}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    arguments = argparse.ArgumentParser(description="Reference numbers for harness/learn.")
    arguments.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    is_check = arguments.parse_args().check
    failures = []
    for name, content in files().items():
        path = FOLDER / name
        if is_check:
            committed = json.loads(path.read_text())
            failures += [f"{name}{difference}" for difference in differences(committed, content)]
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(content))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
