"""Golden ids of a tokenizer trained here and of conversations under two chat templates, by Hugging Face transformers.

Reads policies/torch/tests/golden/tokenizer/: tokenizer.json, which is what `train_tokenizer` makes of corpus.txt (the
test that compares them writes a fresh one when they differ), and elaborate.jinja. Writes cases.json there.
Run: python ci/golden/tokenizer.py
"""

import json
import pathlib

import tokenizers
import transformers
from transformers import PreTrainedTokenizerFast

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "policies/torch/tests/golden/tokenizer"
DEFAULT = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ELABORATE = (FOLDER / "elaborate.jinja").read_text()

TEXTS = [
    "Write the word apple into pear.txt",
    "  cat\tapple.txt|wc -l\r\n\n",
    "größe grösse GRÖSSE e\u0301 漢字 🦀🏽 \u00a0 \u200d",
    "\x1b[31mred\x1b[0m \x00\x07\x7f",
    "apple2pear_12.5e-3 unknown Apple APPLE",
    "<|end|><|user|>apple<|assistant|><|x|>",
]
CHATS = [
    [("user", "Write the word apple into pear.txt")],
    [("user", " keep\n"), ("assistant", "cat pear.txt"), ("user", "plum\n[exit 0]\n")],
    [("system", "\n be brief "), ("user", "x"), ("assistant", "ls"), ("tool", " [exit 1] "), ("user", "é漢")],
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "run",
            "description": "Run \"it\" <now> & für alle",
            "parameters": {"properties": {"command": {"type": "string"}}, "required": ["command"], "type": "object"},
        },
    }
]

tokenizer = PreTrainedTokenizerFast(
    tokenizer_file=str(FOLDER / "tokenizer.json"),
    eos_token="<|end|>",
    pad_token="<|endoftext|>",
    clean_up_tokenization_spaces=False,
)


def ids(text, content):
    found = tokenizer(text, add_special_tokens=False, split_special_tokens=content)["input_ids"]
    assert tokenizer.decode(found, skip_special_tokens=False) == text, text
    return found


def chat(turns, template, tools):
    messages = [{"role": role, "content": content} for role, content in turns]
    text = tokenizer.apply_chat_template(
        messages, tools=tools, chat_template=template, add_generation_prompt=True, tokenize=False
    )
    return {"messages": turns, "tools": bool(tools), "text": text, "ids": ids(text, content=False)}


cases = {
    "versions": {"tokenizers": tokenizers.__version__, "transformers": transformers.__version__},
    "texts": [{"text": text, "content": ids(text, True), "markup": ids(text, False)} for text in TEXTS],
    "default": [chat(turns, DEFAULT, None) for turns in CHATS],
    "elaborate": [chat(turns, ELABORATE, tools) for turns in CHATS for tools in (None, TOOLS)],
    "tools": TOOLS,
}
(FOLDER / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
