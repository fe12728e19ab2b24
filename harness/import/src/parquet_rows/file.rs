//! Reads the rows of a file.

use std::any::Any;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::reader::get_column_reader;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use serde_json::{Map, Value};

use super::bounds::{BoundedPages, Bounds, MAX_BYTES};
use super::cell::Meaning;
use super::column::Column;
use super::description::{self, MetadataCheck};
use super::record::Records;
use super::refusal::{AGAIN, Refusal};
use super::shape;
use crate::document::open_below;
use crate::findings::Findings;
use crate::questions::BadRow;

/// Magic bytes at the beginning and at the end.
const MAGIC: &[u8; 4] = b"PAR1";
/// Magic bytes of a file with encrypted metadata.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";
/// First line of a Git LFS pointer, which stands for a file that a clone did not fetch.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// A row of the file.
#[derive(Debug)]
pub(crate) struct Row {
    /// From 1, as for lines.
    pub(crate) number: usize,
    pub(crate) columns: Result<Map<String, Value>, BadRow>,
}

/// Whether a file is Parquet, by its name or its first bytes: no JSON begins with them.
pub(crate) fn is_parquet(path: &Path) -> bool {
    let is_called_so = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
    let mut first = [0; 4];
    // Opening a pipe would wait for a writer.
    is_called_so
        || path.is_file()
            && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
            && (first == *MAGIC || first == *MAGIC_ENCRYPTED)
}

/// Reads the rows of a file. Problems of the file go to the findings; rows before damage are returned.
pub(crate) fn read(shown: &Path, findings: &mut Findings) -> Vec<Row> {
    let file = match open_below(shown, MAX_BYTES) {
        Ok(file) => file,
        Err(problem) => {
            findings.adopt(&problem.into());
            return Vec::new();
        }
    };
    let mut rows = Vec::new();
    if let Err(refusal) = contained(|| read_rows(file, &Bounds::new(), &mut rows)) {
        findings.refuse_path(shown, refusal.message, refusal.help);
    }
    rows
}

/// Reports a panic as damage (P3): the reader asserts some properties that depend on the file. Only complete rows
/// outlive a panic.
fn contained(read: impl FnOnce() -> Result<(), Refusal>) -> Result<(), Refusal> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let what = format!("the reader failed: {}", panic_text(&*panic));
        Err(Refusal::damaged("somewhere", &what))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a reason")
}

fn read_rows(mut file: File, bounds: &Arc<Bounds>, rows: &mut Vec<Row>) -> Result<(), Refusal> {
    check_ends(&mut file)?;
    let reader =
        SerializedFileReader::new(file).map_err(|error| Refusal::of_reader("its description", &error))?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let columns = shape::columns(&schema)?;
    let meanings: Vec<Meaning> =
        schema.columns().iter().map(|leaf| meaning(leaf)).collect::<Result<_, _>>()?;
    for index in 0..reader.num_row_groups() {
        check_group(reader.metadata().row_group(index), meanings.len())?;
    }
    for index in 0..reader.num_row_groups() {
        let place = || format!("row group {} of {}", index + 1, reader.num_row_groups());
        let group = reader.get_row_group(index).map_err(|error| Refusal::of_reader(&place(), &error))?;
        let leaves =
            leaves(&*group, &meanings, bounds).map_err(|error| Refusal::of_reader(&place(), &error))?;
        let mut records = Records::new(&columns, leaves, Arc::clone(bounds));
        for _ in 0..group.metadata().num_rows() {
            let columns = records.next_row()?;
            rows.push(Row { number: rows.len() + 1, columns });
        }
        records.end()?;
    }
    Ok(())
}

