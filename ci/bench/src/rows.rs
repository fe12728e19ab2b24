//! Raw rows, one JSON object per line.

use std::fs::{OpenOptions, create_dir_all};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

/// Appends rows to `<out>/<area>.jsonl`.
pub(crate) fn append<Row: Serialize>(out: &Path, area: &str, rows: &[Row]) -> io::Result<()> {
    create_dir_all(out)?;
    let mut file = OpenOptions::new().append(true).create(true).open(out.join(format!("{area}.jsonl")))?;
    let mut bytes = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut bytes, row)?;
        bytes.push(b'\n');
    }
    file.write_all(&bytes)
}
