"""Whole optimizer steps of a policy-gradient loss on a GPU with transformers, PyTorch autograd and, for an adapter, peft.

Prints the versions. Then it reads one JSON object per line: `folder` of the model, folder of an `adapter` or null, `samples`, each
with `ids`, the index `first` of the first trained token and an `advantage`, the tokens per `micro_batch`, the number of `rounds`
after a warm-up step, and the `learning_rate`. It answers with `wall_s` of each round, `grad_norms` of all steps, and `peak_mib`,
the peak GPU memory of tensors.

Passes use autocast to bf16 over fp32 parameters, gradients and moments; with an adapter the model's own weights are bf16. Every
layer is recomputed in the backward pass. The loss is the mean over the trained tokens of -A times the probability ratio, which
is 1.
"""

import gc
import json
import sys
import time

import torch
import transformers

GPU = torch.device("cuda")


def loaded(work):
    dtype = torch.bfloat16 if work["adapter"] else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(work["folder"], dtype=dtype, attn_implementation="sdpa").to(GPU)
    if work["adapter"]:
        import peft

        model.enable_input_require_grads()
        model = peft.PeftModel.from_pretrained(model, work["adapter"], is_trainable=True)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def micro_batches(samples, most):
    batch, tokens = [], 0
    for sample in samples:
        if batch and tokens + len(sample["ids"]) > most:
            yield batch
            batch, tokens = [], 0
        batch.append(sample)
        tokens += len(sample["ids"])
    yield batch


def descend(model, samples, of_step):
    longest = max(len(sample["ids"]) for sample in samples)
    ids = torch.zeros((len(samples), longest), dtype=torch.long)
    attention, trained = torch.zeros_like(ids), torch.zeros((len(samples), longest))
    for row, sample in enumerate(samples):
        length = len(sample["ids"])
        ids[row, :length] = torch.tensor(sample["ids"])
        attention[row, :length] = 1
        trained[row, sample["first"] : length] = 1
    ids, trained = ids.to(GPU), trained.to(GPU)
    # Without padding no mask is needed, and attention uses the faster kernel.
    attention = None if attention.all() else attention.to(GPU)
    advantages = torch.tensor([sample["advantage"] for sample in samples], device=GPU)
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(input_ids=ids, attention_mask=attention, use_cache=False).logits[:, :-1]
    new = torch.log_softmax(logits.float(), -1).gather(-1, ids[:, 1:, None])[..., 0]
    ratio = torch.exp(new - new.detach())
    gain = torch.minimum(ratio * advantages[:, None], ratio.clamp(0.8, 1.28) * advantages[:, None])
    (-(gain * trained[:, 1:]).sum() / of_step).backward()


def steps(work):
    torch.cuda.reset_peak_memory_stats()
    model = loaded(work)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=work["learning_rate"], betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0, fused=True)
    samples = work["samples"]
    of_step = sum(len(sample["ids"]) - sample["first"] for sample in samples)
    walls, norms = [], []
    for _ in range(work["rounds"] + 1):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for batch in micro_batches(samples, work["micro_batch"]):
            descend(model, batch, of_step)
        norms.append(torch.nn.utils.clip_grad_norm_(learned, 1.0).item())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        walls.append(time.perf_counter() - begun)
    return {"wall_s": walls[1:], "grad_norms": norms, "peak_mib": torch.cuda.max_memory_allocated() / 2**20}


def main():
    versions = f"transformers {transformers.__version__}, torch {torch.__version__}, {torch.cuda.get_device_name()}"
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        done = steps(json.loads(line))
        # Frees the GPU for the other side.
        gc.collect()
        torch.cuda.empty_cache()
        print(json.dumps(done), flush=True)


main()
