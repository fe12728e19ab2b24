//! `/`: statistics of the server, recent activity, and the visitor's sessions.

use serde_json::json;

use super::document::{Page, PageError};
use super::login::Visitor;
use super::render::count;
use crate::SessionId;
use crate::api::gateway::Gateway;

/// Sessions per page.
const SESSIONS: u32 = 50;

pub(super) async fn page(
    gateway: &Gateway,
    visitor: &Visitor,
    before: Option<SessionId>,
) -> Result<Page, PageError> {
    // One more, to know whether there is another page.
    let wanted = crate::Page { before, limit: SESSIONS + 1 };
    let mut sessions = gateway.recorder.sessions(Some(&visitor.user), wanted).await?;
    let has_more = sessions.len() > SESSIONS as usize;
    sessions.truncate(SESSIONS as usize);
    let activity = &gateway.metrics.activity;
    let context = json!({
        "sessions": sessions,
        "has_more": has_more,
        "is_first": before.is_none(),
        "stats": stats(gateway),
        "unrecorded": gateway.metrics.unrecorded.get(),
        "own": activity.last_hour(Some(&visitor.user)),
        "all": activity.last_hour(None),
    });
    Page::new("Chats", "chats", &context)
}

/// Values with their labels.
fn stats(gateway: &Gateway) -> [(String, String); 5] {
    let metrics = &gateway.metrics;
    let wait = |share| match metrics.first_token.quantile(share) {
        Some(wait) if wait.as_millis() < 1000 => format!("{} ms", wait.as_millis()),
        Some(wait) => format!("{} s", wait.as_secs_f64()),
        None if metrics.first_token.count() == 0 => "none yet".to_owned(),
        None => "over 60 s".to_owned(),
    };
    [
        (metrics.requests.get().to_string(), "requests since the server started".to_owned()),
        (
            metrics.answers.get().to_string(),
            format!("answers; {} failed", count(metrics.failures.get(), "request", "requests")),
        ),
        (format!("{:.1}", metrics.recent.rate()), "tokens per second, last minute".to_owned()),
        (gateway.answer_limit.in_use().to_string(), "answers in progress".to_owned()),
        (wait(0.5), format!("time to first token, p50; p95: {}", wait(0.95))),
    ]
}
