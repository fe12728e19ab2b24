//! The ledger's file: creation, lock, schema.
//!
//! I1. One process writes at a time: it holds a lock file beside the ledger. The ledger itself is not locked, because SQLite's locks are
//! lost when any code of the process closes the file. I2. Foreign files, and files of newer programs, are refused by name and not touched.
//! I3. Only the owner can read it. I4. Commits survive power loss; deleted data is overwritten.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::{FileError, LedgerError};

const SCHEMA: &str = include_str!("schema.sql");
/// Version of `schema.sql` and `contents.sql`; SQLite's `user_version`.
const VERSION: i64 = 6;
/// Tables that versions before 3 lack.
const CONTENTS: &str = include_str!("contents.sql");
/// Indexes that versions before 3 have. Version 1 encodes ids differently, which the ids show.
const BEFORE_3: &str = "DROP INDEX requests_of_session; DROP INDEX happenings_of_request;";
/// Columns that version 3 lacks. It compresses contents differently, which the contents show.
const FROM_3: &str = "ALTER TABLE bodies ADD COLUMN elsewhere INTEGER NOT NULL DEFAULT 0 CHECK (elsewhere IN (0, 1)); \
                      ALTER TABLE prompts ADD COLUMN elsewhere INTEGER NOT NULL DEFAULT 0 CHECK (elsewhere IN (0, 1)); \
                      CREATE INDEX bodies_elsewhere ON bodies (base) WHERE elsewhere = 1; \
                      CREATE INDEX prompts_elsewhere ON prompts (base) WHERE elsewhere = 1;";
/// Indexes that versions before 4 have.
const BEFORE_4: &str =
    "DROP INDEX happenings_of_session; DROP INDEX turns_of_user; DROP INDEX turns_of_parent;";
/// Columns that versions before 5 lack.
const BEFORE_5: &str = "ALTER TABLE feedback ADD COLUMN answered INTEGER; \
                        ALTER TABLE feedback ADD COLUMN choice INTEGER;";
/// Columns that versions before 6 lack.
const BEFORE_6: &str = "ALTER TABLE turns ADD COLUMN said TEXT CHECK (deleted_ms IS NULL OR said IS NULL);";
/// Marks our files: "claw".
const APPLICATION: i64 = 0x636c_6177;
/// For a reader of this process, or another program that looks at the file.
const BUSY: Duration = Duration::from_secs(5);
/// Larger than the number of statements, so that all stay prepared.
const STATEMENTS: usize = 128;

/// Exclusive access to the file while it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Closing it releases the lock.
    _file: File,
}

/// Locks the ledger at `path` for this process, and creates it if needed.
pub(crate) fn create(path: &Path) -> Result<Lock, LedgerError> {
    let flaw = |flaw| LedgerError::File { path: path.to_owned(), flaw };
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    let file = private().create(true).truncate(false).open(&lock).map_err(|error| flaw(denied(&error)))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(flaw(FileError::InUse(lock))),
        Err(TryLockError::Error(error)) => return Err(flaw(FileError::Failed(error.to_string()))),
    }
    // So that the file and SQLite's files beside it get this mode (I3). An existing file is not touched (I1).
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

fn denied(error: &std::io::Error) -> FileError {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => FileError::ReadOnly(error.to_string()),
        _ => FileError::Failed(error.to_string()),
    }
}

/// The connection that writes. Brings the file to the current schema.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let mut connection = open(path, flags)?;
        let found = known_version(&connection)?;
        if found > VERSION {
            return Ok(Err(FileError::Newer { found, known: VERSION }));
        }
        let is_writable = !connection.is_readonly(rusqlite::MAIN_DB)?;
        if !is_writable {
            return Ok(Err(FileError::ReadOnly("it was opened for reading only".to_owned())));
        }
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        // Checked in debug builds only: this program makes every reference, and checking takes a third of a request's time.
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

/// A connection that reads, beside the writer.
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

/// Version of the schema: 0 for an empty file. An error for foreign files.
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

fn refused(error: &rusqlite::Error) -> FileError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => FileError::NotALedger,
        Some(rusqlite::ErrorCode::ReadOnly) => FileError::ReadOnly(error.to_string()),
        _ => FileError::Failed(error.to_string()),
    }
}
