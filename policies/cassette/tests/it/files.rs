//! Files: whole, or refused.

use std::fs;
use std::path::Path;

use clawrl_cassette::{Cassette, CassetteError, CassettePolicy};
use proptest::prelude::*;

use crate::stage::{cassette, origin, plain, question, said, show};

fn three() -> Cassette {
    cassette([
        question(2, "b").answered(0, said("y")),
        question(0, "a").answered(0, said("x")),
        question(0, "a").answered(1, plain("z")),
    ])
}

fn text_of(path: &Path) -> String {
    String::from_utf8(zstd::decode_all(fs::read(path).unwrap().as_slice()).unwrap()).unwrap()
}

fn put(path: &Path, text: &str) {
    fs::write(path, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
}

#[tokio::test]
async fn i1_files_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.cassette");
    three().write(&path, false).unwrap();
    let (read, sha256) = Cassette::read(&path).unwrap();
    assert_eq!((read.origin(), read.len()), (&origin(), 3));
    assert_eq!(Cassette::read_origin(&path).unwrap(), (origin(), sha256));
    let tasks: Vec<(String, usize)> =
        read.tasks().iter().map(|(task, count)| (task.0.clone(), *count)).collect();
    assert_eq!(tasks, [("task-0".to_owned(), 2), ("task-2".to_owned(), 1)]);
    let policy = CassettePolicy::new(read, show());
    let logprobs = |said: clawrl_core::Action| said.tokens.unwrap().logprobs;
    assert_eq!(logprobs(question(0, "a").put(&policy).await.unwrap()), logprobs(said("x")));
    assert_eq!(question(0, "a").put(&policy).await.unwrap().text, "z");
    // Messages and tools that several requests share stand there once.
    let lines = text_of(&path);
    let count = |kind: &str| lines.lines().filter(|line| line.starts_with(&format!("{{\"{kind}\""))).count();
    assert_eq!(["message", "tool", "settings", "reply"].map(count), [2, 1, 1, 3]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn i5_the_same_replies_make_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |name: &str, replies: Vec<clawrl_cassette::Reply>| {
        let path = folder.path().join(name);
        cassette(replies).write(&path, false).unwrap();
        fs::read(path).unwrap()
    };
    let replies = || (0..20).map(|slot| question(slot % 4, &(slot / 4).to_string()).answered(0, said("x")));
    assert_eq!(bytes("one", replies().collect()), bytes("other", replies().rev().collect()));
}

#[test]
fn a_file_is_replaced_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.cassette");
    three().write(&path, false).unwrap();
    assert!(matches!(three().write(&path, false), Err(CassetteError::Exists { .. })));
    three().write(&path, true).unwrap();
    let nowhere = folder.path().join("missing/one.cassette");
    assert!(matches!(three().write(&nowhere, false), Err(CassetteError::Io { what: "write", .. })));
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.cassette");
    let check = |bytes: &[u8], expected: &str| {
        fs::write(&path, bytes).unwrap();
        let error = Cassette::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    check(b"", "is not a cassette: ");
    check(&zstd(""), "is not a cassette: the file is empty");
    check(b"a text\n", "is not a cassette");
    check(&zstd("a text\n"), "is not a cassette: expected value");
    check(&zstd("{\"cassette\":{}}\n"), "its first line has no format");
    check(&zstd("{\"format\":1,\"record\":{}}\n"), "its first line has no format");
    check(&zstd("{\"cassette\":{\"format\":2}}\n"), "format 2, and this program reads formats up to 1");
    check(&zstd("{\"cassette\":{\"format\":1}}\n"), "damaged at line 1: its header is missing");
    let missing = Cassette::read(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(missing, CassetteError::Io { what: "read", .. }));
}

#[test]
fn i2_changed_file_is_refused_at_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.cassette");
    three().write(&path, false).unwrap();
    let whole = text_of(&path);
    let check = |text: &str, expected: &str| {
        put(&path, text);
        let error = Cassette::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let lines: Vec<&str> = whole.lines().collect();
    let without = |line: usize| {
        let kept =
            lines.iter().enumerate().filter(|(place, _)| *place != line).map(|(_, line)| format!("{line}\n"));
        kept.collect::<String>()
    };
    check(&without(lines.len() - 1), "its last line is missing");
    check(whole.trim_end(), "a line is too long or has no line break");
    check(&without(lines.len() - 2), "replies are missing");
    check(&without(1), "refers to a missing part of its request");
    check(&format!("{whole}{{}}\n"), "it continues after its last line");
    check(&whole.replacen("\"said\"", "\"sayed\"", 1), "damaged at line 5: missing field `said`");
    let reply = lines.iter().find(|line| line.starts_with("{\"reply\"")).unwrap();
    let doubled =
        whole.replacen(reply, &format!("{reply}\n{reply}"), 1).replace("\"replies\":3", "\"replies\":4");
    check(&doubled, "two replies have the same request");
}

/// A later version may say more within the format.
#[test]
fn members_that_are_not_known_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.cassette");
    three().write(&path, false).unwrap();
    put(&path, &text_of(&path).replace("\"turn\":0", "\"turn\":0,\"new\":[1]"));
    assert_eq!(Cassette::read(&path).unwrap().0.len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// I2: a file that was cut short anywhere, or whose bytes were changed, is never read as another cassette.
    #[test]
    fn i2_damage_is_noticed(cut in 0usize..100_000, change in proptest::option::of((0usize..100_000, 1u8..))) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.cassette");
        three().write(&path, false).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        match change {
            Some((place, by)) => {
                let place = place % bytes.len();
                bytes[place] ^= by;
            }
            None => bytes.truncate(cut % bytes.len()),
        }
        fs::write(&path, bytes).unwrap();
        // Not every bit of a frame's header is of consequence.
        if let Ok((read, _)) = Cassette::read(&path) {
            let again = folder.path().join("again");
            read.write(&again, false).unwrap();
            let expected = folder.path().join("expected");
            three().write(&expected, false).unwrap();
            prop_assert_eq!(fs::read(again).unwrap(), fs::read(expected).unwrap());
        }
    }
}
