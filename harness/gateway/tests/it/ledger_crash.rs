//! `kill -9` of the recording process, and a full disk: nothing acknowledged is lost.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::ledger_child;

const KILLS: u64 = 12;

#[test]
fn kills_lose_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.db");
    // SplitMix64, for varying moments that are equal in every run.
    let mut state: u64 = 7;
    let mut below = |bound: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % bound
    };
    let mut answered: BTreeMap<u64, String> = BTreeMap::new();
    let mut highest = 0;
    for kill in 0..KILLS {
        let (mut process, mut sayings) = ledger_child::start(&path, "");
        let moment = usize::try_from(below(60)).unwrap();
        let mut heard: Vec<String> = sayings.by_ref().take(1 + moment).collect();
        process.kill().unwrap();
        // Output between that moment and the child's death counts as acknowledged, too.
        heard.extend(sayings);
        process.wait().unwrap();
        let before = highest;
        for said in heard {
            let words: Vec<&str> = said.split(' ').collect();
            assert_ne!(words[0], "failed", "kill {kill}: {said}");
            let number: u64 = words[1].parse().unwrap();
            assert!(number > before, "kill {kill}: the number {number} was used before");
            highest = highest.max(number);
            if words[0] == "answered" {
                let known = answered.insert(number, ledger_child::reply(words[3].parse().unwrap()));
                assert_eq!(known, None, "kill {kill}: {said}");
            }
        }
        check_kept(&path, &answered);
    }
    assert!(answered.len() > usize::try_from(KILLS).unwrap(), "{} answers", answered.len());
}

#[test]
fn full_disk_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.db");
    // A limit of a few megabytes per file acts like a full disk.
    let (mut process, sayings) = ledger_child::start(&path, "trap '' XFSZ; ulimit -f 2000;");
    let sayings: Vec<String> = sayings.collect();
    process.wait().unwrap();
    let failed: Vec<&str> = sayings.iter().filter_map(|said| said.strip_prefix("failed ")).collect();
    assert_eq!(failed.len(), ledger_child::USERS.len(), "{:?}", sayings.last());
    assert!(failed.iter().all(|said| said.ends_with("true")), "an error of the storage: {failed:?}");
    let mut answered = BTreeMap::new();
    for said in sayings.iter().filter_map(|said| said.strip_prefix("answered ")) {
        let words: Vec<&str> = said.split(' ').collect();
        answered.insert(words[0].parse().unwrap(), ledger_child::reply(words[2].parse().unwrap()));
    }
    assert!(!answered.is_empty());
    check_kept(&path, &answered);
}

/// Checks that all of `answered` is present and linked, and that nothing waits.
fn check_kept(path: &Path, answered: &BTreeMap<u64, String>) {
    ledger_child::check_links(path, 0);
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    for (number, text) in answered {
        let sql = "SELECT a.text FROM requests r JOIN answers a ON a.request = r.number \
                   WHERE r.number = ?1 AND r.state = 'answered'";
        let kept: String = connection.query_row(sql, [number.cast_signed()], |row| row.get(0)).unwrap();
        assert_eq!(&kept, text, "request {number}");
    }
    let waiting = "SELECT count(*) FROM requests WHERE state = 'waiting'";
    assert_eq!(connection.query_row(waiting, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}
