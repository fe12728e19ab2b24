//! The dashboard with synthetic chats (long, hostile, judged) and a trainer that makes no updates, to look at.
//!
//! `cargo run -p clawrl-gateway --example dashboard [address]`: by default at 127.0.0.1:30080, with the key `one`. It ends with its standard
//! input.

#![allow(clippy::print_stdout, reason = "where it listens is its output")]

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use clawrl_gateway::{
    Adapter, AnswerRequest, Backend, BackendError, ChatRequest, Command, Exactness, FeedbackSource,
    FeedbackTarget, Finish, Headers, Keys, NewAnswer, NewChoice, NewFeedback, NewRequest, NewReward,
    NewSample, NewUpdate, NewVote, Recorder, RecorderHandle, RecorderSettings, Refusal, ReplyCall, RequestId,
    RollBack, Server, ServerSettings, StartedAnswer, Trainer, TrainerError, TrainerView, UserId,
    VersionSegment,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

const HOSTILE: &str = "</pre><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"> \u{1b}[31m \u{202e}backwards";

/// A policy that never answers.
#[derive(Debug)]
struct NoPolicy {
    version: u64,
}

impl Backend for NoPolicy {
    fn models(&self) -> Vec<String> {
        vec!["policy".to_owned()]
    }

    fn context(&self) -> Option<usize> {
        None
    }

    fn version(&self, _: &UserId) -> Option<u64> {
        Some(self.version)
    }

    fn refusal(&self, _: &AnswerRequest, demands: &[Refusal]) -> Option<Refusal> {
        demands.first().cloned()
    }

    fn start(&self, _: AnswerRequest) -> BoxFuture<'_, Result<StartedAnswer, BackendError>> {
        let message = "this example has no policy".to_owned();
        Box::pin(async { Err(BackendError::Unavailable { message, retry_after: None }) })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// A trainer that makes no updates, but rolls back.
#[derive(Debug)]
struct Idle {
    record: RecorderHandle,
    view: Mutex<TrainerView>,
}

impl Idle {
    fn new(record: RecorderHandle, version: u64) -> Self {
        let view = TrainerView {
            adapter: ada().0,
            version,
            objective: "grpo".to_owned(),
            paused: None,
            waiting: 5,
            every_turns: 8,
            every_secs: 600,
            last: Some(format!("version {version} of 2 samples; {HOSTILE}")),
        };
        Self { record, view: Mutex::new(view) }
    }

    fn changed(&self, change: impl FnOnce(&mut TrainerView)) -> TrainerView {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut view);
        view.clone()
    }
}

impl Trainer for Idle {
    fn view(&self, _: &UserId) -> BoxFuture<'_, Result<TrainerView, TrainerError>> {
        Box::pin(async { Ok(self.changed(|_| {})) })
    }

    fn command(&self, _: &UserId, command: Command) -> BoxFuture<'_, Result<TrainerView, TrainerError>> {
        Box::pin(async move {
            match command {
                Command::Train => Err(TrainerError::Refused("this example does not train".to_owned())),
                Command::Pause => Ok(self.changed(|view| view.paused = Some("paused by a user".to_owned()))),
                Command::Resume => Ok(self.changed(|view| view.paused = None)),
                Command::RollBack(to) => {
                    let version = self.changed(|view| view.version += 1).version;
                    let back = RollBack { adapter: ada().0, to, version, checkpoint: None };
                    let ended = |error: clawrl_gateway::LedgerError| TrainerError::Ended(error.to_string());
                    self.record.roll_back(back).await.map_err(ended)?;
                    Ok(self.changed(|view| view.last = Some(format!("rolled back to version {to}"))))
                }
            }
        })
    }
}

