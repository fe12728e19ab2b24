//! Files that cannot be opened, and files that fail.

use std::os::unix::fs::PermissionsExt;

use clawrl_gateway::{FileFlaw, LedgerError, Recorder, RecorderSettings};
use rusqlite::Connection;
use serde_json::json;

use crate::recording::{Chat, answer, asked, replied, said};
use crate::told::user;

/// What opening `chat.db` says, in a folder that `make` has made something in.
fn check(make: impl FnOnce(&std::path::Path), expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.db");
    make(&path);
    let error = Recorder::open(RecorderSettings::new(path.clone())).map(|_| ()).unwrap_err();
    let said = error.to_string().replace(&path.display().to_string(), "chat.db");
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn files_that_are_no_ledger_are_refused_by_name() {
    let text =
        "no database, but long enough to look like the header of one, which is a hundred bytes. ".repeat(20);
    check(|path| std::fs::write(path, &text).unwrap(), "the ledger chat.db is not a database of chat");
    let other = |path: &std::path::Path| {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    };
    check(other, "the ledger chat.db is not a database of chat");
    let newer = |path: &std::path::Path| {
        drop(Recorder::open(RecorderSettings::new(path.to_owned())).unwrap());
        Connection::open(path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    };
    check(newer, "the ledger chat.db has schema 99, this program knows 2: it was written by a newer version");
    check(|path| std::fs::create_dir(path).unwrap(), "the ledger chat.db cannot be opened: ");
}

#[test]
fn a_ledger_of_the_version_before_is_taken_on() {
    let mut chat = Chat::new();
    chat.close();
    let version = || -> i64 {
        Connection::open(chat.path())
            .unwrap()
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap()
    };
    assert_eq!(version(), 2);
    Connection::open(chat.path()).unwrap().pragma_update(None, "user_version", 1).unwrap();
    drop(Recorder::open(chat.settings()).unwrap());
    assert_eq!(version(), 2, "an older program could not read what is written now");
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let path = tempfile::tempdir().unwrap().path().join("none/chat.db");
    let error = Recorder::open(RecorderSettings::new(path)).map(|_| ()).unwrap_err();
    assert!(matches!(error, LedgerError::File { flaw: FileFlaw::Failed(_), .. }), "{error:?}");
}

#[test]
fn one_recorder_at_a_time() {
    let mut chat = Chat::new();
    let second = Recorder::open(chat.settings()).map(|_| ()).unwrap_err();
    assert!(matches!(second, LedgerError::File { flaw: FileFlaw::InUse(_), .. }), "{second:?}");
    assert!(second.to_string().contains("is in use by another process"), "{second}");
    chat.close();
    drop(Recorder::open(chat.settings()).unwrap());
}

#[test]
fn only_its_owner_may_read_it() {
    let chat = Chat::new();
    for entry in std::fs::read_dir(chat.folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
}

#[tokio::test]
async fn a_file_that_is_gone_is_an_error_until_it_is_back() {
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
async fn linking_does_not_run_ahead_of_what_is_written() {
    let mut chat = Chat::new();
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    // From here on, no request can be written; linking was told of it by then.
    let connection = Connection::open(chat.path()).unwrap();
    let trigger = "CREATE TRIGGER full BEFORE INSERT ON happenings BEGIN SELECT RAISE(FAIL, 'full'); END";
    connection.execute_batch(trigger).unwrap();
    let history = json!([said("hi"), replied("hello"), said("go on")]);
    let handle = chat.handle();
    let ada = user("ada");
    let (answered, arrived, consent) = tokio::join!(
        handle.answered(one.request, answer("hello")),
        handle.arrived(asked("ada", "s", history.clone())),
        handle.set_consent(&ada, false),
    );
    assert!(answered.unwrap_err().is_storage());
    assert!(arrived.unwrap_err().is_storage());
    // It came with them or behind them.
    assert!(consent.is_ok() || consent.unwrap_err().is_storage());
    connection.execute_batch("DROP TRIGGER full").unwrap();
    drop(connection);
    chat.say(one.request, "hello").await;
    let two = chat.ask("ada", "s", history.clone()).await;
    assert_eq!((two.request.0, two.is_retry), (2, false), "it had not arrived");
    let view = handle.turn(&user("ada"), two.turn).await.unwrap();
    assert_eq!(view.line.parent, Some(one.turn));
    chat.open().unwrap();
    let again = chat.ask("ada", "s", history).await;
    assert_eq!((again.turn, again.is_retry), (two.turn, true));
}

#[tokio::test]
async fn what_waits_is_done_before_the_end() {
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
