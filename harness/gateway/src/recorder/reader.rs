//! Reads beside the writing thread, on a separate connection: reading never delays writing.
//!
//! I1. A call reads one snapshot. I2. Nothing is held open between calls, so that a slow export does not keep deleted data in the file.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use serde_json::json;

use super::RecorderHandle;
use crate::ledger;
use crate::{LedgerError, RequestId, TurnId, UserId};

/// The connection. Calls wait for each other.
#[derive(Debug)]
pub(crate) struct Reader {
    connection: Mutex<Connection>,
}

impl Reader {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection: Mutex::new(connection) }
    }

    /// Runs a query on a blocking thread. It runs to its end even if the caller is gone.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let reader = Arc::clone(self);
        let asked = move || {
            // A panic leaves nothing half done.
            let connection = reader.connection.lock().unwrap_or_else(PoisonError::into_inner);
            let moment = connection.unchecked_transaction()?;
            question(&moment)
        };
        tokio::task::spawn_blocking(asked).await.map_err(|_| LedgerError::Ended)?
    }
}

/// Everything that is recorded of a user, line by line: the first is the JSON object `{"user": ..}`, the others are `{"turn": ..}`, oldest
/// first.
#[derive(Debug)]
pub struct Export {
    recorder: RecorderHandle,
    user: UserId,
    /// The last exported turn; `None` before the first line.
    after: Option<TurnId>,
}

impl Export {
    pub(crate) fn new(recorder: RecorderHandle, user: UserId) -> Self {
        Self { recorder, user, after: None }
    }

    /// The next line, without its line feed; `None` at the end. An unknown user has no lines.
    ///
    /// # Errors
    /// [`LedgerError::Storage`].
    pub async fn next(&mut self) -> Result<Option<String>, LedgerError> {
        let user = self.user.clone();
        let Some(after) = self.after else {
            let found = self.recorder.read(move |connection| ledger::user(connection, &user)).await;
            self.after = Some(TurnId(RequestId(0)));
            return match found {
                Ok(user) => Ok(Some(json!({ "user": user }).to_string())),
                Err(LedgerError::Unknown(_)) => Ok(None),
                Err(error) => Err(error),
            };
        };
        let question = move |connection: &Connection| {
            let Some(turn) = ledger::turn_after(connection, &user, after)? else { return Ok(None) };
            Ok(Some((turn, ledger::turn(connection, &user, turn)?)))
        };
        let Some((turn, view)) = self.recorder.read(question).await? else { return Ok(None) };
        self.after = Some(turn);
        let line = serde_json::to_string(&view).map_err(|error| LedgerError::Storage(error.to_string()))?;
        Ok(Some(format!("{{\"turn\":{line}}}")))
    }
}
