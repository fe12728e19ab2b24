"""Loss and gradients of a policy-gradient step with transformers and PyTorch autograd, eager.

Prints the versions. Then it reads one JSON object per line: `folder` of the model, `device`, `threads`, and `samples`, each with
`ids`, the index `first` of the first trained token and an `advantage`. It answers with `wall_s`, `loss`, the gradient norm, and
the peak memory of the step in MiB.

The samples form one batch, padded on the right. The loss is the mean over trained tokens of -A times the probability ratio, which
is 1 in the first step.
"""

import json
import sys
import time

import torch
import transformers

MODELS = {}


def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key + ":"))


def model_of(folder, device):
    if folder not in MODELS:
        MODELS.clear()
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        MODELS[folder] = model.to(device).train()
    return MODELS[folder]


def memory_begins(device):
    """Current memory; resets the peak that `memory_at_most` reports."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 2**20
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    return status("VmRSS")


def memory_at_most(device):
    return torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else status("VmHWM")


def step(model, samples):
    longest = max(len(sample["ids"]) for sample in samples)
    ids = torch.zeros((len(samples), longest), dtype=torch.long)
    attention, trained = torch.zeros_like(ids), torch.zeros((len(samples), longest))
    advantages = torch.tensor([sample["advantage"] for sample in samples])
    for row, sample in enumerate(samples):
        length = len(sample["ids"])
        ids[row, :length] = torch.tensor(sample["ids"])
        attention[row, :length] = 1
        trained[row, sample["first"] : length] = 1
    ids, attention, trained, advantages = (x.to(model.device) for x in (ids, attention, trained, advantages))
    logits = model(input_ids=ids, attention_mask=attention).logits[:, :-1]
    new = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
    ratio = torch.exp(new - new.detach())
    gain = torch.minimum(ratio * advantages[:, None], ratio.clamp(0.8, 1.28) * advantages[:, None])
    loss = -(gain * trained[:, 1:]).sum() / trained[:, 1:].sum()
    loss.backward()
    return loss.item()


def main():
    print(json.dumps(f"transformers {transformers.__version__}, torch {torch.__version__}"), flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        device = work["device"]
        if work["threads"]:
            torch.set_num_threads(work["threads"])
        model = model_of(work["folder"], device)
        model.zero_grad(set_to_none=True)
        before = memory_begins(device)
        begun = time.perf_counter()
        loss = step(model, work["samples"])
        if device == "cuda":
            torch.cuda.synchronize()
        wall = time.perf_counter() - begun
        squares = sum(parameter.grad.double().square().sum().item() for parameter in model.parameters())
        done = {"wall_s": wall, "loss": loss, "grad_norm": squares**0.5, "peak_mib": memory_at_most(device) - before}
        print(json.dumps(done), flush=True)


main()