fn ada() -> UserId {
    UserId("ada".to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:30080".to_owned());
    let folder = tempfile::tempdir()?;
    let recorder = Recorder::open(RecorderSettings::new(folder.path().join("ledger.sqlite")))?;
    let version = fill(&recorder.handle()).await?;
    let mut keys = Keys::default();
    keys.add("one", ada())?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    let server = Server::new(
        listener,
        ServerSettings::default(),
        keys,
        Arc::new(NoPolicy { version }),
        recorder.handle(),
    )?
    .with_trainer(Arc::new(Idle::new(recorder.handle(), version)));
    println!("http://{}/ has the key `one`", server.address()?);
    let end = async {
        let _ = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin())).await;
    };
    server.run(end).await;
    Ok(())
}

/// Records a question and its answer; returns the request's number.
async fn talk(
    record: &RecorderHandle,
    session: &str,
    messages: &Value,
    choice: NewChoice,
) -> Result<RequestId, Box<dyn Error>> {
    let body = json!({"model": "policy", "messages": messages, "tools": [
        {"type": "function", "function": {"name": "read_file"}}, {"type": "function", "function": {"name": HOSTILE}}]});
    let headers: Headers = [("x-clawrl-session", session)].into_iter().collect();
    let admitted = record
        .arrived(NewRequest {
            user: ada(),
            endpoint: "/v1/chat/completions",
            headers,
            raw: Bytes::from(body.to_string()),
            body: Arc::new(ChatRequest::parse(&body)?),
            model: "policy".to_owned(),
            sampling: json!({"temperature": 0.7}),
        })
        .await?;
    let answer = NewAnswer {
        choices: vec![choice],
        prompt_ids: (0..400).collect(),
        prompt_tokens: 400,
        completion_tokens: 60,
        first_token_after_ms: Some(180),
        ..NewAnswer::default()
    };
    record.answered(admitted.request, answer).await?;
    Ok(admitted.request)
}

fn choice(text: &str, exact: Exactness) -> NewChoice {
    NewChoice {
        text: text.to_owned(),
        finish_reason: "stop".to_owned(),
        sampled_ids: (0..60).map(|id| 9_000 + id * 37).collect(),
        logprobs: (0..60).map(|place| -0.03 * f32::from(place as u8)).collect(),
        versions: vec![VersionSegment { first: 0, version: 2 }, VersionSegment { first: 40, version: 3 }],
        exact,
        ..NewChoice::default()
    }
}

/// Fills the ledger; returns the version in use.
async fn fill(record: &RecorderHandle) -> Result<u64, Box<dyn Error>> {
    let long = "A long result of a tool, line by line, as agents read them.\n".repeat(2_000);
    let word = "x".repeat(3_000);
    let mut messages =
        vec![json!({"role": "system", "content": "You are a helpful assistant. ".repeat(100)})];
    let mut turns = Vec::new();
    for at in 0..30 {
        let question = match at {
            3 => HOSTILE.to_owned(),
            4 => word.clone(),
            _ => format!("Question {at}: what is in the file, and why does the test of it fail?"),
        };
        messages.push(json!({"role": "user", "content": question}));
        let (mut one, exact) =
            (format!("Answer {at}: I have looked, and the test is right."), Exactness::Exact);
        if at == 28 {
            one = HOSTILE.to_owned();
        }
        let mut choice = choice(&one, if at % 5 == 4 { Exactness::Greedy } else { exact });
        choice.reasoning =
            (at % 3 == 0).then(|| "First I read the file. Then I think about the test. ".repeat(8));
        turns.push(talk(record, "work", &Value::Array(messages.clone()), choice).await?);
        messages.push(json!({"role": "assistant", "content": one}));
    }
    messages.push(json!({"role": "user", "content": "Read it all."}));
    let mut calls = choice("", Exactness::Exact);
    calls.finish_reason = "tool_calls".to_owned();
    let arguments = json!({"path": "/etc/<b>hosts</b>", "lines": [1, 400]}).to_string();
    calls.calls =
        vec![ReplyCall { id: "c1".to_owned(), name: "read_file".to_owned(), arguments: arguments.clone() }];
    turns.push(talk(record, "work", &Value::Array(messages.clone()), calls).await?);
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": arguments}}]}));
    messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": long}));
    turns.push(
        talk(record, "work", &Value::Array(messages.clone()), choice("It is long.", Exactness::Exact))
            .await?,
    );
    judge(record, &turns).await?;
    let version = learn(record).await?;
    let heartbeat =
        json!([{"role": "user", "content": "Follow the heartbeat monitor scratch context when provided."}]);
    talk(record, "beat", &heartbeat, choice("HEARTBEAT_OK", Exactness::Exact)).await?;
    let open = json!([{"role": "assistant", "content": "hello"}]);
    talk(record, "odd", &open, choice("hello again", Exactness::Truncated)).await?;
    for at in 0..60 {
        let hi = json!([{"role": "user", "content": format!("Hello {at}")}]);
        talk(record, &format!("s{at}"), &hi, choice("Hello!", Exactness::NoIds)).await?;
    }
    Ok(version)
}

