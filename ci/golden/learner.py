"""Golden numbers of one learner update: Qwen3 of transformers, autograd and AdamW of PyTorch.

Writes policies/torch/tests/golden/learner/: the model's folder, the batch with its loss (batch.json), the gradients of
all parameters and the parameters after one step. Run: python ci/golden/learner.py
"""

import json
import pathlib
import platform

import torch
import transformers
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

HERE = pathlib.Path(__file__).resolve().parents[2]
OUT = HERE / "policies/torch/tests/golden/learner"
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}
MAX_GRAD_NORM = 0.5
CAP = 2.0

torch.manual_seed(20260301)
torch.set_num_threads(1)

config = Qwen3Config(
    vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=128, rope_theta=10000.0, rms_norm_eps=1e-6,
    tie_word_embeddings=True, attention_bias=False, use_sliding_window=False, attn_implementation="eager",
    eos_token_id=1,
)
model = Qwen3ForCausalLM(config).float()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
        else:
            parameter.copy_(0.15 * torch.randn_like(parameter))

# Segments of different lengths; one sample has a prompt, a reply, an observation and a reply.
samples = []
for length, temperature in [(7, 1.0), (23, 0.7), (23, 1.0), (40, 1.3), (12, 1.0), (2, 1.0)]:
    ids = torch.randint(0, 96, (length,))
    mask = torch.rand(length) < 0.6
    mask[0] = False
    mask[-1] = True
    samples.append({"ids": ids, "mask": mask, "temperature": temperature, "advantage": float(torch.randn(()))})


def logprobs(sample):
    logits = model(sample["ids"][None]).logits[0, :-1].float() / sample["temperature"]
    chosen = torch.log_softmax(logits, -1).gather(-1, sample["ids"][1:, None])[:, 0]
    return torch.cat([chosen.new_zeros(1), chosen])


with torch.no_grad():
    for sample in samples:
        sample["behaviour"] = logprobs(sample) + 0.5 * torch.randn(len(sample["ids"]))

denominator = sum(int(sample["mask"].sum()) for sample in samples)
loss = 0.0
for sample in samples:
    new = logprobs(sample)
    old = new.detach()
    weight = torch.clamp(torch.exp(old - sample["behaviour"]), max=CAP)
    surrogate = -torch.exp(new - old) * sample["advantage"]
    loss = loss + (sample["mask"] * weight * surrogate).sum() / denominator
loss.backward()

imitation = sum(-(sample["mask"] * logprobs(sample)).sum() for sample in samples) / denominator

OUT.mkdir(parents=True, exist_ok=True)
model.config.dtype = torch.float32
raw = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
norm = torch.sqrt(sum((gradient.double() ** 2).sum() for gradient in gradients.values()))

matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
optimizer = torch.optim.AdamW(
    [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], **ADAMW
)
torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
optimizer.step()
after = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

save_file(raw, OUT / "model.safetensors", {"format": "pt"})
save_file(gradients, OUT / "gradients.safetensors", {"format": "pt"})
save_file(after, OUT / "after.safetensors", {"format": "pt"})
fields = [
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings",
    "hidden_act", "initializer_range", "eos_token_id",
]
shape = {name: getattr(config, name) for name in fields}
shape |= {"architectures": ["Qwen3ForCausalLM"], "rope_theta": 10000.0, "dtype": "float32"}
(OUT / "config.json").write_text(json.dumps(shape, indent=2) + "\n")
batch = {
    "made_with": {
        "torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version(),
    },
    "cap": CAP,
    "max_grad_norm": MAX_GRAD_NORM,
    "adamw": {"learning_rate": ADAMW["lr"], "beta1": 0.9, "beta2": 0.98, "epsilon": 1e-8, "weight_decay": 0.1},
    "loss": float(loss.detach()),
    "imitation_loss": float(imitation.detach()),
    "grad_norm": float(norm),
    "samples": [
        {
            "ids": sample["ids"].tolist(),
            "mask": sample["mask"].tolist(),
            "behaviour": [float(value) for value in sample["behaviour"]],
            "temperature": sample["temperature"],
            "advantage": sample["advantage"],
        }
        for sample in samples
    ],
}
(OUT / "batch.json").write_text(json.dumps(batch) + "\n")
