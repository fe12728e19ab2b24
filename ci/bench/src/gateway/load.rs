//! The load: persistent connections with a conversation on each, and the times of their requests.
//!
//! An answer counts if it has status 200, the expected number of words and `[DONE]`. Anything else is an error: the stream starts
//! a new conversation, on a new connection if the old one broke.

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
use crate::Failure;

const PATH: &str = "/v1/chat/completions";
/// An answer that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Error messages kept per round.
const MAX_FLAWS: usize = 3;
/// Characters kept of a refusal.
const MAX_REFUSAL_CHARS: usize = 200;

/// The server, and the shape of the requests.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) address: SocketAddr,
    /// Users among whom the streams are divided.
    pub(super) users: u32,
    /// Size to which bodies grow, bytes.
    pub(super) body: usize,
    /// Words per answer.
    pub(super) tokens: u32,
}

/// Arrival of requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// A stream sends its next request as soon as it has its answer.
    Full,
    /// Fixed rate per second, independent of earlier requests.
    Rate(u32),
}

/// A connection and its conversation.
#[derive(Debug)]
pub(super) struct Stream {
    asking: Arc<Asking>,
    authorization: String,
    talk: Talk,
    /// `None` before the first request and after the connection broke.
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// Results of a round. Times are in milliseconds.
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
    /// Bytes of all request bodies, and of the events of all answers.
    pub(super) body_bytes: u64,
    pub(super) answer_bytes: u64,
}

/// Why a request failed.
#[derive(Debug)]
enum Flaw {
    /// The server refused it.
    Refused(String),
    /// Anything else.
    Broken(String),
}

/// An answer as it comes.
#[derive(Debug, Default)]
struct Reading {
    /// An incomplete event.
    held: Vec<u8>,
    text: String,
    /// Arrival times of pieces with text.
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

/// Opens streams and gets one answer on each.
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

/// Sends this number of requests over the streams.
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
    /// Due time of a request by number; `None` if it is due at once.
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

    /// Conversations started so far.
    pub(super) fn conversations(&self) -> u64 {
        self.talk.conversations()
    }

    /// Sends a request when it is due, and reads the answer to its end.
    async fn ask(&mut self, due: Option<Instant>, seen: &mut Seen) {
        let body = self.talk.ask();
        seen.body_bytes += body.len() as u64;
        let now = Instant::now();
        let begun = match due {
            // The server is not responsible for a timer that fires late.
            Some(due) if due > now => {
                sleep_until(due).await;
                Instant::now()
            }
            Some(due) => due,
            None => now,
        };
        seen.late_ms.push(ms(begun, now.max(begun)));
        let exchanged = timeout(TIMEOUT, self.exchange(body)).await;
        match exchanged.unwrap_or_else(|_| Err(Flaw::Broken("timeout".to_owned()))) {
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

    /// Sends a request and reads its answer. A connection that fails is not used again.
    async fn exchange(&mut self, body: Bytes) -> Result<Reading, Flaw> {
        let mut sender = match self.sender.take() {
            // A server may close an idle connection.
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
            let said: String = String::from_utf8_lossy(&said).chars().take(MAX_REFUSAL_CHARS).collect();
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

/// Opens a connection; its task ends with it.
async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Flaw> {
    let stream = TcpStream::connect(address).await.map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(async move {
        // The request reports errors of the connection.
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
    /// Adds received bytes.
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
        // Comments keep a silent stream open.
        let Some(data) = event.strip_prefix(b"data: ") else { return Ok(()) };
        if data == b"[DONE]" {
            self.done = Some(now);
            return Ok(());
        }
        let wrong = |_| Flaw::Broken(format!("not a chunk: {}", String::from_utf8_lossy(data)));
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

    /// Checks that the answer is complete, with a word in each piece.
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
        if self.flaws.len() < MAX_FLAWS {
            self.flaws.push(why);
        }
    }

    fn merge(&mut self, other: Self) {
        self.first_ms.extend(other.first_ms);
        self.whole_ms.extend(other.whole_ms);
        self.gap_ms.extend(other.gap_ms);
        self.late_ms.extend(other.late_ms);
        self.flaws.extend(other.flaws);
        self.flaws.truncate(MAX_FLAWS);
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
    fn answer_is_read_from_any_split() {
        for cut in [1, 7, 80, 10_000] {
            check(STREAM, cut, true);
        }
    }

    #[test]
    fn incomplete_answer_is_an_error() {
        check(&STREAM.replace("data: [DONE]\n\n", ""), 80, false);
        check(&STREAM.replace(" w002", " w2"), 80, false);
        check(&STREAM.replace("\"stop\"", "null"), 80, false);
        check(&STREAM.replace("{\"choices\":[{\"delta\":{}", "{\"error\":[{\"delta\":{}"), 80, false);
        check(&format!("{STREAM}data: "), 80, false);
    }

    #[test]
    fn due_follows_rate() {
        let begin = Instant::now();
        assert_eq!(Pace::Full.due(begin, 5), None);
        assert_eq!(Pace::Rate(4).due(begin, 5), Some(begin + Duration::from_millis(1250)));
    }
}
