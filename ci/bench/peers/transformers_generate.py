"""Continues prompts with `generate` of transformers.

Argument: the model's folder. Prints the versions after loading. Then it reads one JSON object per line: `threads`, `batch`, and
`requests` as pairs of prompt and number of new tokens. It answers with `wall_s` and the new tokens of each request.

A batch holds the next `batch` requests, padded on the left, and continues until the longest reply is complete, because `generate`
has no other mode. Surplus tokens of shorter replies are cut and not counted.
"""

import json
import sys
import time

import torch
import transformers

PAD = 0


def continued(model, requests):
    longest = max(len(prompt) for prompt, _ in requests)
    new = max(new for _, new in requests)
    ids = torch.full((len(requests), longest), PAD)
    mask = torch.zeros_like(ids)
    for row, (prompt, _) in enumerate(requests):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    replies = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=new, do_sample=False)
    return [reply[longest : longest + new].tolist() for reply, (_, new) in zip(replies, requests, strict=True)]


def main():
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    # Only the number of tokens ends a reply.
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = PAD
    print(json.dumps(f"transformers {transformers.__version__}, torch {torch.__version__}"), flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        torch.set_num_threads(work["threads"])
        requests, batch = work["requests"], work["batch"]
        replies = []
        begun = time.perf_counter()
        with torch.inference_mode():
            for start in range(0, len(requests), batch):
                replies += continued(model, requests[start : start + batch])
        wall = time.perf_counter() - begun
        print(json.dumps({"wall_s": wall, "replies": replies}), flush=True)


main()
