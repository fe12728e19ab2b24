//! `clawrl policy init`.

use std::collections::BTreeMap;
use std::fs;

use super::ground::{REPRODUCIBLE, ground};
use crate::place::Place;

/// The files of a folder.
fn files(place: &Place, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(place.path().join(folder)).unwrap().flatten();
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap()))
        .collect()
}

fn init(place: &Place, out: &str, seed: &str) -> BTreeMap<String, Vec<u8>> {
    let arguments = ["policy", "init", "--preset", "tiny", "--out", out, "--seed", seed, "signs", "small"];
    let said = place.clawrl(&arguments).ends(0);
    assert!(said.err.contains("parameters, vocabulary of"), "{}", said.err);
    files(place, out)
}

#[test]
fn a_seed_decides_every_byte() {
    let place = ground(REPRODUCIBLE);
    let (one, two, other) = (init(&place, "one", "7"), init(&place, "two", "7"), init(&place, "other", "8"));
    for expected in ["config.json", "model.safetensors", "tokenizer.json"] {
        assert!(one.contains_key(expected), "{:?}", one.keys());
    }
    assert!(one == two);
    assert!(one["model.safetensors"] != other["model.safetensors"]);
    assert!(one["tokenizer.json"] == other["tokenizer.json"]);
    assert!(!place.results().exists());
}

#[test]
fn a_folder_with_something_in_it_is_left_alone() {
    let place = ground(REPRODUCIBLE);
    fs::create_dir(place.path().join("full")).unwrap();
    fs::write(place.path().join("full/notes.txt"), "mine").unwrap();
    let said = place.clawrl(&["policy", "init", "--preset", "tiny", "--out", "full", "signs"]).ends(2);
    insta::assert_snapshot!(place.settled(&said.err), @"
    error: full is not empty; a policy is only made in a new or an empty folder
    ");
    assert_eq!(files(&place, "full").len(), 1);
}

#[test]
fn how_much_it_reads_is_for_whoever_makes_it() {
    let place = ground(REPRODUCIBLE);
    let make = |out: &str, more: &[&str]| {
        let arguments = ["policy", "init", "--preset", "tiny", "--out", out];
        place.clawrl(&[&arguments, more, &["signs"]].concat())
    };
    let reads = |out: &str| {
        let config: serde_json::Value = serde_json::from_slice(&files(&place, out)["config.json"]).unwrap();
        config["max_position_embeddings"].clone()
    };
    make("usual", &[]).ends(0);
    make("long", &["--positions", "65536"]).ends(0);
    assert_eq!((reads("usual"), reads("long")), (2048.into(), 65536.into()));
    // The weights do not depend on the context length.
    assert!(files(&place, "usual")["model.safetensors"] == files(&place, "long")["model.safetensors"]);
    let said = make("none", &["--positions", "3"]).ends(2);
    assert!(said.err.contains("3 is not in 64..=1048576"), "{}", said.err);
}
