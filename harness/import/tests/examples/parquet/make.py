"""Makes the Parquet files of this folder, and the JSON lines that have the same rows: python3 make.py"""

import datetime
import decimal
import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

HERE = Path(__file__).parent


def lines(name, rows):
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (HERE / f"{name}.jsonl").write_text(text)


def examples(name):
    return [json.loads(line) for line in (HERE.parent / "swe" / name).read_text().splitlines()]


def listed(names):
    return json.loads(names) if isinstance(names, str) else names


# Rows as SWE-bench has them: every column a text, lists of names as JSON in a text.
rows = []
for number in range(24):
    row = dict(examples("bench.jsonl")[0 if number % 3 else 1])
    row["instance_id"] += f"{number:02}"
    row["problem_statement"] = f"Issue {number}: ß, 漢字 and 🖊.\n" * (1 + number % 5)
    row["hints_text"] = None if number % 4 == 0 else row["hints_text"]
    row["FAIL_TO_PASS"] = json.dumps(listed(row["FAIL_TO_PASS"]))
    row["PASS_TO_PASS"] = json.dumps([f"tests/test_a.py::test_{n}" for n in range(number)])
    rows.append(row)
lines("texts", rows)
table = pa.Table.from_pylist(rows)
pq.write_table(table, HERE / "texts-snappy.parquet", compression="snappy", row_group_size=10)
pq.write_table(table, HERE / "texts-zstd.parquet", compression="zstd", row_group_size=7, use_dictionary=False)
pq.write_table(table, HERE / "texts-none.parquet", compression="none", version="1.0", data_page_size=64)

# Rows as SWE-rebench has them: lists, and objects with lists; some of them null or empty.
rows = []
for number in range(24):
    row = dict(examples("rebench.jsonl")[0])
    row["instance_id"] = f"ink__pen-{number:02}"
    row["FAIL_TO_PASS"] = [f"tests/test_nib.py::test_a{n}" for n in range(1 + number % 3)]
    row["PASS_TO_PASS"] = [f"tests/test_nib.py::test_{n}" for n in range((number * 7) % 41)]
    row["install_config"] = {
        "test_cmd": None if number % 5 == 4 else "pytest -rA",
        "log_parser": "parse_log_pytest",
        "packages": None if number % 2 else ["nib", "", None][: number % 4],
        "steps": [{"run": "make", "with": ["a", "b"][:n]} for n in range(number % 3)],
    }
    row["install_config"] = None if number % 7 == 6 else row["install_config"]
    row["test_cmd"] = "pytest -rA"
    row["meta"] = {"is_lite": number % 2 == 0, "commit_name": None, "num_modified_files": number}
    rows.append(row)
lines("lists", rows)
table = pa.Table.from_pylist(rows)
pq.write_table(table, HERE / "lists-snappy.parquet", compression="snappy", row_group_size=9)
pq.write_table(
    table, HERE / "lists-zstd.parquet", compression="zstd", data_page_version="2.0", data_page_size=64, write_batch_size=4
)