/// Most problems show at the beginning and at the end, before the reader parses anything.
fn check_ends(file: &mut File) -> Result<(), Refusal> {
    let unreadable =
        |cause: std::io::Error| Refusal::new(format!("cannot be read: {}", cause.kind()), "check the disk");
    let len = file.metadata().map_err(unreadable)?.len();
    let mut first = Vec::new();
    file.take(LFS_POINTER.len() as u64).read_to_end(&mut first).map_err(unreadable)?;
    if first.starts_with(LFS_POINTER) {
        return Err(Refusal::new(
            "is a Git LFS pointer, not the file itself",
            "fetch it with `git lfs pull`",
        ));
    }
    let mut last = [0; 8];
    if len >= 12 {
        file.seek(SeekFrom::End(-8)).and_then(|_| file.read_exact(&mut last)).map_err(unreadable)?;
    }
    let ([a, b, c, d, magic @ ..], cut_off) =
        (last, Refusal::new("is truncated: it does not end with `PAR1`", AGAIN));
    if first.starts_with(MAGIC_ENCRYPTED) || magic == *MAGIC_ENCRYPTED {
        return Err(encrypted());
    }
    if !first.starts_with(MAGIC) {
        let help = "name a Parquet file; JSON and JSON lines need another extension, such as `.jsonl`";
        return Err(Refusal::new("is not a Parquet file: it does not begin with `PAR1`", help));
    }
    if magic != *MAGIC {
        return Err(cut_off);
    }
    let description_len = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(start) = (len - 8).checked_sub(description_len) else { return Err(cut_off) };
    let mut description = Vec::new();
    file.seek(SeekFrom::Start(start)).map_err(unreadable)?;
    file.take(description_len).read_to_end(&mut description).map_err(unreadable)?;
    match description::look_at(&description) {
        MetadataCheck::Sound => Ok(()),
        MetadataCheck::Encrypted => Err(encrypted()),
        MetadataCheck::Unsound => Err(Refusal::damaged(
            "its description",
            "it is incomplete, or its columns are nested without end",
        )),
    }
}

fn encrypted() -> Refusal {
    Refusal::new("is encrypted Parquet, which is not supported", "decrypt it first")
}

fn meaning(leaf: &ColumnDescriptor) -> Result<Meaning, Refusal> {
    Meaning::of(leaf).ok_or_else(|| {
        let kind = match leaf.logical_type_ref() {
            Some(logical) => format!("{logical:?}"),
            None => leaf.converted_type().to_string(),
        };
        shape::unreadable(&leaf.path().string(), &format!("its type is {kind}"))
    })
}

/// Checks what the reader assumes, and refuses compressions that it cannot decode.
fn check_group(group: &RowGroupMetaData, leaves: usize) -> Result<(), Refusal> {
    if group.num_rows() < 0 || group.columns().len() != leaves {
        return Err(Refusal::damaged("its description", "a row group does not fit the columns"));
    }
    for column in group.columns() {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        if start < 0 || column.compressed_size() < 0 {
            let place = format!("column `{}`", column.column_path().string());
            return Err(Refusal::damaged(&place, "it has no place in the file"));
        }
        let name = match column.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => continue,
            Compression::GZIP(_) => "gzip",
            Compression::BROTLI(_) => "Brotli",
            Compression::LZO => "LZO",
            Compression::LZ4 | Compression::LZ4_RAW => "LZ4",
        };
        return Err(Refusal::new(
            format!("is compressed with {name}; only snappy and zstd are supported"),
            "write it again: `python3 -c 'import sys, pyarrow.parquet as p; p.write_table(p.read_table(sys.argv[1]), sys.argv[2])' OLD NEW`",
        ));
    }
    Ok(())
}

