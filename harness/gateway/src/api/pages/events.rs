//! What has changed, as server-sent events.
//!
//! I1. An event says what has changed and where, in numbers and words of ours: never what was said. I2. Everybody is told of their own. I3. Nobody
//! waits for a reader: one who does not keep up is dropped, comes again, and looks at everything. I4. A stream ends with the login, and with
//! the server.
//!
//! Cancellation: a stream that is dropped holds nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::document::{self, NoPage};
use super::login::Visitor;
use crate::api::gateway::Gateway;
use crate::recorder::{LedgerEvent, Live};

/// `GET /events`.
pub(super) async fn events(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
) -> Response<Body> {
    let Ok(place) = gateway.watchers.take(&visitor.user) else {
        let why = NoPage::new(StatusCode::SERVICE_UNAVAILABLE, "Too many pages watch already.");
        return document::none(&why, None);
    };
    let watch = Watch {
        changes: gateway.recorder.events(),
        visitor,
        ending: gateway.ending.clone(),
        keep_alive: gateway.settings.keep_alive,
        has_begun: false,
        _place: place,
    };
    document::sent(StatusCode::OK, "text/event-stream", Body::from_stream(stream(watch)))
}

/// `_place` is what is given back at the end.
struct Watch<P> {
    changes: broadcast::Receiver<LedgerEvent>,
    visitor: Visitor,
    ending: CancellationToken,
    keep_alive: Duration,
    has_begun: bool,
    _place: P,
}

fn stream<P>(watch: Watch<P>) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
    unfold(watch, |mut watch| async move {
        if !std::mem::replace(&mut watch.has_begun, true) {
            return Some((Ok(Bytes::from_static(b"data: {\"what\":\"watching\"}\n\n")), watch));
        }
        let piece = watch.next().await?;
        Some((Ok(piece), watch))
    })
}

impl<P> Watch<P> {
    /// The next piece; nothing at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let Visitor { user, until, ended, .. } = &self.visitor;
        let over = async {
            match until {
                Some(until) => sleep_until(*until).await,
                None => std::future::pending().await,
            }
        };
        let change = async {
            loop {
                match self.changes.recv().await {
                    Ok(event) if event.user == *user => return Some(event),
                    Ok(_) => {}
                    // It did not keep up, or there is no recorder any more.
                    Err(_) => return None,
                }
            }
        };
        tokio::select! {
            () = self.ending.cancelled() => None,
            () = ended.cancelled() => None,
            () = over => None,
            change = change => change.map(|event| told(&event)),
            () = sleep(self.keep_alive) => Some(Bytes::from_static(b": keepalive\n\n")), // timer: what a quiet stream is held open by
        }
    }
}

fn told(event: &LedgerEvent) -> Bytes {
    let session = event.session.map(|session| session.0.0);
    let turn = event.turn.map(|turn| turn.0.0);
    let event = json!({"what": word(event.what), "session": session, "turn": turn});
    Bytes::from(format!("data: {event}\n\n"))
}

fn word(what: Live) -> &'static str {
    match what {
        Live::SessionOpened => "session opened",
        Live::SessionClosed => "session closed",
        Live::EpochClosed => "epoch closed",
        Live::TurnOpened => "turn opened",
        Live::Retried => "retried",
        Live::Answered => "answered",
        Live::Unanswered => "unanswered",
        Live::NextState => "next state",
        Live::Feedback => "feedback",
        Live::Judged => "judged",
        Live::Learned => "learned",
        Live::Consent => "consent",
        Live::Deleted => "deleted",
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tokio::time::Instant;

    use super::*;
    use crate::{RequestId, SessionId, UserId};

    fn watch(changes: broadcast::Receiver<LedgerEvent>) -> Watch<()> {
        Watch {
            changes,
            visitor: Visitor::with_key(UserId("ada".to_owned())),
            ending: CancellationToken::new(),
            keep_alive: Duration::from_secs(10),
            has_begun: false,
            _place: (),
        }
    }

    fn event(user: &str, session: u64) -> LedgerEvent {
        let session = Some(SessionId(RequestId(session)));
        LedgerEvent { user: UserId(user.to_owned()), session, turn: None, what: Live::SessionOpened }
    }

    #[tokio::test(start_paused = true)]
    async fn i2_everybody_is_told_of_their_own() {
        let (live, changes) = broadcast::channel(8);
        live.send(event("bob", 1)).unwrap();
        live.send(event("ada", 2)).unwrap();
        let pieces: Vec<_> = stream(watch(changes)).take(3).map(Result::unwrap).collect().await;
        let expected = [
            "data: {\"what\":\"watching\"}\n\n",
            "data: {\"session\":2,\"turn\":null,\"what\":\"session opened\"}\n\n",
            ": keepalive\n\n",
        ];
        assert_eq!(pieces, expected);
    }

    #[tokio::test]
    async fn i3_who_does_not_keep_up_is_dropped() {
        let (live, changes) = broadcast::channel(2);
        let mut slow = Box::pin(stream(watch(changes)));
        slow.next().await.unwrap().unwrap();
        for session in 0..9 {
            // Nothing here waits for the reader.
            live.send(event("ada", session)).unwrap();
        }
        assert_eq!(slow.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn i4_streams_end() {
        let (_live, changes) = broadcast::channel(2);
        let check = async |change: &dyn Fn(&mut Watch<()>)| {
            let mut watch = watch(changes.resubscribe());
            watch.has_begun = true;
            change(&mut watch);
            assert_eq!(Box::pin(stream(watch)).next().await, None);
        };
        check(&|watch| watch.ending.cancel()).await;
        check(&|watch| watch.visitor.ended.cancel()).await;
        check(&|watch| watch.visitor.until = Some(Instant::now())).await;
    }
}
