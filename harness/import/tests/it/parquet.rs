//! Imports rows in the form of SWE-bench from Parquet: suites and refusals.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clawrl_import::{SweOptions, import_swe};

use crate::place::{Place, rendered};
use crate::swe::{check_refusal, options};

fn place() -> Place {
    let place = Place::new();
    place.copy("parquet", ".");
    place
}

/// Every file below a folder.
fn files(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
}

fn suite(place: &Place, source: &str) -> BTreeMap<String, Vec<u8>> {
    let options = SweOptions { hints: true, force: true, ..options(place, source) };
    let imported = import_swe(&options).unwrap_or_else(|error| panic!("{source}: {}", rendered(&error)));
    assert_eq!(imported.count, 24, "{source}");
    let mut found = BTreeMap::new();
    files(&place.path("suite"), &mut found);
    found
}

#[test]
fn parquet_rows_give_the_suite_of_json_lines() {
    let check = |lines: &str, tables: &[&str]| {
        let place = place();
        let expected = suite(&place, lines);
        assert!(expected.len() > 24, "{lines}: {} files", expected.len());
        for table in tables {
            let found = suite(&place, table);
            let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&found), names(&expected), "{table}");
            for (path, bytes) in &found {
                assert_eq!(
                    bytes.escape_ascii().to_string(),
                    expected[path].escape_ascii().to_string(),
                    "{table}: {path}"
                );
            }
        }
    };
    check("texts.jsonl", &["texts-snappy.parquet", "texts-zstd.parquet", "texts-none.parquet"]);
    check("lists.jsonl", &["lists-snappy.parquet", "lists-zstd.parquet"]);
}

#[test]
fn first_bytes_decide_the_file_format() {
    let place = place();
    fs::rename(place.path("texts-snappy.parquet"), place.path("train.json")).unwrap();
    assert_eq!(suite(&place, "train.json"), suite(&place, "texts.jsonl"));
}

/// Size of the metadata at the end of a file, in bytes.
fn description_len(file: &[u8]) -> usize {
    let len = file[file.len() - 8..file.len() - 4].try_into().unwrap();
    u32::from_le_bytes(len).try_into().unwrap()
}

#[test]
fn files_are_refused() {
    let place = place();
    let refused =
        |name: &str, source: &str| check_refusal(name, &place, import_swe(&options(&place, source)));
    refused("swe-parquet-missing", "there-is-none.parquet");
    refused("swe-parquet-brotli", "refused-brotli.parquet");
    refused("swe-parquet-gzip", "refused-gzip.parquet");
    refused("swe-parquet-lz4", "refused-lz4.parquet");
    refused("swe-parquet-half", "refused-half.parquet");
    refused("swe-parquet-map", "refused-map.parquet");
    refused("swe-parquet-columns", "refused-columns.parquet");
    refused("swe-parquet-latin", "refused-latin.parquet");
    refused("swe-parquet-encrypted", "refused-encrypted.parquet");
    refused("swe-parquet-encrypted-columns", "refused-encrypted-columns.parquet");
    let write = |bytes: &[u8]| fs::write(place.path("rows.parquet"), bytes).unwrap();
    write(b"PAR1");
    refused("swe-parquet-short", "rows.parquet");
    write(b"");
    refused("swe-parquet-empty", "rows.parquet");
    write(b"{\"instance_id\": \"ink__pen-1\"}\n");
    refused("swe-parquet-json", "rows.parquet");
    write(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    refused("swe-parquet-pointer", "rows.parquet");
    let whole = fs::read(place.path("lists-zstd.parquet")).unwrap();
    write(&whole[..whole.len() / 2]);
    refused("swe-parquet-cut", "rows.parquet");
    let mut changed = whole.clone();
    // Inside the first page of the first column, after its header.
    changed[60..120].fill(0);
    write(&changed);
    refused("swe-parquet-page", "rows.parquet");
    let mut changed = whole.clone();
    let description = whole.len() - 8 - description_len(&whole);
    changed[description + 8..description + 100].fill(0);
    write(&changed);
    refused("swe-parquet-description", "rows.parquet");
}

#[test]
fn bad_parquet_rows_are_refused_by_number() {
    let place = place();
    let options = SweOptions { skip_unrepresentable: true, ..options(&place, "refused-latin.parquet") };
    check_refusal("swe-parquet-skipped", &place, import_swe(&options));
}
