"""Golden numbers of an adapter: one that PEFT made and saved, and what PEFT's model says with it.

The model is that of learner.py. The first line writes policies/torch/tests/golden/adapter; the second reads an adapter that
`clawrl train` saved, with the model that it is for, and prints how far PEFT's log-probabilities are from those of the model
that the program merged (`clawrl policy merge`).

    python ci/golden/adapter.py
    python ci/golden/adapter.py ADAPTER BASE MERGED
"""

import json
import pathlib
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

HERE = pathlib.Path(__file__).resolve().parents[2]
LEARNER = HERE / "policies/torch/tests/golden/learner"
OUT = HERE / "policies/torch/tests/golden/adapter"

torch.manual_seed(20261125)
torch.set_num_threads(1)


def logprobs(model, ids):
    """Log-probability of every token but the first (T - 1)."""
    with torch.no_grad():
        logits = model(torch.tensor(ids)[None]).logits[0, :-1].double()
    return torch.log_softmax(logits, -1).gather(-1, torch.tensor(ids)[1:, None])[:, 0].tolist()


def make():
    model = AutoModelForCausalLM.from_pretrained(LEARNER, dtype=torch.float32, attn_implementation="eager")
    targets = ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]
    config = LoraConfig(r=3, lora_alpha=7, target_modules=targets, task_type="CAUSAL_LM")
    adapted = get_peft_model(model, config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    adapted.eval()
    vocabulary = model.config.vocab_size
    samples = [torch.randint(0, vocabulary, (length,)).tolist() for length in (2, 9, 24)]
    expected = [{"ids": ids, "logprobs": logprobs(adapted, ids)} for ids in samples]
    adapted.peft_config["default"].base_model_name_or_path = "../learner"
    adapted.save_pretrained(OUT)
    (OUT / "README.md").unlink(missing_ok=True)
    (OUT / "expected.json").write_text(json.dumps(expected) + "\n")


def compare(adapter, base, merged):
    load = lambda folder: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    adapted, whole, plain = PeftModel.from_pretrained(load(base), adapter).eval(), load(merged).eval(), load(base).eval()
    ids = torch.randint(0, whole.config.vocab_size, (64,)).tolist()
    theirs, ours, without = (logprobs(model, ids) for model in (adapted, whole, plain))
    apart = lambda a, b: max(abs(x - y) for x, y in zip(a, b))
    print(f"PEFT against the merged model: at most {apart(theirs, ours):.2e} nats of {len(theirs)} tokens")
    print(f"without the adapter: {apart(without, ours):.2e}")


if len(sys.argv) == 4:
    compare(*sys.argv[1:])
else:
    make()