# Every kind of value, and what it is in JSON.
utc = datetime.timezone.utc
noon = datetime.datetime(2024, 2, 29, 12, 0, 0, 250_000)
tag = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
kinds = [
    ("truth", pa.bool_(), True, True),
    ("int8", pa.int8(), -7, -7),
    ("uint8", pa.uint8(), 200, 200),
    ("int16", pa.int16(), -300, -300),
    ("uint32", pa.uint32(), 2**32 - 1, 2**32 - 1),
    ("int64", pa.int64(), -(2**63), -(2**63)),
    ("uint64", pa.uint64(), 2**64 - 1, 2**64 - 1),
    ("float", pa.float32(), 0.5, 0.5),
    ("double", pa.float64(), 0.1, 0.1),
    ("nan", pa.float64(), float("nan"), None),
    ("text", pa.string(), "é\n", "é\n"),
    ("large_text", pa.large_string(), "x", "x"),
    ("view", pa.string_view(), "y", "y"),
    ("bytes", pa.binary(), b"plain", "plain"),
    ("fixed", pa.binary(3), b"abc", "abc"),
    ("category", pa.dictionary(pa.int8(), pa.string()), "red", "red"),
    ("nothing", pa.null(), None, None),
    ("decimal", pa.decimal128(20, 3), decimal.Decimal("-1.005"), "-1.005"),
    ("day", pa.date32(), noon.date(), "2024-02-29"),
    ("time_ms", pa.time32("ms"), noon.time(), "12:00:00.25"),
    ("time_us", pa.time64("us"), noon.time(), "12:00:00.25"),
    ("at_ms", pa.timestamp("ms"), noon, "2024-02-29T12:00:00.25"),
    ("at_us_utc", pa.timestamp("us", "UTC"), noon.replace(tzinfo=utc), "2024-02-29T12:00:00.25Z"),
    ("at_ns", pa.timestamp("ns"), noon, "2024-02-29T12:00:00.25"),
    ("uuid", pa.uuid(), tag.bytes, str(tag)),
    ("list", pa.list_(pa.int32()), [1, None, 3], [1, None, 3]),
    ("empty", pa.list_(pa.string()), [], []),
    ("lists", pa.list_(pa.list_(pa.string())), [["a"], [], None, ["b", "c"]], [["a"], [], None, ["b", "c"]]),
    ("fixed_list", pa.list_(pa.int8(), 2), [1, 2], [1, 2]),
    ("object", pa.struct({"a": pa.int8(), "b": pa.list_(pa.string())}), {"a": None, "b": ["z"]}, {"a": None, "b": ["z"]}),
    ("objects", pa.list_(pa.struct({"a": pa.string()})), [{"a": "1"}, None], [{"a": "1"}, None]),
]
lines("kinds", [{name: said for name, _, _, said in kinds}, {name: None for name, *_ in kinds}])
table = pa.table({name: pa.array([value, None], kind) for name, kind, value, _ in kinds})
# Without the schema of Arrow, which nothing here reads.
pq.write_table(table, HERE / "kinds.parquet", compression="snappy", store_schema=False)
pq.write_table(
    pa.table({"at": pa.array([noon, None])}), HERE / "int96.parquet", use_deprecated_int96_timestamps=True
)

# What is refused.
one = pa.table({"instance_id": ["ink__pen-1"], "patch": ["-"]})
for compression in ["gzip", "brotli", "lz4"]:
    pq.write_table(one, HERE / f"refused-{compression}.parquet", compression=compression)
pq.write_table(one.append_column("half", pa.array([0.5], pa.float16())), HERE / "refused-half.parquet")
pairs = pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))
pq.write_table(one.append_column("map", pairs), HERE / "refused-map.parquet")
pq.write_table(pa.table({}), HERE / "refused-columns.parquet")
latin = pa.Array.from_buffers(pa.string(), 3, [None, *pa.array([b"a", b"\xe9", b"b"]).buffers()[1:]])
pq.write_table(pa.table({"instance_id": latin, "patch": ["-", "-", "-"]}), HERE / "refused-latin.parquet")


class Kms(pe.KmsClient):
    def wrap_key(self, key, _):
        return key.hex()

    def unwrap_key(self, key, _):
        return bytes.fromhex(key)


for name, plaintext in [("encrypted", False), ("encrypted-columns", True)]:
    config = pe.EncryptionConfiguration("f", column_keys={"c": ["patch"]}, plaintext_footer=plaintext, double_wrapping=False)
    keys = pe.CryptoFactory(lambda _: Kms()).file_encryption_properties(pe.KmsConnectionConfig(), config)
    with pq.ParquetWriter(HERE / f"refused-{name}.parquet", one.schema, encryption_properties=keys) as writer:
        writer.write_table(one)
