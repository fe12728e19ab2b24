//! The load: connections that are held, a conversation on each, and what their requests take.
//!
//! An answer counts when its stream has its status, as many words as there are to be, and `[DONE]`; anything else is an error, and the
//! conversation begins anew, on a new connection where the old one broke.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::serving;
use super::stub::WORD_BYTES;
use super::talk::Talk;
use crate::terminals::Failure;

const PATH: &str = "/v1/chat/completions";
/// An answer that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Reasons that a round keeps.
const FLAWS: usize = 3;
/// Characters of a refusal that are told.
const TOLD: usize = 200;

/// Who is asked, and for what.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) address: SocketAddr,
    /// Keys among which the streams are dealt out.
    pub(super) users: u32,
    /// Bytes that bodies grow to.
    pub(super) body: usize,
    /// Words of an answer.
    pub(super) tokens: u32,
}

/// How requests come.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// A stream asks as soon as it has its answer.
    Full,
    /// So many a second, whatever becomes of earlier ones.
    Rate(u32),
}

/// A connection and its conversation.
#[derive(Debug)]
pub(super) struct Stream {
    asking: Arc<Asking>,
    authorization: String,
    talk: Talk,
    /// Nothing before the first request, and where the connection broke.
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// What the requests of a round came to. Times are in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) first_ms: Vec<f64>,
    pub(super) whole_ms: Vec<f64>,
    pub(super) gap_ms: Vec<f64>,
    pub(super) late_ms: Vec<f64>,
    pub(super) answers: u64,
    pub(super) errors: u64,
    pub(super) refused: u64,
    pub(super) flaws: Vec<String>,
    /// Of all requests, and of the events of all answers.
    pub(super) body_bytes: u64,
    pub(super) answer_bytes: u64,
}

/// Why a request has no answer.
#[derive(Debug)]
enum Flaw {
    /// The server said so.
    Refused(String),
    /// Anything else.
    Broken(String),
}

/// An answer as it comes.
#[derive(Debug, Default)]
struct Reading {
    /// An event that is not whole.
    held: Vec<u8>,
    text: String,
    /// When pieces that say something came.
    pieces: Vec<Instant>,
    has_finish: bool,
    done: Option<Instant>,
    bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Vec<Choice>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    #[serde(default)]
    content: String,
}

/// Streams, each of which has had one answer.
pub(super) async fn open(asking: &Arc<Asking>, streams: u32) -> Result<Vec<Stream>, Failure> {
    let mut running = JoinSet::new();
    for number in 0..streams {
        let mut stream = Stream::new(Arc::clone(asking), number);
        running.spawn(async move {
            let mut seen = Seen::default();
            stream.ask(None, &mut seen).await;
            (stream, seen)
        });
    }
    let (streams, seen) = joined(running).await?;
    match seen.flaws.first() {
        Some(flaw) => Err(format!("no answer in the warm-up: {flaw}").into()),
        None => Ok(streams),
    }
}

/// So many requests over these streams.
pub(super) async fn drive(
    streams: Vec<Stream>,
    requests: u64,
    pace: Pace,
) -> Result<(Vec<Stream>, Seen), Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for mut stream in streams {
        let next = Arc::clone(&next);
        running.spawn(async move {
            let mut seen = Seen::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return (stream, seen);
                }
                stream.ask(pace.due(begin, number), &mut seen).await;
            }
        });
    }
    joined(running).await
}

async fn joined(mut running: JoinSet<(Stream, Seen)>) -> Result<(Vec<Stream>, Seen), Failure> {
    let (mut streams, mut all) = (Vec::new(), Seen::default());
    while let Some(ended) = running.join_next().await {
        let (stream, seen) = ended?;
        streams.push(stream);
        all.merge(seen);
    }
    Ok((streams, all))
}

impl Pace {
    /// When the request of this number is due; nothing where that is now.
    fn due(self, begin: Instant, number: u64) -> Option<Instant> {
        match self {
            Self::Full => None,
            Self::Rate(rate) => Some(begin + Duration::from_secs_f64(number as f64 / f64::from(rate))),
        }
    }
}

