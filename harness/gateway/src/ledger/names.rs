//! Names of variants in the ledger.

use crate::{Closing, EpochEnd, Evidence, LedgerError, Match, NewMessageKind, TurnKind};

pub(crate) fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Extension => "extension",
        Evidence::Affinity => "affinity",
        Evidence::RuntimeLine => "runtime line",
        Evidence::UserField => "user field",
        Evidence::Content => "content",
    }
}

/// Kind of a turn, and the reason.
pub(crate) fn kind(kind: &TurnKind) -> (&'static str, Option<String>) {
    match kind {
        TurnKind::Main => ("main", None),
        TurnKind::Side(mark) => ("side", Some(mark.to_string())),
        TurnKind::Unknown(doubt) => ("unknown", Some(doubt.to_string())),
    }
}

pub(crate) fn closing(why: Closing) -> &'static str {
    match why {
        Closing::Flag => "flag",
        Closing::Endpoint => "endpoint",
        Closing::Idle => "idle",
    }
}

pub(crate) fn epoch_end(why: EpochEnd) -> &'static str {
    match why {
        EpochEnd::Number => "number",
        EpochEnd::HistoryReplaced => "history replaced",
    }
}

pub(crate) fn found_by(by: Match) -> &'static str {
    match by {
        Match::History => "history",
        Match::CallIds => "call ids",
        Match::Exchange => "exchange",
    }
}

/// Kind of a message of a next state, and the index of its call.
pub(crate) fn message(kind: NewMessageKind) -> (&'static str, Option<usize>) {
    match kind {
        NewMessageKind::ToolResult(call) => ("tool result", call),
        NewMessageKind::User => ("user", None),
        NewMessageKind::SystemEvent => ("system event", None),
    }
}

/// Serializes a value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, LedgerError> {
    serde_json::to_string(value).map_err(|error| LedgerError::Refused(error.to_string()))
}

/// Parses JSON of the ledger.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, LedgerError> {
    serde_json::from_str(text)
        .map_err(|error| LedgerError::Storage(format!("invalid JSON in a row: {error}")))
}
