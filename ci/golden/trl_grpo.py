"""Golden numbers of TRL's GRPOTrainer, of the forms that it shares with ours (README.md says which).

The trainer is TRL's, and so are advantages, importance weights, log-probabilities, losses and means: it is given what was sampled, by a
`rollout_func`, and scores it and computes its loss as in a training. Where it would ask vLLM it is told that it did. Two files:

harness/learn/tests/golden/trl.json: the loss and its derivatives, with log-probabilities of our choice in place of the model's,
in fp64. In some of these the policy has moved since the batch began, so that clips bind.

policies/torch/tests/golden/learner/trl.json: the first step of the model of learner.py, and of the adapter of adapter.py on it, and
the gradients of all parameters, each as its norm and its product with a fixed wave.

    python ci/golden/trl_grpo.py
"""

import json
import logging
import os
import pathlib
import platform
import tempfile
import warnings

os.environ |= {"TRL_EXPERIMENTAL_SILENCE": "1", "WANDB_DISABLED": "true", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}

import datasets
import numpy
import peft
import tokenizers
import torch
import transformers
import trl
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parents[2]
MODEL = HERE / "policies/torch/tests/golden/learner"
ADAPTER = HERE / "policies/torch/tests/golden/adapter"
LOSSES = HERE / "harness/learn/tests/golden/trl.json"
MEMBERS = 3
# L_max of Dr.GRPO.
MOST = 64
VERSIONS = {
    "trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__, "peft": peft.__version__,
    "python": platform.python_version(),
}

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
# Trainers want one; nothing is written.
FOLDER = tempfile.TemporaryDirectory()
generator = numpy.random.default_rng(20261126)
vocabulary = {f"t{number}": number for number in range(96)}
tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="t0")),
    pad_token="t0", eos_token="t1",
)


def fp32(values):
    return numpy.asarray(values, dtype=numpy.float32).astype(numpy.float64).tolist()


# TRL.


def trainer_of(kind, model, samples, settings, temperature=1.0):
    """A trainer that samples what it is told to, whose rewards are told as well."""
    first = [sample["mask"].index(True) for sample in samples]

    def rollout(prompts, _):
        return {
            "prompt_ids": [sample["ids"][:at] for sample, at in zip(samples, first)],
            "completion_ids": [sample["ids"][at:] for sample, at in zip(samples, first)],
            "logprobs": [sample["behaviour"][at:] for sample, at in zip(samples, first)],
            "env_mask": [[int(trained) for trained in sample["mask"][at:]] for sample, at in zip(samples, first)],
        }

    is_corrected = any(key.startswith("vllm_") for key in settings)
    config = trl.GRPOConfig(
        **settings,
        output_dir=FOLDER.name,
        per_device_train_batch_size=len(samples),
        gradient_accumulation_steps=1,
        num_generations=MEMBERS,
        max_completion_length=MOST,
        temperature=temperature,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to=[],
    )
    trainer = kind(
        model=model,
        processing_class=tokenizer,
        reward_funcs=lambda completions, reward, **_: reward,
        args=config,
        train_dataset=datasets.Dataset.from_list([{"prompt": "t0"}] * len(samples)),
        rollout_func=rollout,
    )
    # What only the loop of a training sets.
    trainer.current_gradient_accumulation_steps = 1
    trainer.use_vllm, trainer._last_loaded_step = is_corrected, trainer.state.global_step
    trainer.model.train()
    return trainer


def scored(trainer, samples):
    """The batch as its loss takes it."""
    return trainer._generate_and_score_completions([{"prompt": "t0", "reward": sample["reward"]} for sample in samples])


class WithColumns(trl.GRPOTrainer):
    """Log-probabilities are those of `columns`, padded, and not those of a model."""

    def _get_per_token_logps_and_entropies(self, model, *_, **__):
        if model is self.ref_model:
            column = self.columns["reference"]
        else:
            column = self.columns["current" if torch.is_grad_enabled() else "proximal"]
        return column, torch.zeros_like(column), None


def padded(samples, name):
    """A column behind the prompts, as TRL has completions: to the right, and T of the longest (B x T)."""
    rows = [torch.tensor(sample[name][sample["mask"].index(True):], dtype=torch.float64) for sample in samples]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