impl Stream {
    fn new(asking: Arc<Asking>, number: u32) -> Self {
        let authorization = format!("Bearer {}", serving::key(number % asking.users));
        let talk = Talk::new(number, asking.body);
        Self { asking, authorization, talk, sender: None }
    }

    /// Conversations that it has begun.
    pub(super) fn conversations(&self) -> u64 {
        self.talk.conversations()
    }

    /// Asks once, when it is due, and reads the answer to its end.
    async fn ask(&mut self, due: Option<Instant>, seen: &mut Seen) {
        let body = self.talk.ask();
        seen.body_bytes += body.len() as u64;
        let now = Instant::now();
        let begun = match due {
            // That a timer wakes late is not the server's doing.
            Some(due) if due > now => {
                sleep_until(due).await;
                Instant::now()
            }
            Some(due) => due,
            None => now,
        };
        seen.late_ms.push(ms(begun, now.max(begun)));
        let exchanged = timeout(PATIENCE, self.exchange(body)).await;
        match exchanged.unwrap_or_else(|_| Err(Flaw::Broken("no end in time".to_owned()))) {
            Ok(reading) => {
                self.talk.answered(&reading.text);
                seen.add(begun, &reading);
            }
            Err(flaw) => {
                self.talk.forget();
                seen.flawed(flaw);
            }
        }
    }

    /// Sends a request and reads its answer. A connection on which that fails is not used again.
    async fn exchange(&mut self, body: Bytes) -> Result<Reading, Flaw> {
        let mut sender = match self.sender.take() {
            // A server may close what has rested for long.
            Some(sender) if !sender.is_closed() => sender,
            _ => connect(self.asking.address).await?,
        };
        let request = Request::post(PATH)
            .header(HOST, self.asking.address.to_string())
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(broken)?;
        sender.ready().await.map_err(broken)?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let (status, mut body) = (response.status(), response.into_body());
        if status != StatusCode::OK {
            let said = body.collect().await.map_err(broken)?.to_bytes();
            let said: String = String::from_utf8_lossy(&said).chars().take(TOLD).collect();
            self.sender = Some(sender);
            return Err(Flaw::Refused(format!("{status}: {said}")));
        }
        let mut reading = Reading::default();
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame.map_err(broken)?.data_ref() {
                reading.take(data)?;
            }
        }
        reading.check(self.asking.tokens)?;
        self.sender = Some(sender);
        Ok(reading)
    }
}

/// A connection; its task ends with it.
async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Flaw> {
    let stream = TcpStream::connect(address).await.map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(async move {
        // What is wrong with it, its request hears.
        let _ = connection.await;
    });
    Ok(sender)
}

fn broken(error: impl Display) -> Flaw {
    Flaw::Broken(error.to_string())
}

fn ms(from: Instant, to: Instant) -> f64 {
    (to - from).as_secs_f64() * 1e3
}

impl Reading {
    /// Takes what has come.
    fn take(&mut self, data: &[u8]) -> Result<(), Flaw> {
        let now = Instant::now();
        self.bytes += data.len() as u64;
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(data);
        let mut begin = 0;
        while let Some(length) = held[begin..].windows(2).position(|pair| pair == b"\n\n") {
            self.event(&held[begin..begin + length], now)?;
            begin += length + 2;
        }
        held.drain(..begin);
        self.held = held;
        Ok(())
    }

    fn event(&mut self, event: &[u8], now: Instant) -> Result<(), Flaw> {
        // A comment keeps a silent stream open.
        let Some(data) = event.strip_prefix(b"data: ") else { return Ok(()) };
        if data == b"[DONE]" {
            self.done = Some(now);
            return Ok(());
        }
        let wrong = |_| Flaw::Broken(format!("no chunk: {}", String::from_utf8_lossy(data)));
        let chunk: Chunk = serde_json::from_slice(data).map_err(wrong)?;
        for Choice { delta, finish_reason } in chunk.choices {
            if !delta.content.is_empty() {
                self.pieces.push(now);
                self.text += &delta.content;
            }
            self.has_finish |= finish_reason.is_some();
        }
        Ok(())
    }

