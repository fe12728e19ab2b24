//! `/sessions/N`: a session and its turns.

use serde::Serialize;
use serde_json::json;

use super::document::{Page, PageError};
use super::login::Visitor;
use super::training_outcome::TrainingOutcome;
use crate::api::gateway::Gateway;
use crate::{SessionId, TurnId, TurnView};

/// Turns per page.
const TURNS: u32 = 25;

pub(super) async fn page(
    gateway: &Gateway,
    visitor: &Visitor,
    id: SessionId,
    before: Option<TurnId>,
) -> Result<Page, PageError> {
    // One more, to know whether there is another page.
    let (session, mut turns) = gateway.recorder.outline(&visitor.user, id, (before, TURNS + 1)).await?;
    let has_more = turns.len() > TURNS as usize;
    turns.truncate(TURNS as usize);
    let words = session.title.as_ref().map(|title| format!(": {title}")).unwrap_or_default();
    let turns: Vec<Entry<'_>> = turns.iter().map(Entry::of).collect();
    let context = json!({"session": session, "turns": turns, "has_more": has_more, "proof": visitor.proof});
    let page = Page::new(format!("Session {id}{words}"), "session", &context)?;
    Ok(Page { session: Some(id), ..page })
}

/// A turn in the list.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    turn: &'a TurnView,
    /// The text of the last answer.
    answer: Option<&'a str>,
    training: TrainingOutcome,
}

impl<'a> Entry<'a> {
    fn of(turn: &'a TurnView) -> Self {
        let answer = turn.requests.iter().flat_map(|request| &request.answers).next_back();
        let answer = answer.and_then(|answer| answer.text.as_deref());
        let answer = answer.filter(|text| !text.trim().is_empty());
        Self { turn, answer, training: TrainingOutcome::of(turn) }
    }
}
