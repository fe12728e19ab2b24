//! The policy: an attempt is a program, a turn is the program's next request.
//!
//! I1. A program is started at the first turn of its attempt, and notified at the end, for any reason of the end. I2. A step of
//! the program is one action; the observation after it is the answer. I3. If a program exits with 0, closes the attempt, or runs
//! out of time, the attempt is submitted and graded. A failed program is a fault.
//!
//! Cancellation: dropping the future of `act` changes nothing; the end of the attempt ends its program.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{
    Action, AgentDoor, AgentSpec, AttemptId, Boundary, BoxFuture, Determinism, Fault, Observation, Policy,
    PolicyRequest, RunId, StepResult, StopReason, ToolCall, derive_seed,
};
use clawrl_sandbox::LocalBackend;
use serde_json::Value;
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::endpoint::{Admission, Endpoint, Model};
use super::key;
use super::model::format_of;
use super::program::{self, Running, Start};
use super::session::{Session, Visit};
use crate::env_server::{Refusal, Request, answer, begun, closed, images, stepped};
use crate::environment;
use crate::programs::Programs;

/// Maximum bytes of an instruction in an environment variable, due to a limit of the kernel. `reset` returns the whole
/// instruction.
const MAX_INSTRUCTION_BYTES: usize = 100_000;

/// Settings of an [`AgentPolicy`].
pub(crate) struct AgentConfig {
    pub(crate) spec: AgentSpec,
    pub(crate) run: RunId,
    pub(crate) determinism: Determinism,
    /// The programs' model, if ClawRL provides it.
    pub(crate) model: Option<Arc<dyn Policy>>,
    pub(crate) programs: Programs,
}

/// Runs a program for each attempt.
pub(crate) struct AgentPolicy {
    config: AgentConfig,
    /// Created at the first attempt, inside the runtime.
    runtime: OnceCell<AgentRuntime>,
    slots: Mutex<HashMap<AttemptId, Arc<AttemptSlot>>>,
}

/// The spawner of programs and their endpoint.
struct AgentRuntime {
    backend: LocalBackend,
    endpoint: Endpoint,
}

/// One attempt.
struct AttemptSlot {
    /// Guard of the key; taken at the end of the attempt.
    admission: Mutex<Option<Admission>>,
    session: Arc<Session>,
    /// Locked by the current turn; there is at most one.
    talk: tokio::sync::Mutex<Talk>,
}

struct Talk {
    running: Running,
    visits: mpsc::Receiver<Visit>,
    /// The step that became the last action, and the channel of its answer.
    open: Option<(Value, oneshot::Sender<Value>)>,
    is_begun: bool,
    /// The program makes no more requests.
    is_done: bool,
    until: Option<Instant>,
}

