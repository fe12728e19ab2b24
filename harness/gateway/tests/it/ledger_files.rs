//! Files that cannot be opened, and failing files.

use std::os::unix::fs::PermissionsExt;

use clawrl_gateway::{Deletion, FileError, LedgerError, NewAnswer, Recorder, RecorderSettings};
use rusqlite::Connection;
use serde_json::json;

use crate::recording::{Chat, answer, asked, replied, said};
use crate::tracker::user;

/// Reverts a ledger to before version 4.
const BEFORE_4: &str = "CREATE INDEX happenings_of_session ON happenings (session, place); \
                        CREATE INDEX turns_of_user ON turns (user, id); \
                        CREATE INDEX turns_of_parent ON turns (parent) WHERE parent IS NOT NULL";
/// Reverts a ledger to before version 5.
const BEFORE_5: &str = "ALTER TABLE feedback DROP COLUMN answered; ALTER TABLE feedback DROP COLUMN choice";
/// Reverts a ledger to before version 6.
const BEFORE_6: &str = "ALTER TABLE turns DROP COLUMN said";
/// The remaining steps to version 3, whose sessions did not share content.
const AS_3: &str = "DROP INDEX bodies_elsewhere; DROP INDEX prompts_elsewhere; \
                    ALTER TABLE bodies DROP COLUMN elsewhere; ALTER TABLE prompts DROP COLUMN elsewhere";

/// Gives a new ledger's table of requests the form that it had when version 4 was introduced.
const NUMBERED: &str = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'number INTEGER PRIMARY KEY,', \
                        'number INTEGER PRIMARY KEY AUTOINCREMENT,') WHERE name = 'requests'";

