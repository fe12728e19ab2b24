//! Reads rows of Parquet files, as the same objects that the rows have in JSON.
//!
//! P1. A row has the same keys, texts, lists and objects as its JSON line; a null becomes `null`. P2. A value that JSON
//! cannot represent is reported with its row, and later rows are read. P3. A damaged, truncated or malicious file is
//! refused: it neither ends the process nor takes more memory than the limits in `bounds`. P4. Pages are read one after
//! another, in the order of the rows, so that no row group is in memory as a whole.
//!
//! Types that JSON lacks become text: timestamps, dates and times in ISO 8601, decimals with all digits, UUIDs. NaN and
//! infinities become null, as pandas writes them. Bytes of unknown meaning count as text.
//!
//! Source: the format's own description (apache/parquet-format: `README.md`, `LogicalTypes.md`). Deviations: 1. Gzip, LZ4,
//! Brotli and LZO are refused by name. 2. Columns of 16-bit floats, intervals, BSON, variants and maps are refused
//! by name.

mod bounds;
mod cell;
mod column;
mod description;
mod file;
mod record;
mod refusal;
mod shape;

pub(crate) use file::{is_parquet, read};