# Settings of TRL, and of ours that are the same.

OFF = "off"
ON = "on"
TRUNCATED = {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": 2.0}
OF_SEQUENCE = {"vllm_importance_sampling_mode": "sequence_truncate", "vllm_importance_sampling_clip_max": 2.0}
ICEPOP = {
    "vllm_importance_sampling_mode": "token_mask",
    "vllm_importance_sampling_clip_min": 0.5,
    "vllm_importance_sampling_clip_max": 5.0,
}
DAPO = {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}
GRPO = {"loss_type": "grpo", "epsilon": 0.2}


def token(low, high, dual_clip=None):
    return {"token": {"clip": {"low": low, "high": high}, "dual_clip": dual_clip}}


def gspo(low, high):
    theirs = {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": low, "epsilon_high": high}
    return theirs, {"sequence": {"clip": {"low": low, "high": high}}}


def case(name, batch, theirs, surrogate, weighting="none", aggregation="token_mean", beta=None, estimator="k3"):
    ours = {
        "surrogate": surrogate, "weighting": weighting, "aggregation": aggregation,
        "kl": beta and {"coefficient": beta, "estimator": estimator}, "outcome_weight": 1.0, "distillation": None,
    }
    cost = {"beta": beta, "use_bias_correction_kl": estimator == "k2"} if beta else {}
    return {"name": name, "step": batch, "trl": theirs | cost, "config": ours}


EPISODES, CONSTANT = "episode_mean", {"constant": {"max_tokens": MOST}}
# A policy that sampled with the weights that are trained (`on`) needs no correction, and only then a distance costs the same. In a
# first step TRL's ratio times k3, which is not constant, has the derivative of k2: e^q - 1 - q of the ratio, and 1 - e^q of k3.
CASES = [
    case("grpo", OFF, GRPO | TRUNCATED, token(0.2, 0.2), {"token": {"cap": 2.0}}, EPISODES),
    case("dr_grpo", OFF, GRPO | TRUNCATED | {"loss_type": "dr_grpo"}, token(0.2, 0.2), {"token": {"cap": 2.0}}, CONSTANT),
    case("dapo", OFF, DAPO | TRUNCATED, token(0.2, 0.28), {"token": {"cap": 2.0}}),
    case("bnpo", OFF, DAPO | TRUNCATED | {"loss_type": "bnpo"}, token(0.2, 0.28), {"token": {"cap": 2.0}}),
    case("sequence weights", OFF, DAPO | OF_SEQUENCE, token(0.2, 0.28), {"sequence": {"cap": 2.0}}),
    case("icepop", OFF, DAPO | ICEPOP, token(0.2, 0.28), {"icepop": {"low": 0.5, "high": 5.0}}),
    case("dual clip", OFF, DAPO | {"delta": 1.5}, token(0.2, 0.28, 1.5)),
    case("gspo", OFF, *gspo(3e-4, 4e-4), "none", EPISODES),
    case("gspo, wide", OFF, *gspo(0.05, 0.08), "none", EPISODES),
    case("gspo, weights", OFF, gspo(0.05, 0.08)[0] | OF_SEQUENCE, gspo(0.05, 0.08)[1], {"sequence": {"cap": 2.0}}, EPISODES),
    case("cispo", OFF, {"loss_type": "cispo", "epsilon_high": 5.0}, {"cispo": {"cap": 5.0}}),
    case("cispo, narrow", OFF, {"loss_type": "cispo", "epsilon_high": 1.1}, {"cispo": {"cap": 1.1}}),
    case("k3", ON, DAPO, token(0.2, 0.28), beta=0.3),
    case("k3, episodes", ON, GRPO, token(0.2, 0.2), "none", EPISODES, beta=0.04),
    case("k3 of gspo", ON, *gspo(0.05, 0.08), "none", EPISODES, beta=0.3),
    case("k3 of cispo", ON, {"loss_type": "cispo", "epsilon_high": 5.0}, {"cispo": {"cap": 5.0}}, beta=0.3),
    case("k2, derivatives", ON, DAPO, token(0.2, 0.28), beta=0.3, estimator="k2"),
]
assert len({case["name"] for case in CASES}) == len(CASES)


def as_sampled(trainer, inputs, is_cispo, column):
    """Where TRL's policy has not moved since it sampled, its old policy is the one that sampled: so for CISPO, whose ratio
    is to that one."""
    if is_cispo:
        inputs["old_per_token_logps"] = column
    return inputs


# Losses.


def drawn():
    """Samples of two groups, each of one segment, and ragged; without and with a policy that sampled by itself."""
    samples = []
    for reward, length in zip([1.0, 0.0, 0.5, 0.25, 0.0, 1.0], [7, 12, 4, 9, 2, 15]):
        mask = generator.random(length) < 0.7
        mask[0], mask[-1] = False, True
        proximal = -1.0 - generator.exponential(1.2, length)
        samples.append(
            {
                "ids": generator.integers(2, 96, length).tolist(),
                "mask": mask.tolist(),
                "reward": reward,
                "proximal": fp32(proximal),
                "current": fp32(proximal + generator.normal(0, 0.3, length)),
                "behaviour": fp32(proximal + generator.normal(0, 0.6, length)),
                "reference": fp32(proximal + generator.normal(0, 0.6, length)),
            }
        )
    return {OFF: samples, ON: [{**sample, "behaviour": sample["current"]} for sample in samples]}


def loss_of(case, samples):
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    # Off by one step, so that the policy at the start of the batch is another one.
    settings = {**case["trl"], "scale_rewards": "none", "num_iterations": 2}
    trainer = trainer_of(WithColumns, model, samples, settings)
    current = padded(samples, "current").requires_grad_()
    trainer.columns = {name: padded(samples, name) for name in ("proximal", "reference")} | {"current": current}
    inputs = scored(trainer, samples)
    inputs = as_sampled(trainer, inputs, case["trl"]["loss_type"] == "cispo", padded(samples, "behaviour"))
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
    rows = []
    for sample, row in zip(samples, current.grad.tolist()):
        first = sample["mask"].index(True)
        rows.append([0.0] * first + row[: len(sample["mask"]) - first])
    return float(loss.detach()), rows, inputs["advantages"].tolist()


def advantages_of(samples, scale):
    """TRL's advantages of rewards, by group."""
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    trainer = trainer_of(trl.GRPOTrainer, model, samples, {"scale_rewards": scale})
    found = scored(trainer, samples)["advantages"].tolist()
    groups = range(0, len(samples), MEMBERS)
    rewards = [[sample["reward"] for sample in samples[at:at + MEMBERS]] for at in groups]
    kind = {"none": "dr_grpo", "group": "grpo"}[scale]
    return [
        {"kind": kind, "rewards": group, "advantages": found[at:at + MEMBERS]} for group, at in zip(rewards, groups)
    ]


def losses():
    steps, cases, bound = drawn(), [], 0
    for case in CASES:
        if case["name"] == "k2, derivatives":
            continue
        samples = steps[case["step"]]
        loss, rows, advantages = loss_of(case, samples)
        for index, (sample, advantage) in enumerate(zip(samples, advantages)):
            length = len(sample["mask"])
            sample |= {"episode": index, "advantages": [advantage] * length, "teacher": [None] * length}
            bound += sum(trained and by == 0 for trained, by in zip(sample["mask"], rows[index]))
        cases.append({**case, "loss": loss, "d_current": rows, "dropped": 0})
    assert bound > 50, "no clip binds"
    drops = ("ids", "reward")
    steps = {
        name: [{key: value for key, value in sample.items() if key not in drops} for sample in samples]
        for name, samples in steps.items()
    }
    found = [case for scale in ("none", "group") for case in advantages_of(drawn()[OFF], scale)]
    return {"made_with": VERSIONS, "advantages": found, "steps": steps, "cases": cases}


# The first step of a whole model.

TEMPERATURE = 0.7


def model_of(is_adapted):
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager")
    return peft.PeftModel.from_pretrained(model, ADAPTER, is_trainable=True) if is_adapted else model


def sampled():
    """The segments of learner.py in two groups, at one temperature, sampled by a policy that is near, or by the model itself."""
    batch = json.loads((MODEL / "batch.json").read_text())
    rewards = [1.0, 0.0, 0.5, 0.25, 0.0, 1.0]
    samples = [{"ids": sample["ids"], "mask": sample["mask"], "reward": reward}
               for sample, reward in zip(batch["samples"], rewards)]
    noise = [generator.normal(0, 0.5, len(sample["ids"])) for sample in samples]
    batches = {}
    for is_adapted in (False, True):
        model = model_of(is_adapted)
        for name in (OFF, ON):
            rows = []
            for sample, beside in zip(samples, noise):
                ids = torch.tensor(sample["ids"])
                with torch.no_grad():
                    log_softmax = torch.log_softmax(model(ids[None]).logits[0, :-1] / TEMPERATURE, -1)
                own = [0.0] + log_softmax.gather(-1, ids[1:, None])[:, 0].tolist()
                rows.append({**sample, "behaviour": fp32(numpy.array(own) + (beside if name == OFF else 0))})
            batches[name, is_adapted] = rows
    return batches


def step_of(case, samples, is_adapted):
    scale = "none" if case["trl"]["loss_type"] == "dr_grpo" else "group"
    trainer = trainer_of(trl.GRPOTrainer, model_of(is_adapted), samples, {**case["trl"], "scale_rewards": scale}, TEMPERATURE)
    if trainer.ref_model is not None:
        trainer.ref_model.load_state_dict(load_file(MODEL / "after.safetensors"), strict=False)
        trainer.ref_model.tie_weights()
    # The reference of an adapter is a copy of it, which is made to say half as much.
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            if ".lora_B.ref." in name:
                parameter.mul_(0.5)
    inputs = scored(trainer, samples)
    inputs = as_sampled(trainer, inputs, case["trl"]["loss_type"] == "cispo", inputs["sampling_per_token_logps"])
    if "ref_per_token_logps" in inputs:
        with torch.no_grad():
            both = trainer._get_per_token_logps_and_entropies(
                trainer.model, torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
                torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1), inputs["completion_ids"].shape[1],
            )
        q = (inputs["ref_per_token_logps"] - both[0]) * inputs["tool_mask"]
        assert q.abs().max() > 0.5 and (torch.exp(q) - 1 - q).max() < 10, "ours would bound it"
    trainer.model.zero_grad()
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
    gradients = {}
    for name, parameter in trainer.model.named_parameters():
        if parameter.requires_grad:
            flat = parameter.grad.double().flatten()
            wave = torch.sin(torch.arange(len(flat), dtype=torch.float64) * 0.37 + 1)
            # As the files of adapters name them.
            gradients[name.replace(".default.", ".")] = [float(flat.norm()), float(flat @ wave)]
    return float(loss.detach()), gradients, inputs["advantages"].tolist()


def steps():
    batches, cases = sampled(), []
    # What differs by its clips alone is one and the same in a first step.
    left_out = ("bnpo", "dual clip", "gspo, wide", "cispo, narrow", "k3, episodes")
    for case in CASES:
        for is_adapted in (False, True):
            if case["name"] in left_out:
                continue
            samples = batches[case["step"], is_adapted]
            loss, gradients, advantages = step_of(case, samples, is_adapted)
            loss = None if case["name"] == "k2, derivatives" else loss
            cases.append(
                {
                    "name": case["name"], "batch": case["step"], "adapted": is_adapted, "trl": case["trl"], "config": case["config"],
                    "advantages": advantages, "loss": loss, "gradients": gradients,
                }
            )
    samples = [{"ids": sample["ids"], "mask": sample["mask"]} for sample in batches[OFF, False]]
    behaviour = [
        {"batch": name, "adapted": is_adapted, "behaviour": [sample["behaviour"] for sample in rows]}
        for (name, is_adapted), rows in batches.items()
    ]
    return {
        "made_with": VERSIONS, "temperature": TEMPERATURE, "samples": samples, "batches": behaviour, "cases": cases,
    }


# Files.


def text(made):
    lines = []
    for key, value in made.items():
        if isinstance(value, list):
            value = "[\n" + ",\n".join("  " + json.dumps(row) for row in value) + "\n]"
        else:
            value = json.dumps(value)
        lines.append(f"{json.dumps(key)}: {value}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


LOSSES.write_text(text(losses()))
(MODEL / "trl.json").write_text(text(steps()))
