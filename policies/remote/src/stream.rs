//! A model behind a server whose responses are streamed to clients.
//!
//! I1. Before the first piece of a response, a failed request is retried after a pause, within the settings' number of
//! tries; after it, an error ends the response. I2. A place is held while a response arrives, and never during the wait
//! before a retry. I3. The reader's own time does not count as the server's silence. I4. No piece or error contains the
//! key.
//!
//! Errors: [`StreamError`]. Cancellation: dropping the future of [`RemoteModel::begin`], or the stream, closes the connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{RemoteDialect, RemoteSpec, TokenSource};
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::backoff;
use crate::exchange::{ContentKind, Pieces, Server, Until, garbled_events};
use crate::listed::{Listed, listed};
use crate::openai_stream::{OpenaiStream, RemotePiece};
use crate::passed_on::{self, Drawn, PassedOn, Request};
use crate::policy::{RemoteError, server_of};
use crate::reply::Heard;
use crate::secret::Secret;
use crate::sse::{Event, SseReader};
use crate::status::broken_off;
use crate::trouble::{Remedy, Trouble};

/// Maximum wait for the first piece while the server sends only keep-alives.
const LONGEST_BEGINNING: Duration = Duration::from_secs(3_600);

/// Maximum pause requested by a server that is waited for; a longer one is reported to the client.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A model that answers clients' requests. Shared by all of them.
#[derive(Debug)]
pub struct RemoteModel {
    settings: RemoteSpec,
    server: Arc<Server>,
    places: Arc<Semaphore>,
    key: Option<Secret>,
}

/// Why the response is missing or broke off. Texts are bounded and without the key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The server refuses the request; the text is the server's and may be shown to the client.
    #[error("{0}")]
    Refused(String),
    /// The conversation is too long for the model; the text is the server's and may be shown to the client.
    #[error("{0}")]
    TooLong(String),
    /// A temporary error.
    #[error("{message}")]
    Later {
        /// Name of the fault, as in the crate's documentation.
        code: &'static str,
        /// For the log.
        message: String,
        /// The requested delay before the next request.
        retry_after: Option<Duration>,
    },
    /// A permanent error that the request did not cause: key, address, model name, account.
    #[error("{message}")]
    Settings {
        /// Name of the fault.
        code: &'static str,
        /// For the log.
        message: String,
    },
}

impl RemoteModel {
    /// Creates a model; sends no request.
    ///
    /// # Errors
    /// [`RemoteError`] for settings that no request can be made of, if the dialect is not OpenAI's, or if its tokens cannot
    /// be streamed.
    pub fn new(settings: RemoteSpec, key: Option<Secret>) -> Result<Self, RemoteError> {
        if settings.dialect != RemoteDialect::Openai {
            return Err(RemoteError::Settings("requests are passed on in the dialect `openai` alone"));
        }
        if settings.exact_tokens == Some(TokenSource::Sglang) {
            let why = "`exact_tokens: sglang` gives tokens in answers that come whole, and chat is streamed; leave it out";
            return Err(RemoteError::Settings(why));
        }
        let server = Arc::new(server_of(&settings, key.clone())?);
        let places = Arc::new(Semaphore::new(settings.concurrency as usize));
        Ok(Self { settings, server, places, key })
    }

    /// Sampling options for a client's body.
    #[must_use]
    pub fn drawn(&self, body: &Map<String, Value>) -> Drawn {
        passed_on::drawn(&self.settings, body)
    }

    /// Sends a request and waits for the first piece (I1).
    ///
    /// # Errors
    /// [`StreamError`] if the server does not answer.
    pub async fn begin(&self, asked: &PassedOn<'_>) -> Result<RemoteStream, StreamError> {
        let request = passed_on::request(&self.settings, asked);
        let mut tries = 0;
        loop {
            let trouble = match self.begin_once(&request).await {
                Ok(stream) => return Ok(stream),
                Err(trouble) => trouble,
            };
            tries += 1;
            tracing::debug!(tries, code = trouble.code, "no answer");
            let wait = trouble.retry_after.unwrap_or_else(|| backoff::wait(asked.seed, tries));
            // A rate limit is reported to the client, which has its own way to wait.
            let is_final = matches!(trouble.code, "rate-limited" | "no-place") || wait > LONGEST_PAUSE;
            if is_final || tries >= trouble.tries(self.settings.tries) {
                return Err(stream_error(trouble, tries));
            }
            sleep(wait).await; // timer: a pause between requests is what back-off is
        }
    }

    /// Checks by the list of models that the server is reachable and accepts the key.
    ///
    /// # Errors
    /// [`StreamError`] if the server does not answer.
    pub async fn ready(&self) -> Result<(), StreamError> {
        let until = Until { give_up: Instant::now() + self.settings.patience.first_byte };
        self.server.get("models", until).await.map(drop).map_err(|trouble| stream_error(trouble, 1))
    }

    /// Reads the server's list of models.
    ///
    /// # Errors
    /// As of [`Self::ready`].
    pub async fn look(&self) -> Result<Listed, StreamError> {
        let until = Until { give_up: Instant::now() + self.settings.patience.first_byte };
        let list = self.server.get("models", until).await.map_err(|trouble| stream_error(trouble, 1))?;
        Ok(listed(&list, &self.settings.model, self.key.as_ref()))
    }

