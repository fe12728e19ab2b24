"""Makes a tiny language model and serves it with the server of llama.cpp, until standard input ends.

The model is a chain: what comes next depends on the last token alone. After the token that begins a reply it says
`ls`, `pwd` or `submit`, then it ends. So its replies are sampled, and make an attempt of several turns that ends.
Prints the base URL of the server in one line.

    serve.py FOLDER
"""

import math
import sys
from pathlib import Path

import gguf
import numpy
import xllamacpp

REPLY, END = "<|reply|>", "<|end|>"
# The chances of each reply.
REPLIES = {"ls": 0.35, "pwd": 0.15, "submit": 0.5}
WIDTH, HEADS, INNER, CONTEXT = 320, 5, 32, 8192
EPSILON = 1e-6
TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}" + REPLY + "{% endif %}"
)


def vocabulary():
    """Texts, scores and kinds of the tokens: bytes, so that every text has tokens, and the replies."""
    kinds = gguf.TokenType
    tokens = [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), (END, kinds.CONTROL), (REPLY, kinds.CONTROL)]
    tokens += [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    tokens += [(text, kinds.NORMAL) for text in REPLIES]
    return [text for text, _ in tokens], [kind for _, kind in tokens]


def write_model(path):
    """A llama of one layer that adds nothing, so that only embedding and output matter."""
    texts, kinds = vocabulary()
    size = len(texts)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny-chain")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(size)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text.encode() for text in texts])
    writer.add_token_scores([0.0] * size)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(texts.index("<s>"))
    writer.add_eos_token_id(texts.index(END))
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)

    # Each token has a direction of its own; the norm before the output makes it this long.
    length = math.sqrt(WIDTH / (1 + WIDTH * EPSILON))
    output = numpy.full((size, WIDTH), -20 / length, dtype=numpy.float32)
    for last in range(size):
        output[texts.index(END), last] = 0
    for text, chance in REPLIES.items():
        output[texts.index(text), texts.index(REPLY)] = math.log(chance) / length
    output[texts.index(END), texts.index(REPLY)] = -20 / length
    zeros = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (WIDTH, WIDTH),
        "attn_v": (WIDTH, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (INNER, WIDTH),
        "ffn_up": (INNER, WIDTH),
        "ffn_down": (WIDTH, INNER),
    }
    tensors = {"token_embd": numpy.eye(size, WIDTH), "output": output, "output_norm": numpy.ones(WIDTH)}
    tensors |= {f"blk.0.{name}": numpy.zeros(shape) for name, shape in zeros.items()}
    tensors |= {f"blk.0.{name}": numpy.ones(WIDTH) for name in ("attn_norm", "ffn_norm")}
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "tiny-chain.gguf"
    write_model(model)
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"tiny-chain"}
    params.n_ctx = CONTEXT * 8
    params.n_parallel = 8
    params.n_gpu_layers = 0
    params.use_jinja = True
    # Loopback, on a port of its own, is where it listens unless told otherwise.
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