/// Checks the error of opening `chat.db` after `make` has created it.
fn check(make: impl FnOnce(&std::path::Path), expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.db");
    make(&path);
    let error = Recorder::open(RecorderSettings::new(path.clone())).map(|_| ()).unwrap_err();
    let said = error.to_string().replace(&path.display().to_string(), "chat.db");
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn foreign_files_are_refused_by_name() {
    let text =
        "no database, but long enough to look like the header of one, which is a hundred bytes. ".repeat(20);
    check(|path| std::fs::write(path, &text).unwrap(), "the ledger chat.db is not a chat ledger");
    let other = |path: &std::path::Path| {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    };
    check(other, "the ledger chat.db is not a chat ledger");
    let newer = |path: &std::path::Path| {
        drop(Recorder::open(RecorderSettings::new(path.to_owned())).unwrap());
        Connection::open(path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    };
    check(newer, "the ledger chat.db has schema 99, this program knows 6: it was written by a newer version");
    check(|path| std::fs::create_dir(path).unwrap(), "the ledger chat.db cannot be opened: ");
}

#[test]
fn older_ledgers_are_migrated() {
    let mut chat = Chat::new();
    chat.close();
    let version = || -> i64 {
        Connection::open(chat.path())
            .unwrap()
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap()
    };
    assert_eq!(version(), 6);
    // As before long bodies were stored apart.
    let before_3 = "DROP TABLE bodies; DROP TABLE prompts; CREATE INDEX requests_of_session ON requests (session); \
                    CREATE INDEX happenings_of_request ON happenings (request)";
    for (before, back) in [(1, before_3), (2, before_3), (3, AS_3), (4, ""), (5, "")] {
        let connection = Connection::open(chat.path()).unwrap();
        connection.execute_batch(BEFORE_6).unwrap();
        if before < 5 {
            connection.execute_batch(BEFORE_5).unwrap();
        }
        if before < 4 {
            connection.execute_batch(BEFORE_4).unwrap();
        }
        connection.execute_batch(back).unwrap();
        connection.pragma_update(None, "user_version", before).unwrap();
        drop(connection);
        drop(Recorder::open(chat.settings()).unwrap());
        assert_eq!(version(), 6, "an older program could not read what is written now");
        let elsewhere = "SELECT (SELECT count(*) FROM pragma_table_info('bodies') WHERE name = 'elsewhere') + \
                         (SELECT count(*) FROM pragma_table_info('prompts') WHERE name = 'elsewhere') + \
                         (SELECT count(*) FROM sqlite_schema WHERE name LIKE '%s_elsewhere')";
        assert_eq!(chat.value(elsewhere), "4", "{before}");
        let said = "SELECT count(*) FROM pragma_table_info('feedback') WHERE name IN ('answered', 'choice')";
        assert_eq!(chat.value(said), "2", "{before}");
        let words = "SELECT count(*) FROM pragma_table_info('turns') WHERE name = 'said'";
        assert_eq!(chat.value(words), "1", "{before}");
    }
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'happenings_of_%' OR name IN \
                   ('requests_of_session', 'turns_of_user', 'turns_of_parent')";
    assert_eq!(chat.value(indexes), "0");
    assert_eq!(chat.value("SELECT (SELECT count(*) FROM bodies) + (SELECT count(*) FROM prompts)"), "0");
}

/// Contents of version 3 are read, continued and deleted.
#[tokio::test]
async fn long_bodies_of_version_3_are_migrated() {
    let mut chat = Chat::new();
    let long = noise(4_000, 7);
    let admitted = chat.ask("ada", "s", json!([said(&long)])).await;
    chat.say(admitted.request, "one").await;
    chat.close();
    let body = json!({"messages": [said(&long)]}).to_string();
    let connection = Connection::open(chat.path()).unwrap();
    connection.execute_batch(BEFORE_6).unwrap();
    connection.execute_batch(BEFORE_5).unwrap();
    connection.execute_batch(BEFORE_4).unwrap();
    connection.execute_batch(AS_3).unwrap();
    connection.execute_batch(NUMBERED).unwrap();
    connection.pragma_update(None, "user_version", 3).unwrap();
    let zstd = zstd::bulk::compress(body.as_bytes(), 1).unwrap();
    assert_eq!(connection.execute("UPDATE bodies SET middle = ?1", [zstd]).unwrap(), 1);
    drop(connection);
    chat.open().unwrap();
    let view = chat.handle().turn(&user("ada"), admitted.turn).await.unwrap();
    assert_eq!(view.requests[0].body.as_deref(), Some(body.as_str()));
    let next = chat.ask("ada", "s", json!([said(&long), replied("one"), said("two")])).await;
    assert_eq!((next.session, next.request.0), (admitted.session, admitted.request.0 + 1));
    chat.say(next.request, "three").await;
    chat.handle().delete(&user("ada"), Deletion::All).await.unwrap();
    assert_eq!(chat.value("SELECT count(*) FROM bodies"), "0");
    let numbered = "SELECT sql LIKE '%number INTEGER PRIMARY KEY AUTOINCREMENT,%' FROM sqlite_schema WHERE name = 'requests'";
    assert_eq!(chat.value(numbered), "1");
    chat.close();
    chat.open().unwrap();
    assert_eq!(chat.ask("ada", "t", json!([said("anew")])).await.request.0, next.request.0 + 1);
}

/// As in a ledger of version 2, whose bodies are all in their rows.
#[tokio::test]
async fn long_body_is_read_from_row_or_table() {
    let mut chat = Chat::new();
    let (long, ids) = (noise(4_000, 7), (0..2_000).collect::<Vec<u32>>());
    let admitted = chat.ask("ada", "s", json!([said(&long)])).await;
    let new = NewAnswer { prompt_ids: ids.clone().into(), ..answer("one") };
    chat.handle().answered(admitted.request, new).await.unwrap();
    let apart = "SELECT (SELECT count(*) FROM bodies) || ' ' || (SELECT count(*) FROM prompts) || ' ' || \
                 (SELECT count(*) FROM requests WHERE coalesce(body, prompt_ids) IS NOT NULL)";
    assert_eq!(chat.value(apart), "1 1 0");
    for is_inside in [false, true] {
        if is_inside {
            chat.close();
            let inside = "UPDATE requests SET body = (SELECT middle FROM bodies), prompt_ids = (SELECT middle FROM prompts); \
                          DELETE FROM bodies; DELETE FROM prompts";
            Connection::open(chat.path()).unwrap().execute_batch(inside).unwrap();
            chat.open().unwrap();
            assert_eq!(chat.value(apart), "0 0 1");
        }
        let view = chat.handle().turn(&user("ada"), admitted.turn).await.unwrap();
        assert!(view.requests[0].body.as_ref().unwrap().contains(&long));
        assert_eq!(view.requests[0].prompt_ids, ids);
        chat.open().unwrap();
    }
    // Restored from the long body, and continued.
    let next = chat.ask("ada", "s", json!([said(&long), replied("one"), said("two")])).await;
    assert_eq!(next.session, admitted.session);
    chat.say(next.request, "three").await;
    assert_eq!(chat.value("SELECT count(*) FROM next_states"), "1");
    assert_eq!(chat.value("SELECT count(*) FROM bodies"), "1");
    chat.handle().delete(&user("ada"), Deletion::All).await.unwrap();
    assert_eq!(chat.value(apart), "0 0 0");
}

/// Incompressible text.
pub(crate) fn noise(length: usize, seed: u64) -> String {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        char::from(b'a' + (state >> 33) as u8 % 26)
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn missing_folder_is_an_error() {
    let path = tempfile::tempdir().unwrap().path().join("none/chat.db");
    let error = Recorder::open(RecorderSettings::new(path)).map(|_| ()).unwrap_err();
    assert!(matches!(error, LedgerError::File { flaw: FileError::Failed(_), .. }), "{error:?}");
}

#[test]
fn second_recorder_is_refused() {
    let mut chat = Chat::new();
    let second = Recorder::open(chat.settings()).map(|_| ()).unwrap_err();
    assert!(matches!(second, LedgerError::File { flaw: FileError::InUse(_), .. }), "{second:?}");
    assert!(second.to_string().contains("is in use by another process"), "{second}");
    chat.close();
    drop(Recorder::open(chat.settings()).unwrap());
}

#[test]
fn only_the_owner_can_read_the_file() {
    let chat = Chat::new();
    for entry in std::fs::read_dir(chat.folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
}

#[tokio::test]
async fn missing_file_is_an_error_until_it_is_back() {
    let chat = Chat::new();
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    let away = chat.folder.path().join("away.db");
    std::fs::rename(chat.path(), &away).unwrap();
    let lost = chat.handle().answered(one.request, answer("hello")).await.unwrap_err();
    assert!(lost.is_storage(), "{lost}");
    std::fs::write(chat.path(), "").unwrap();
    let other = chat.handle().answered(one.request, answer("hello")).await.unwrap_err();
    assert!(other.to_string().contains("is another file now"), "{other}");
    std::fs::rename(&away, chat.path()).unwrap();
    chat.say(one.request, "hello").await;
}

#[tokio::test]
async fn linking_is_not_ahead_of_the_ledger() {
    let mut chat = Chat::new();
    let long = noise(3_000, 3);
    let one = chat.ask("ada", "s", json!([said(&long)])).await;
    // From here on, no request can be written, but linking knows of it.
    let connection = Connection::open(chat.path()).unwrap();
    let trigger = "CREATE TRIGGER full BEFORE INSERT ON happenings BEGIN SELECT RAISE(FAIL, 'full'); END";
    connection.execute_batch(trigger).unwrap();
    let history = json!([said(&long), replied("hello"), said("go on")]);
    let handle = chat.handle();
    let ada = user("ada");
    let (answered, arrived, consent) = tokio::join!(
        handle.answered(one.request, answer("hello")),
        handle.arrived(asked("ada", "s", history.clone())),
        handle.set_consent(&ada, false),
    );
    assert!(answered.unwrap_err().is_storage());
    assert!(arrived.unwrap_err().is_storage());
    // It was in the same batch or in a later one.
    assert!(consent.is_ok() || consent.unwrap_err().is_storage());
    connection.execute_batch("DROP TRIGGER full").unwrap();
    drop(connection);
    chat.say(one.request, "hello").await;
    let two = chat.ask("ada", "s", history.clone()).await;
    assert_eq!((two.request.0, two.is_retry), (2, false), "it had not arrived");
    let view = handle.turn(&user("ada"), two.turn).await.unwrap();
    assert_eq!(view.line.parent, Some(one.turn));
    assert!(view.requests[0].body.as_ref().unwrap().contains(&history.to_string()));
    chat.open().unwrap();
    let again = chat.ask("ada", "s", history).await;
    assert_eq!((again.turn, again.is_retry), (two.turn, true));
}

#[tokio::test]
async fn waiting_calls_finish_before_the_end() {
    let mut chat = Chat::new();
    let handle = chat.handle();
    let asks = (0..40).map(|number| {
        let handle = handle.clone();
        tokio::spawn(
            async move { handle.arrived(asked("ada", &number.to_string(), json!([said("hi")]))).await },
        )
    });
    let asks: Vec<_> = asks.collect();
    tokio::task::yield_now().await;
    chat.close();
    let mut admitted = 0;
    for ask in asks {
        match ask.await.unwrap() {
            Ok(_) => admitted += 1,
            Err(error) => assert_eq!(error, LedgerError::Ended),
        }
    }
    assert!(admitted > 0);
    assert_eq!(chat.value("SELECT count(*) FROM requests"), admitted.to_string());
    assert_eq!(handle.expire().await, Err(LedgerError::Ended));
}