    /// URL of the server, for messages.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.settings.base_url
    }

    /// Name of the model on the server.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    async fn begin_once(&self, request: &Request) -> Result<RemoteStream, Trouble> {
        let place =
            timeout(self.settings.patience.first_byte, Arc::clone(&self.places).acquire_owned()).await;
        // The semaphore is never closed, so an error is a timeout.
        let Ok(Ok(place)) = place else {
            let many = self.settings.concurrency;
            let message =
                format!("none of the {many} places for requests was free in time; raise `concurrency`");
            return Err(Trouble::later("no-place", message));
        };
        let until = Until { give_up: Instant::now() + LONGEST_BEGINNING };
        let (kind, pieces) = self.server.open(request.route, request.body.clone(), until).await?;
        let mut stream = RemoteStream {
            server: Arc::clone(&self.server),
            pieces,
            sse: SseReader::default(),
            reader: Some(OpenaiStream::new(request.tokens, self.key.clone())),
            prompt_ids: None,
            known: VecDeque::new(),
            begun: false,
            trouble: None,
            _place: place,
        };
        let begun = match kind {
            ContentKind::Json => stream.take_whole().await,
            ContentKind::Events | ContentKind::Other(_) => stream.take_beginning().await,
        };
        match begun {
            Ok(()) => Ok(stream),
            Err(trouble) => Err(self.server.cleaned(trouble)),
        }
    }
}

/// A response that is arriving.
#[derive(Debug)]
pub struct RemoteStream {
    server: Arc<Server>,
    pieces: Pieces,
    sse: SseReader,
    /// `None` after the end.
    reader: Option<OpenaiStream>,
    prompt_ids: Option<Arc<[u32]>>,
    known: VecDeque<RemotePiece>,
    /// Whether a part of the response has arrived.
    begun: bool,
    /// Error to report after the known pieces.
    trouble: Option<Trouble>,
    _place: OwnedSemaphorePermit,
}

impl RemoteStream {
    /// Token ids of the prompt, if the server reports them.
    #[must_use]
    pub fn prompt_ids(&self) -> Option<Arc<[u32]>> {
        self.prompt_ids.clone()
    }

    /// The next piece; `None` after the end, or after an error.
    ///
    /// # Errors
    /// [`StreamError`] if the response breaks off.
    pub async fn next(&mut self) -> Option<Result<RemotePiece, StreamError>> {
        // I3.
        self.pieces.silence.heard(Instant::now());
        loop {
            if let Some(piece) = self.known.pop_front() {
                return Some(Ok(piece));
            }
            if let Some(trouble) = self.trouble.take() {
                self.reader = None;
                return Some(Err(stream_error(self.server.cleaned(trouble), 1)));
            }
            self.reader.as_ref()?;
            if let Err(trouble) = self.advance().await {
                self.trouble = Some(trouble);
            }
        }
    }

    /// Reads until a part of the response has arrived.
    async fn take_beginning(&mut self) -> Result<(), Trouble> {
        while !self.begun && self.reader.is_some() {
            self.advance().await?;
        }
        Ok(())
    }

    /// Reads a complete response, which some servers send even if a stream is requested.
    async fn take_whole(&mut self) -> Result<(), Trouble> {
        let text = self.pieces.text().await?;
        if let Some(reader) = &mut self.reader {
            let said = reader.complete(&text)?;
            self.known.extend(said.map(RemotePiece::Said));
        }
        self.finish()
    }

    /// Reads the next data.
    async fn advance(&mut self) -> Result<(), Trouble> {
        let mut events = Vec::new();
        if let Some(bytes) = self.pieces.next().await? {
            let read = self.sse.push(&bytes, &mut events).map_err(garbled_events);
            for event in events {
                if self.take(&event)? {
                    self.pieces.drain().await;
                    return self.finish();
                }
            }
            return read;
        }
        // The remaining event has no end. If it cannot be parsed, the stream was cut.
        let cut = || Trouble::later("stream-cut", "the server's answer breaks off within an event");
        self.sse.finish(&mut events).map_err(|_| cut())?;
        for event in events {
            let taken = self.take(&event);
            taken.map_err(|trouble| if trouble.remedy == Remedy::Once { cut() } else { trouble })?;
        }
        self.finish()
    }

    /// Reads an event; returns whether it was the last.
    fn take(&mut self, event: &Event) -> Result<bool, Trouble> {
        let Some(reader) = &mut self.reader else { return Ok(true) };
        if event.is_error() {
            return Err(broken_off(&event.data));
        }
        let (heard, said) = reader.event(&event.data)?;
        self.prompt_ids = self.prompt_ids.take().or_else(|| reader.prompt_ids());
        if heard == Heard::Part {
            self.pieces.silence.said(Instant::now());
            self.begun = true;
        }
        self.known.extend(said.map(RemotePiece::Said));
        Ok(heard == Heard::End)
    }

    fn finish(&mut self) -> Result<(), Trouble> {
        if let Some(reader) = self.reader.take() {
            self.prompt_ids = self.prompt_ids.take().or_else(|| reader.prompt_ids());
            self.known.extend(reader.end()?);
        }
        Ok(())
    }
}

fn stream_error(trouble: Trouble, tries: u32) -> StreamError {
    let message = match tries {
        0 | 1 => trouble.message,
        many => format!("{} ({many} tries)", trouble.message),
    };
    match (trouble.code, trouble.told) {
        ("context-too-long", Some(told)) => StreamError::TooLong(told),
        (_, Some(told)) => StreamError::Refused(told),
        (code, None) if trouble.remedy == Remedy::None => StreamError::Settings { code, message },
        (code, None) => StreamError::Later { code, message, retry_after: trouble.retry_after },
    }
}
