"""Golden numbers of one step of every objective: Qwen3 of transformers and autograd of PyTorch, from the files of learner.py.

The parameters are those of learner.py; the reference and the frozen teacher are its parameters after one step of many times
the size. Every loss is written here a second time, in torch, over whole rows of logits. Of each gradient two numbers are kept:
its norm, and its product with a fixed wave, which no two gradients share.

    python ci/golden/objectives.py      # writes policies/torch/tests/golden/learner/objectives.json
"""

import json
import pathlib
import platform
from fractions import Fraction

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

from baseline import baseline

HERE = pathlib.Path(__file__).resolve().parents[2]
OUT = HERE / "policies/torch/tests/golden/learner"

torch.manual_seed(20260302)
torch.set_num_threads(1)

shape = json.loads((OUT / "config.json").read_text())
config = Qwen3Config(**{key: value for key, value in shape.items() if key not in ("architectures", "dtype")},
                     use_sliding_window=False, attention_bias=False, attn_implementation="eager")


def model_of(tensors):
    model = Qwen3ForCausalLM(config).float()
    model.load_state_dict(tensors, strict=False)
    model.tie_weights()
    return model


start = load_file(OUT / "model.safetensors")
after = load_file(OUT / "after.safetensors")
elsewhere = {name: start[name] + 60 * (after[name] - start[name]) for name in start}
student, reference = model_of(start), model_of(elsewhere)
batch = json.loads((OUT / "batch.json").read_text())


def rows(model, ids, temperature):
    """Log-probabilities (T x V) of every next token; row t predicts token t, row 0 is of nothing."""
    logits = model(torch.tensor(ids)[None]).logits[0, :-1].float() / temperature
    log_softmax = torch.log_softmax(logits, -1)
    return torch.cat([log_softmax.new_zeros(1, log_softmax.shape[1]), log_softmax])


def hinted(sample, hint):
    """The sample's tokens with a hint behind the first, and where its own tokens are in it."""
    places = [place + len(hint) for place in range(len(sample["ids"]))]
    return sample["ids"][:1] + hint + sample["ids"][1:], places


samples = []
for index, sample in enumerate(batch["samples"]):
    length = len(sample["ids"])
    # The second view of a sample is longer and asks about the last two tokens alone. Sample 3 is not asked about.
    hints = [torch.randint(0, 96, (size,)).tolist() for size in (3 + index, 6 + index)]
    views = []
    if index != 3:
        ids, places = hinted(sample, hints[0])
        first = 2 if index == 1 else 1
        views.append({"ids": ids, "places": [[places[at], at] for at in range(first, length) if sample["mask"][at]]})
        ids, places = hinted(sample, hints[1])
        views.append(
            {"ids": ids, "places": [[places[at], at] for at in range(max(1, length - 2), length) if sample["mask"][at]]}
        )
    samples.append({**sample, "views": views})


def chosen(log_softmax, ids):
    return log_softmax.gather(-1, torch.tensor(ids)[:, None])[:, 0]


def surrogate(kind, new, old, behaviour, advantage):
    if kind == "token":
        ratio = torch.exp(new - old)
        return torch.maximum(-ratio * advantage, -ratio.clamp(0.8, 1.28) * advantage)
    if kind == "sequence":
        ratio = torch.exp((new - old).mean())
        if bool((advantage == advantage[0]).all()):
            return torch.maximum(-ratio * advantage, -ratio.clamp(1 - 3e-4, 1 + 4e-4) * advantage)
        raise ValueError("one advantage for a segment")
    if kind == "cispo":
        return -torch.exp(new - behaviour).clamp(max=5.0).detach() * advantage * new
    raise ValueError(kind)


def importance(kind, gap):
    """Of trained tokens, from o - b."""
    if kind is None:
        return torch.ones_like(gap)
    if kind == "geometric":
        gap = gap.mean().expand_as(gap)
    elif kind == "sequence":
        gap = gap.sum().expand_as(gap)
    ratio = torch.exp(gap)
    return ratio * ((ratio >= 0.5) & (ratio <= 5)) if kind == "icepop" else ratio.clamp(max=2.0)