    /// That all of the answer has come: a word in each piece.
    fn check(&self, tokens: u32) -> Result<(), Flaw> {
        let tokens = tokens as usize;
        let is_whole = self.done.is_some() && self.has_finish && self.held.is_empty();
        if is_whole && self.pieces.len() == tokens && self.text.len() == tokens * WORD_BYTES {
            return Ok(());
        }
        Err(Flaw::Broken(format!(
            "an answer of {} pieces with {} bytes instead of {tokens} with {}; finish {}, done {}",
            self.pieces.len(),
            self.text.len(),
            tokens * WORD_BYTES,
            self.has_finish,
            self.done.is_some(),
        )))
    }
}

impl Seen {
    fn add(&mut self, begun: Instant, reading: &Reading) {
        let Reading { pieces, done, bytes, .. } = reading;
        self.answers += 1;
        self.answer_bytes += bytes;
        self.first_ms.extend(pieces.first().map(|first| ms(begun, *first)));
        self.whole_ms.extend(done.map(|done| ms(begun, done)));
        self.gap_ms.extend(pieces.windows(2).map(|pair| ms(pair[0], pair[1])));
    }

    fn flawed(&mut self, flaw: Flaw) {
        let why = match flaw {
            Flaw::Refused(why) => {
                self.refused += 1;
                why
            }
            Flaw::Broken(why) => {
                self.errors += 1;
                why
            }
        };
        if self.flaws.len() < FLAWS {
            self.flaws.push(why);
        }
    }

    fn merge(&mut self, other: Self) {
        self.first_ms.extend(other.first_ms);
        self.whole_ms.extend(other.whole_ms);
        self.gap_ms.extend(other.gap_ms);
        self.late_ms.extend(other.late_ms);
        self.flaws.extend(other.flaws);
        self.flaws.truncate(FLAWS);
        self.answers += other.answers;
        self.errors += other.errors;
        self.refused += other.refused;
        self.body_bytes += other.body_bytes;
        self.answer_bytes += other.answer_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n\
                          : keepalive\n\n\
                          data: {\"choices\":[{\"delta\":{\"content\":\" w001\"},\"finish_reason\":null}]}\n\n\
                          data: {\"choices\":[{\"delta\":{\"content\":\" w002\"},\"finish_reason\":null}]}\n\n\
                          data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
                          data: [DONE]\n\n";

    /// Whether `stream`, in pieces of `cut` bytes, is an answer of two words.
    fn check(stream: &str, cut: usize, expected: bool) {
        let mut reading = Reading::default();
        let taken = stream.as_bytes().chunks(cut).try_for_each(|data| reading.take(data));
        let is_whole = taken.and_then(|()| reading.check(2)).is_ok();
        assert_eq!(is_whole, expected, "{stream} in pieces of {cut}");
    }

    #[test]
    fn an_answer_is_read_however_it_is_cut() {
        for cut in [1, 7, 80, 10_000] {
            check(STREAM, cut, true);
        }
    }

    #[test]
    fn what_is_not_whole_is_an_error() {
        check(&STREAM.replace("data: [DONE]\n\n", ""), 80, false);
        check(&STREAM.replace(" w002", " w2"), 80, false);
        check(&STREAM.replace("\"stop\"", "null"), 80, false);
        check(&STREAM.replace("{\"choices\":[{\"delta\":{}", "{\"error\":[{\"delta\":{}"), 80, false);
        check(&format!("{STREAM}data: "), 80, false);
    }

    #[test]
    fn requests_are_due_at_their_rate() {
        let begin = Instant::now();
        assert_eq!(Pace::Full.due(begin, 5), None);
        assert_eq!(Pace::Rate(4).due(begin, 5), Some(begin + Duration::from_millis(1250)));
    }
}