impl AgentPolicy {
    pub(crate) fn new(config: AgentConfig) -> Self {
        Self { config, runtime: OnceCell::new(), slots: Mutex::default() }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<AttemptId, Arc<AttemptSlot>>> {
        // A map of handles: a panic cannot leave it inconsistent.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn runtime(&self) -> Result<&AgentRuntime, Fault> {
        let AgentConfig { spec, run, determinism, model, programs } = &self.config;
        self.runtime
            .get_or_try_init(|| async {
                let spawner = programs.spawner().ok_or_else(|| {
                    Fault::permanent(Boundary::Harness, "no-spawner", "nothing starts programs here")
                })?;
                let model = model.clone().zip(spec.model.as_deref());
                let model = model.map(|(policy, spec)| Model { policy, format: format_of(spec) });
                let endpoint = Endpoint::open(model).await.map_err(|error| {
                    let message = format!("cannot listen for the programs of this run: {error}");
                    Fault::transient(Boundary::Harness, "no-endpoint", message)
                })?;
                Ok(AgentRuntime {
                    backend: LocalBackend::beside("agents", spawner, run, determinism.clone()),
                    endpoint,
                })
            })
            .await
    }

    /// Starts the program of an attempt.
    async fn open_slot(&self, request: &PolicyRequest<'_>) -> Result<Arc<AttemptSlot>, Fault> {
        let runtime = self.runtime().await?;
        let spec = &self.config.spec;
        let key = key::fresh()?;
        let mut task = request.task.clone();
        if let Some(model) = spec.model.as_deref() {
            task.action_format = format_of(model);
        }
        let seed = derive_seed(request.seed, "agent", &[]);
        let calls = spec.limits.model_calls;
        let (session, visits) = Session::new(request.attempt, task, seed, calls);
        let environment = self.environment(request, &runtime.endpoint.url(), &key);
        let (command, folder, door) = (spec.command.as_slice(), spec.folder.as_path(), spec.door);
        // Before the program starts, so that its first request is admitted.
        let admission = runtime.endpoint.admit(key, Arc::clone(&session));
        let live = self.config.programs.begin();
        let start = Start { command, folder, environment, door, live };
        let running = program::start(&runtime.backend, start, Arc::clone(&session)).await;
        let talk = Talk {
            running: running?,
            visits,
            open: None,
            is_begun: false,
            is_done: false,
            until: spec.limits.time.map(|time| Instant::now() + time),
        };
        let slot = Arc::new(AttemptSlot { admission: Some(admission).into(), session, talk: talk.into() });
        self.slots().insert(request.attempt, Arc::clone(&slot));
        Ok(slot)
    }

    fn environment(&self, request: &PolicyRequest<'_>, url: &str, key: &str) -> BTreeMap<String, String> {
        let spec = &self.config.spec;
        let passed = spec.env.iter().chain(&spec.secrets);
        let mut all: BTreeMap<String, String> =
            passed.filter_map(|name| Some((name.clone(), environment::named(name)?))).collect();
        let mut set = |name: &str, value: String| drop(all.insert(name.to_owned(), value));
        set("OPENAI_BASE_URL", format!("{url}/v1"));
        set("OPENAI_API_BASE", format!("{url}/v1"));
        set("OPENAI_API_KEY", key.to_owned());
        set("CLAWRL_TASK", request.task.id.0.clone());
        set("CLAWRL_ATTEMPT", request.attempt.to_string());
        set("CLAWRL_SEED", request.seed.to_string());
        if request.task.instruction.len() <= MAX_INSTRUCTION_BYTES && !request.task.instruction.contains('\0')
        {
            set("CLAWRL_INSTRUCTION", request.task.instruction.clone());
        }
        if spec.door == AgentDoor::Http {
            set("CLAWRL_ENV_URL", format!("{url}/env"));
        }
        all
    }

    async fn turn(&self, request: PolicyRequest<'_>) -> Result<Action, Fault> {
        let known = self.slots().get(&request.attempt).cloned();
        let slot = match known {
            Some(slot) => slot,
            None if request.turn == 0 => self.open_slot(&request).await?,
            None => {
                let message = "the program of this attempt was never started";
                return Err(Fault::permanent(Boundary::Harness, "no-program", message));
            }
        };
        let mut talk = slot.talk.lock().await;
        talk.answer_step(&request).await?;
        if talk.is_done {
            // The environment has no `submit`, or `submit` did not end the episode.
            return Ok(submission(String::new(), None));
        }
        let outcome = talk.listen(&slot.session, &request, &self.config.spec).await?;
        let text = talk.running.take_written();
        let usage = slot.session.taken();
        Ok(match outcome {
            Wanted::Step(calls) => Action { text, tool_calls: calls, usage, ..Action::default() },
            Wanted::Done => {
                talk.is_done = true;
                submission(text, usage)
            }
        })
    }
}

/// The next request of a program.
enum Wanted {
    Step(Vec<ToolCall>),
    Done,
}

fn submission(text: String, usage: Option<clawrl_core::Usage>) -> Action {
    let call = ToolCall::new("submit", serde_json::json!({}));
    Action { text, usage, ..Action::call(call) }
}

impl Talk {
    /// Answers the last step with its result (I2).
    async fn answer_step(&mut self, request: &PolicyRequest<'_>) -> Result<(), Fault> {
        let Some((id, sender)) = self.open.take() else { return Ok(()) };
        let seen = request.observation.clone();
        let shown = images(&seen, request.blobs).await?;
        let result = StepResult { observation: seen, end: None, process_reward: None };
        // The program may have ended; `listen` reports that next.
        let _ = sender.send(answer(id, Ok(stepped(&result, shown))));
        Ok(())
    }

