"""Trains with the GRPOTrainer of TRL.

Argument: the model's folder. Prints the versions once it has loaded. Then one JSON object a line: the settings of
`trained`. Answers with `wall_s`, from the beginning of training to its end without what comes before and after, and
with `tokens`, those of all completions. Every training begins with the weights in the folder.
"""

import json
import logging
import os
import sys
import tempfile
import time

import datasets
import torch
import transformers
import trl


class Clock(transformers.TrainerCallback):
    def on_train_begin(self, *_, **__):
        self.begun = time.perf_counter()

    def on_train_end(self, *_, **__):
        self.wall = time.perf_counter() - self.begun


def vowels(text):
    return sum(letter in "aeiou" for letter in text) / max(len(text), 1)


def trained(folder, prompts, groups, members, updates, new_tokens, learning_rate, threads, seed):
    torch.set_num_threads(threads)
    tokens = 0

    def reward(completions, completion_ids, **_):
        nonlocal tokens
        tokens += sum(map(len, completion_ids))
        return [vowels(completion[0]["content"]) for completion in completions]

    rows = [{"prompt": [{"role": "user", "content": prompt}]} for prompt in prompts]
    clock = Clock()
    with tempfile.TemporaryDirectory() as output:
        config = trl.GRPOConfig(
            output_dir=output,
            # One batch is one generation and one optimizer step, in one forward pass: the least that TRL takes.
            per_device_train_batch_size=groups * members,
            gradient_accumulation_steps=1,
            num_generations=members,
            num_iterations=1,
            max_steps=updates,
            max_completion_length=new_tokens,
            temperature=1.0,
            beta=0.0,
            learning_rate=learning_rate,
            lr_scheduler_type="constant",
            adam_beta1=0.9,
            adam_beta2=0.99,
            weight_decay=0.0,
            max_grad_norm=1.0,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            seed=seed,
            shuffle_dataset=False,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
        )
        trainer = trl.GRPOTrainer(
            model=transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
            processing_class=transformers.AutoTokenizer.from_pretrained(folder),
            reward_funcs=reward,
            args=config,
            train_dataset=datasets.Dataset.from_list(rows),
            callbacks=[clock],
        )
        # Whatever the trainer prints is not an answer.
        stdout, sys.stdout = sys.stdout, sys.stderr
        try:
            trainer.train()
        finally:
            sys.stdout = stdout
    return {"wall_s": clock.wall, "tokens": tokens}


def main():
    folder = sys.argv[1]
    versions = f"trl {trl.__version__}, transformers {transformers.__version__}, torch {torch.__version__}"
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        print(json.dumps(trained(folder, **json.loads(line))), flush=True)


os.environ["WANDB_DISABLED"] = "true"
logging.disable(logging.WARNING)
main()