/// Feedback, votes, rewards and samples of some.
async fn judge(record: &RecorderHandle, turns: &[RequestId]) -> Result<(), Box<dyn Error>> {
    for (at, request) in turns.iter().copied().enumerate() {
        let turn = clawrl_gateway::TurnId(request);
        if at % 4 == 0 {
            let target = FeedbackTarget::Turn(turn);
            let (thumb, text) =
                (Some(if at % 8 == 0 { 1 } else { -1 }), Some(format!("Shorter, please. {HOSTILE}")));
            record
                .feedback(
                    &ada(),
                    NewFeedback {
                        target,
                        choice: None,
                        source: FeedbackSource::Api,
                        thumb,
                        text,
                        score: None,
                    },
                )
                .await?;
        }
        for ballot in 0..3 {
            let score = if ballot == 2 { Err("no number in its reply".to_owned()) } else { Ok(1) };
            let hint = (ballot == 0).then(|| format!("Read the file first. {HOSTILE}"));
            let raw = "The answer says that it has looked, and it has. \\boxed{1}".to_owned();
            record.add_vote(NewVote { turn, judge: "turns-v1".to_owned(), ballot, score, hint, raw }).await?;
        }
        record.set_reward(NewReward { turn, value: 0.5, source: "votes".to_owned() }).await?;
        if at % 5 != 4 && at != 31 {
            record.add_sample(NewSample { request, choice: 0, reward: 0.5, hint: None }).await?;
        }
    }
    Ok(())
}

/// Records updates, one rejected, and a rollback; returns the version in use.
async fn learn(record: &RecorderHandle) -> Result<u64, Box<dyn Error>> {
    let mut version = 1;
    for at in 0..12_u32 {
        let adapter = Adapter { name: ada().0, owner: Some(ada()) };
        let (key, objective) = (at.to_string(), "grpo".to_owned());
        let taken = record.take(NewUpdate { key, adapter, objective, version, limit: 2 }).await?;
        let (time, wave) = (f64::from(at), f64::from(at).sin());
        let metrics = [
            ("reward_mean", 0.08 * time - 0.4 + 0.15 * wave),
            ("samples", 2.0),
            ("kl", 0.004 + 0.003 * wave.abs() + if at == 5 { 0.03 } else { 0.0 }),
            ("loss", -0.2 + 0.05 * wave),
            ("entropy", 1.4 - 0.06 * time),
            ("reply_tokens", 160.0 + 25.0 * wave),
            ("update_seconds", 12.0 + wave),
            ("trained_tokens", 23_400.0 + 1_800.0 * wave),
        ];
        let metrics = metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let finish = if at == 5 {
            Finish::Rejected { reasons: vec!["kl is 0.037, and may be 0.02".to_owned()], metrics }
        } else {
            version += 1;
            Finish::Accepted { version, branch: u64::from(at > 8), checkpoint: None, metrics }
        };
        record.finish(taken.update, finish).await?;
        if at == 8 {
            let back = RollBack { adapter: ada().0, to: version - 2, version: version + 1, checkpoint: None };
            record.roll_back(back).await?;
            version += 1;
        }
    }
    Ok(version)
}