    /// Waits for the next request of the program.
    async fn listen(
        &mut self,
        session: &Session,
        request: &PolicyRequest<'_>,
        spec: &AgentSpec,
    ) -> Result<Wanted, Fault> {
        loop {
            let until = self.until;
            let time_is_up = async {
                match until {
                    // timer: the program's own limit.
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let visit = tokio::select! {
                biased;
                () = session.missed.cancelled() => return Err(miss(session)),
                () = time_is_up => return Ok(Wanted::Done),
                visit = self.visits.recv() => visit,
                _ = self.running.ended.wait_for(Option::is_some) => None,
            };
            let Some(Visit { id, request: wanted, answer: sender }) = visit else {
                return self.ended(session, spec);
            };
            let result = match wanted {
                Request::Reset { seed: Some(_) } => {
                    Err(Refusal::not_here("the run has the seed; leave `seed` out of `reset`").into())
                }
                Request::Reset { seed: None } if self.is_begun => {
                    Err(Refusal::out_of_order("`reset` was asked already").into())
                }
                Request::Reset { seed: None } => {
                    self.is_begun = true;
                    let seen = request.observation;
                    let shown = images(seen, request.blobs).await?;
                    Ok(begun(&request.task.instruction, seen, shown))
                }
                Request::Step { .. } if !self.is_begun => {
                    Err(Refusal::out_of_order("`reset` comes first").into())
                }
                Request::Step { calls, .. } => {
                    self.open = Some((id, sender));
                    return Ok(Wanted::Step(calls));
                }
                Request::Grade => {
                    let message =
                        "the run grades what is left when the program has ended; send `close`, or end";
                    Err(Refusal::not_here(message).into())
                }
                Request::Close => {
                    let _ = sender.send(answer(id, Ok(closed(&[]))));
                    return Ok(Wanted::Done);
                }
            };
            let _ = sender.send(answer(id, result));
        }
    }

    /// The result of a program's end (I3).
    fn ended(&mut self, session: &Session, spec: &AgentSpec) -> Result<Wanted, Fault> {
        if session.missed.is_cancelled() {
            return Err(miss(session));
        }
        let end = self.running.ended.borrow().clone();
        let name = spec.command.first().map_or("", String::as_str);
        let words = |what: String| {
            let written = self.running.take_written();
            match written.trim_end() {
                "" => format!("{what}; it wrote nothing"),
                text => format!("{what}; the end of what it wrote:\n{text}"),
            }
        };
        let permanent = |code: &str, what: String| Fault::permanent(Boundary::Policy, code, words(what));
        match end {
            // Without an answer from the model, the program's behaviour does not count.
            Some(Ok(Some(0))) => session.fault().map_or(Ok(Wanted::Done), |fault| {
                Err(Fault { message: words(format!("{}, and `{name}` gave up", fault.message)), ..fault })
            }),
            Some(Ok(Some(code @ (126 | 127)))) => {
                let folder = PathBuf::from(&spec.folder);
                let what = format!("`{name}` cannot be run in {} (exit code {code})", folder.display());
                Err(permanent("agent-not-run", what))
            }
            Some(Ok(code)) => {
                // The model's fault explains the failure better than the exit code.
                if let Some(fault) = session.fault() {
                    return Err(Fault {
                        message: words(format!("{}, and `{name}` failed", fault.message)),
                        ..fault
                    });
                }
                let code = code.map_or("a kill".to_owned(), |code| format!("exit code {code}"));
                Err(permanent("agent-failed", format!("`{name}` ended with {code}")))
            }
            Some(Err(why)) => Err(permanent("agent-failed", format!("`{name}` is gone: {why}"))),
            None => Err(permanent("agent-failed", format!("`{name}` cannot be heard any more"))),
        }
    }

    /// Ends the attempt: answers the open request and accepts no more.
    fn close(&mut self) {
        self.visits.close();
        if let Some((id, sender)) = self.open.take() {
            let end = Some(StopReason::Ended("over".to_owned()));
            let result = StepResult { observation: Observation::default(), end, process_reward: None };
            let _ = sender.send(answer(id, Ok(stepped(&result, Vec::new()))));
        }
        while let Ok(Visit { id, request, answer: sender }) = self.visits.try_recv() {
            let result = match request {
                Request::Close => Ok(closed(&[])),
                _ => Err(Refusal::out_of_order("the attempt is over; the program can end").into()),
            };
            let _ = sender.send(answer(id, result));
        }
    }
}

/// The fault of a `cassette-miss` (A5).
fn miss(session: &Session) -> Fault {
    session.fault().unwrap_or_else(|| {
        Fault::permanent(
            Boundary::Policy,
            "cassette-miss",
            "nothing was recorded for a request of the program",
        )
    })
}

impl Policy for AgentPolicy {
    fn name(&self) -> &str {
        "agent"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(self.turn(request))
    }

    fn attempt_ended(&self, attempt: AttemptId) {
        let slot = self.slots().remove(&attempt);
        if let Some(slot) = slot {
            drop(slot.admission.lock().unwrap_or_else(PoisonError::into_inner).take());
            // The last turn has returned or was dropped, so the lock is free.
            if let Ok(mut talk) = slot.talk.try_lock() {
                talk.close();
            }
            slot.session.over.cancel();
        }
        if let Some(model) = &self.config.model {
            model.attempt_ended(attempt);
        }
    }

    fn closing_notes(&self) -> Vec<String> {
        self.config.model.as_ref().map_or(Vec::new(), |model| model.closing_notes())
    }
}
