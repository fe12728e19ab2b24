//! The file: made, locked, opened, and of which schema.
//!
//! I1. One process at a time writes to it: a lock file beside it is held as long as it is open. The lock is not on the
//! file itself, because SQLite's own locks are lost when anybody else in this process closes that. I2. A file that is
//! not ours, or newer than this program, is refused by name and not touched. I3. Only its owner may read it. I4. What is
//! committed survives loss of power; what is deleted is overwritten.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::{FileFlaw, LedgerError};

const SCHEMA: &str = include_str!("schema.sql");
/// Of `schema.sql` and `contents.sql`; SQLite's `user_version`.
const VERSION: i64 = 6;
/// What versions from 3 on have more than those before.
const CONTENTS: &str = include_str!("contents.sql");
/// What those before 3 had more. Version 1 writes ids in another way, which is told by the ids themselves.
const BEFORE_3: &str = "DROP INDEX requests_of_session; DROP INDEX happenings_of_request;";
/// What contents of version 3 lack. It compresses them in another way, which is told by the contents themselves.
const FROM_3: &str = "ALTER TABLE bodies ADD COLUMN elsewhere INTEGER NOT NULL DEFAULT 0 CHECK (elsewhere IN (0, 1)); \
                      ALTER TABLE prompts ADD COLUMN elsewhere INTEGER NOT NULL DEFAULT 0 CHECK (elsewhere IN (0, 1)); \
                      CREATE INDEX bodies_elsewhere ON bodies (base) WHERE elsewhere = 1; \
                      CREATE INDEX prompts_elsewhere ON prompts (base) WHERE elsewhere = 1;";
/// What those before 4 had more.
const BEFORE_4: &str =
    "DROP INDEX happenings_of_session; DROP INDEX turns_of_user; DROP INDEX turns_of_parent;";
/// What those before 5 lack.
const BEFORE_5: &str = "ALTER TABLE feedback ADD COLUMN answered INTEGER; \
                        ALTER TABLE feedback ADD COLUMN choice INTEGER;";
/// What those before 6 lack.
const BEFORE_6: &str = "ALTER TABLE turns ADD COLUMN said TEXT CHECK (deleted_ms IS NULL OR said IS NULL);";
/// Marks a file as ours: "claw".
const APPLICATION: i64 = 0x636c_6177;
/// For a reader in this process, or somebody's own look at the file.
const BUSY: Duration = Duration::from_secs(5);
/// All statements of a connection stay prepared; there are fewer.
const STATEMENTS: usize = 128;

/// The file is ours while this lives.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Its lock goes with it.
    _file: File,
}

/// Locks the ledger at `path` for this process, and makes it where there is none.
pub(crate) fn create(path: &Path) -> Result<Lock, LedgerError> {
    let flaw = |flaw| LedgerError::File { path: path.to_owned(), flaw };
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    let file = private().create(true).truncate(false).open(&lock).map_err(|error| flaw(denied(&error)))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(flaw(FileFlaw::InUse(lock))),
        Err(TryLockError::Error(error)) => return Err(flaw(FileFlaw::Failed(error.to_string()))),
    }
    // So that it, and what SQLite lays beside it, gets this mode (I3). One that is there is not touched (I1).
    match private().create_new(true).open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(flaw(denied(&error))),
        _ => Ok(Lock { _file: file }),
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn denied(error: &std::io::Error) -> FileFlaw {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => FileFlaw::ReadOnly(error.to_string()),
        _ => FileFlaw::Failed(error.to_string()),
    }
}

/// The connection that writes. The file is brought to this program's schema.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let mut connection = open(path, flags)?;
        let found = known_version(&connection)?;
        if found > VERSION {
            return Ok(Err(FileFlaw::Newer { found, known: VERSION }));
        }
        let is_writable = !connection.is_readonly(rusqlite::MAIN_DB)?;
        if !is_writable {
            return Ok(Err(FileFlaw::ReadOnly("it was opened for reading only".to_owned())));
        }
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        // Looked up where we are tested. Every reference is made by this program, and a third of what a request costs here is looking.
        connection.pragma_update(None, "foreign_keys", cfg!(debug_assertions))?;
        connection.pragma_update(None, "secure_delete", true)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        if found == 0 {
            let transaction = connection.transaction()?;
            transaction.execute_batch(SCHEMA)?;
            transaction.execute_batch(CONTENTS)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.commit()?;
        } else if found < VERSION {
            let transaction = connection.transaction()?;
            if found < 3 {
                transaction.execute_batch(CONTENTS)?;
                transaction.execute_batch(BEFORE_3)?;
            } else if found == 3 {
                transaction.execute_batch(FROM_3)?;
            }
            if found < 4 {
                transaction.execute_batch(BEFORE_4)?;
            }
            if found < 5 {
                transaction.execute_batch(BEFORE_5)?;
            }
            transaction.execute_batch(BEFORE_6)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()?;
        }
        Ok(Ok(connection))
    };
    let flaw = |flaw| LedgerError::File { path: path.to_owned(), flaw };
    open().map_err(|error| flaw(refused(&error)))?.map_err(flaw)
}

/// A connection that reads, beside the one that writes.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    open(path, flags).map_err(|error| LedgerError::File { path: path.to_owned(), flaw: refused(&error) })
}

fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// The schema's version: 0 for an empty file. What is not ours is no database.
fn known_version(connection: &Connection) -> rusqlite::Result<i64> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (version, application) = (number("user_version")?, number("application_id")?);
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == APPLICATION || (application == 0 && version == 0 && tables == 0) {
        return Ok(version);
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB);
    Err(rusqlite::Error::SqliteFailure(code, None))
}

fn refused(error: &rusqlite::Error) -> FileFlaw {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => FileFlaw::NotALedger,
        Some(rusqlite::ErrorCode::ReadOnly) => FileFlaw::ReadOnly(error.to_string()),
        _ => FileFlaw::Failed(error.to_string()),
    }
}