def step(objective):
    """Loss of the whole batch as one step, and gradients."""
    teacher = {"frozen": reference, "current": student, None: None}[objective.get("teacher")]
    trained = [sum(sample["mask"]) for sample in samples]
    student.zero_grad()
    loss = torch.zeros(())
    for index, (sample, count) in enumerate(zip(samples, trained)):
        mask = torch.tensor(sample["mask"])
        behaviour = torch.tensor(sample["behaviour"])
        new_rows = rows(student, sample["ids"], sample["temperature"])
        new = chosen(new_rows, sample["ids"])
        old_rows, old = new_rows.detach(), new.detach()
        outcome = objective.get("advantages", [sample["advantage"] for sample in samples])[index]
        advantage = objective["outcome_weight"] * torch.full_like(new, outcome)
        candidates = torch.zeros_like(new)
        with torch.no_grad():
            said = [rows(teacher, view["ids"], sample["temperature"]) if teacher else None for view in sample["views"]]
        if objective.get("form") == "sampled":
            for view, log_softmax in reversed(list(zip(sample["views"], said))):
                for place, at in view["places"]:
                    difference = (log_softmax[place, sample["ids"][at]] - old[at]).clamp(-1, 1)
                    advantage[at] = objective["outcome_weight"] * outcome + objective["weight"] * difference
        if objective.get("form") == "top_k":
            for at in range(1, len(new)):
                asking = [
                    (log_softmax[place], view)
                    for view, log_softmax in zip(sample["views"], said)
                    for place, where in view["places"]
                    if where == at
                ]
                if not asking or not sample["mask"][at]:
                    continue
                ids = old_rows[at].topk(objective["k"]).indices
                overlap = [len(set(row.topk(objective["k"]).indices.tolist()) & set(ids.tolist())) for row, _ in asking]
                row = asking[overlap.index(max(overlap))][0]
                o, n = old_rows[at][ids], new_rows[at][ids]
                share = torch.softmax(o, 0) if objective["counts"] == "renormalised" else torch.exp(o)
                gain = (row[ids] - o).clamp(-1, 1) * share
                ratio = torch.exp(n - o)
                terms = torch.maximum(-gain * ratio, -gain * ratio.clamp(0.8, 1.28))
                candidates[at] = objective["weight"] * terms.sum()
        terms = torch.zeros_like(new)
        weight = importance(objective["weighting"], (old - behaviour)[mask])
        terms[mask] = weight * surrogate(objective["surrogate"], new[mask], old[mask], behaviour[mask], advantage[mask])
        if objective.get("kl"):
            with torch.no_grad():
                by_reference = chosen(rows(reference, sample["ids"], sample["temperature"]), sample["ids"])
            q = (by_reference - new).clamp(-20, 20)
            term = {"k3": (torch.exp(q) - 1 - q).clamp(max=10.0), "k2": q * q / 2}[objective["kl"]]
            terms = terms + 0.3 * torch.exp(new - behaviour).clamp(max=2.0).detach() * term
        terms = terms + candidates
        if objective["aggregation"] == "token_mean":
            share = 1 / sum(trained)
        elif objective["aggregation"] == "episode_mean":
            share = 1 / (count * len(samples))
        else:
            share = 1 / (objective["aggregation"]["constant"]["max_tokens"] * len(samples))
        loss = loss + (terms * mask).sum() * share
    loss.backward()
    gradients = {}
    for name, parameter in student.named_parameters():
        flat = parameter.grad.double().flatten()
        wave = torch.sin(torch.arange(len(flat), dtype=torch.float64) * 0.37 + 1)
        gradients[name] = [float(flat.norm()), float(flat @ wave)]
    return float(loss.detach()), gradients


# Of the samples, the first three of which are a group, and what was earned at the tasks of both families before.
rewards = [Fraction(reward) for reward in (1, -1, 0, 1, 0.5, -1)]
families = [0, 0, 0, 1, 1, 1]
earned = {0: [Fraction(reward) for reward in (1, 1, 0.5, -1)], 1: [Fraction(-1)]}
less_the_mean = [float(reward - sum(rewards[at // 3 * 3:][:3]) / 3) for at, reward in enumerate(rewards)]
less_the_baseline = [float(reward - baseline(earned[family])) for reward, family in zip(rewards, families)]

plain = {"surrogate": "token", "weighting": "token", "aggregation": "token_mean", "outcome_weight": 1.0}
objectives = {
    "dapo": plain,
    "grpo": {**plain, "aggregation": "episode_mean"},
    "dr_grpo": {**plain, "aggregation": {"constant": {"max_tokens": 40}}, "advantages": less_the_mean},
    "gspo": {**plain, "surrogate": "sequence", "weighting": "geometric", "aggregation": "episode_mean"},
    "cispo": {**plain, "surrogate": "cispo", "weighting": None},
    "binary": {**plain, "advantages": less_the_baseline},
    "sequence": {**plain, "weighting": "sequence"},
    "icepop": {**plain, "weighting": "icepop"},
    "k3": {**plain, "kl": "k3"},
    "k2": {**plain, "kl": "k2"},
    "opd": {**plain, "teacher": "frozen", "form": "sampled", "weight": 1.0, "outcome_weight": 0.0},
    "opd-current": {**plain, "teacher": "current", "form": "sampled", "weight": 1.0, "outcome_weight": 0.0},
    "opd-topk": {
        **plain, "teacher": "frozen", "form": "top_k", "k": 4, "counts": "renormalised", "weight": 1.0, "outcome_weight": 0.0,
    },
    "combined": {**plain, "teacher": "current", "form": "sampled", "weight": 0.5},
    "combined-topk": {**plain, "teacher": "current", "form": "top_k", "k": 6, "counts": "mass", "weight": 0.5},
}

cases = []
for name, objective in objectives.items():
    loss, gradients = step(objective)
    cases.append({"name": name, "objective": objective, "loss": loss, "gradients": gradients})
save_file({name: tensor.contiguous() for name, tensor in elsewhere.items()}, OUT / "reference.safetensors", {"format": "pt"})
lines = ",\n".join("  " + json.dumps(case) for case in cases)
views = json.dumps([sample["views"] for sample in samples])
made = json.dumps(
    {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()}
)
(OUT / "objectives.json").write_text(f'{{\n"made_with": {made},\n"views": {views},\n"cases": [\n{lines}\n]\n}}\n')
