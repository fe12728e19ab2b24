//! Rows of Parquet files, as the objects that the same rows have in JSON.
//!
//! P1. A row has the keys, texts, lists and objects that JSON lines of it have; a null is there, as `null`. P2. A value that
//! JSON cannot have is told with its row, and the rows after it are read. P3. A file that is damaged, cut off or made to do
//! harm is refused: it neither ends the process nor takes more memory than the bounds in `bounds`. P4. Pages are read one
//! after the other, in the order of the rows, so that no row group is in memory as a whole.
//!
//! What JSON has no type for becomes text: timestamps, days and times as in ISO 8601, decimals with all their digits, UUIDs.
//! Numbers that are none are null, as in what pandas writes. Bytes that nothing says the meaning of count as text.
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
