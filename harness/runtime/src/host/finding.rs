//! One result of the host's examination.

use serde::Serialize;

/// The state of one thing on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// No limitation.
    Ok,
    /// Runs work with limitations.
    Warn,
    /// Runs do not work without it.
    Missing,
}

/// One thing on the host that was examined.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Stable name.
    pub name: &'static str,
    /// Health of the examined thing.
    pub health: Health,
    /// The observation, in one line.
    pub found: String,
    /// How to improve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// Nothing to improve.
    pub fn ok(name: &'static str, found: &str) -> Self {
        Self { name, health: Health::Ok, found: found.to_owned(), advice: None }
    }

    /// A limitation, with advice.
    pub fn bad(name: &'static str, health: Health, found: String, advice: impl Into<String>) -> Self {
        Self { name, health, found, advice: Some(advice.into()) }
    }
}