fn leaves(
    group: &dyn RowGroupReader,
    meanings: &[Meaning],
    bounds: &Arc<Bounds>,
) -> Result<Vec<Column>, ParquetError> {
    let schema = group.metadata().schema_descr_ptr();
    let leaves = meanings.iter().enumerate().map(|(index, meaning)| {
        let leaf = schema.column(index);
        let pages = BoundedPages::new(group.get_column_page_reader(index)?, Arc::clone(bounds));
        let (name, full) = (leaf.path().string(), leaf.max_def_level());
        Ok(Column::new(name, get_column_reader(leaf, Box::new(pages)), *meaning, full))
    });
    leaves.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn example(name: &str) -> Vec<u8> {
        fs::read(Path::new("tests/examples/parquet").join(name)).unwrap()
    }

    /// The rows of a file with these bytes, and its problems.
    fn read_bytes(bytes: &[u8]) -> (Vec<Row>, String) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut rows = Vec::new();
        let read = contained(|| read_rows(file, &Bounds::new(), &mut rows));
        (rows, read.err().map(|refusal| refusal.message).unwrap_or_default())
    }

    fn objects(rows: Vec<Row>) -> Vec<Value> {
        rows.into_iter().map(|row| Value::Object(row.columns.unwrap())).collect()
    }

    fn check(file: &str, lines: &str) {
        let (rows, problems) = read_bytes(&example(&format!("{file}.parquet")));
        assert_eq!(problems, "", "{file}");
        let expected = String::from_utf8(example(lines)).unwrap();
        let expected: Vec<Value> = expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let rows = objects(rows);
        assert_eq!(rows.len(), expected.len(), "{file}");
        for (row, expected) in rows.iter().zip(&expected) {
            assert_eq!(row, expected, "{file}");
        }
    }

    #[test]
    fn p1_rows_equal_their_json_lines() {
        for file in ["texts-snappy", "texts-zstd", "texts-none"] {
            check(file, "texts.jsonl");
        }
        for file in ["lists-snappy", "lists-zstd"] {
            check(file, "lists.jsonl");
        }
        check("kinds", "kinds.jsonl");
    }

    #[test]
    fn p1_int96_values_are_timestamps() {
        let (rows, problems) = read_bytes(&example("int96.parquet"));
        assert_eq!(problems, "");
        let expected =
            [serde_json::json!({ "at": "2024-02-29T12:00:00.25" }), serde_json::json!({ "at": null })];
        assert_eq!(objects(rows), expected);
    }

    #[test]
    fn p2_rows_after_bad_value_are_read() {
        let (rows, problems) = read_bytes(&example("refused-latin.parquet"));
        assert_eq!(problems, "");
        let found: Vec<_> = rows.iter().map(|row| (row.number, row.columns.is_ok())).collect();
        assert_eq!(found, [(1, true), (2, false), (3, true)]);
        assert_eq!(rows[1].columns.as_ref().unwrap_err().key, "instance_id");
    }

    #[test]
    fn p3_truncated_file_is_refused() {
        let whole = example("kinds.parquet");
        for len in 0..whole.len() {
            let (rows, problems) = read_bytes(&whole[..len]);
            assert!(rows.is_empty() && !problems.is_empty(), "{len} bytes: {problems}");
        }
    }

    #[test]
    fn p3_file_with_changed_byte_is_read_or_refused() {
        let whole = example("kinds.parquet");
        for at in 0..whole.len() {
            for change in [0xff, 0x01] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                let (rows, problems) = read_bytes(&bytes);
                assert!(!problems.is_empty() || rows.len() == 2, "{at} {change}: {} rows", rows.len());
                assert!(!problems.contains("the reader failed"), "{at} {change}: {problems}");
            }
        }
    }

    #[test]
    fn p3_reader_panic_is_damage() {
        let refusal = contained(|| panic!("for the {}", "test")).unwrap_err();
        assert_eq!(refusal.message, "is damaged: somewhere: the reader failed: for the test");
        let refusal = contained(|| panic!("for the test")).unwrap_err();
        assert_eq!(refusal.message, "is damaged: somewhere: the reader failed: for the test");
    }

    #[test]
    fn p3_reading_stops_at_limits() {
        let check = |bounds: Arc<Bounds>, expected: &str| {
            for file in ["texts-snappy.parquet", "lists-zstd.parquet"] {
                let file = File::open(Path::new("tests/examples/parquet").join(file)).unwrap();
                let problems = read_rows(file, &bounds, &mut Vec::new()).map_err(|refusal| refusal.message);
                assert!(
                    problems.as_ref().is_err_and(|problems| problems.contains(expected)),
                    "{problems:?}, not {expected}"
                );
            }
        };
        check(Bounds::of(10_000, u64::MAX, u64::MAX), "has pages of more than");
        check(Bounds::of(u64::MAX, 100, u64::MAX), "has more than");
        check(Bounds::of(u64::MAX, u64::MAX, 10_000), "has texts of more than");
    }

    proptest! {
        #[test]
        fn p3_file_with_changed_bytes_is_read_or_refused(
            file in prop::sample::select(vec!["lists-zstd.parquet", "lists-snappy.parquet", "texts-none.parquet"]),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = example(file);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let (rows, problems) = read_bytes(&bytes);
            prop_assert!(!problems.is_empty() || rows.len() == 24, "{} rows", rows.len());
        }
    }
}
