//! Online training: the thread that takes samples from the ledger, updates adapters and publishes them.
//!
//! I1. One thread makes all updates, one after the other; requests never wait for it. I2. Checkpoints and ledger are reconciled
//! when learning starts ([`RecorderHandle::reconcile`]). I3. An error in one adapter pauses only that adapter and records the
//! reason.
//!
//! Cancellation: [`OnlineTrainer`] owns the thread; dropping it ends the thread after the current update.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use clawrl_config::ChatPlan;
use clawrl_gateway::{
    Adapter, Command, Finish, LedgerChange, LedgerError, LedgerEvent, NewUpdate, RecorderHandle, RollBack,
    Taken, Trainer, TrainerError, TrainerView, UserId, Waiting,
};
use clawrl_torch::configure_threads;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task;
use tokio::time::sleep;

use super::super::settings::threads;
use super::adapter_router::{AdapterRouter, SHARED, name_of, whom};
use super::adapter_trainer::{AdapterTrainer, Learned, Model, UpdateOutcome};
use clawrl_runtime::training::TrainError;
use clawrl_serve::Announce;

/// Maximum queued commands. Only a client that does not wait for answers sends more than a few.
const COMMANDS: usize = 64;
/// An update takes at most this many times the samples that trigger it. If samples arrive faster than they are trained on, they
/// would otherwise be too stale before they are used.
const MAX_BATCHES: u32 = 4;
/// File in an adapter's folder with the reason why learning is paused.
const PAUSED: &str = "paused";
/// Interval between checks of the waiting samples when no event arrives.
const LOOK: Duration = Duration::from_secs(5);

/// Owns the trainer thread.
#[derive(Debug)]
pub(crate) struct OnlineTrainer {
    shared: Arc<Shared>,
    commands: Option<mpsc::Sender<Asked>>,
    thread: Option<JoinHandle<()>>,
    /// Task that updates the list of users who share; aborted with this struct.
    sharing: task::JoinHandle<()>,
}

/// A command for the thread.
struct Asked {
    user: UserId,
    command: Command,
    reply: oneshot::Sender<Result<(), TrainerError>>,
}

/// State that other threads read.
#[derive(Debug)]
struct Shared {
    plan: ChatPlan,
    router: Arc<AdapterRouter>,
    recorder: RecorderHandle,
    standings: Mutex<BTreeMap<String, AdapterState>>,
}

/// State of an adapter.
#[derive(Debug, Clone, Default)]
struct AdapterState {
    version: u64,
    paused: Option<String>,
    last: Option<String>,
    rejected_in_a_row: u32,
}

/// Settings of an [`OnlineTrainer`].
pub(super) struct OnlineTrainerSetup {
    pub(super) model: Model,
    pub(super) router: Arc<AdapterRouter>,
    pub(super) plan: ChatPlan,
    /// Parent of the adapters' folders.
    pub(super) folder: PathBuf,
    /// Receives new versions in use, and automatic pauses.
    pub(super) announce: Announce,
    pub(super) recorder: RecorderHandle,
    pub(super) runtime: Handle,
}

impl OnlineTrainer {
    /// Starts the thread. Existing adapters are in use when this returns.
    ///
    /// # Errors
    /// Checkpoints cannot be read or belong to another policy, or the ledger cannot be written.
    pub(super) fn start(setup: OnlineTrainerSetup) -> Result<Self, TrainError> {
        let OnlineTrainerSetup { model, router, plan, folder, announce, recorder, runtime } = setup;
        let shared = Arc::new(Shared { plan, router, recorder, standings: Mutex::default() });
        let (commands, asked) = mpsc::channel(COMMANDS);
        let events = shared.recorder.events();
        let sharing = runtime.spawn(keep_sharing(Arc::clone(&shared)));
        let shared_too = Arc::clone(&shared);
        let trainers = BTreeMap::new();
        let mut room = Room { model, folder, announce, shared: shared_too, runtime, trainers, made: 0 };
        let (ready, begun) = std::sync::mpsc::sync_channel(1);
        let work = move || {
            let begun = configure_threads(threads(1))
                .map_err(|error| TrainError::unavailable(error.to_string()))
                .and_then(|()| room.begin());
            let goes_on = begun.is_ok();
            let _ = ready.send(begun);
            if goes_on {
                room.work(asked, events);
            }
        };
        let thread = Builder::new()
            .name("clawrl-tutor".to_owned())
            .spawn(work)
            .map_err(|error| TrainError::unavailable(format!("learning has no thread: {error}")))?;
        let online_trainer = Self { shared, commands: Some(commands), thread: Some(thread), sharing };
        let ended = || TrainError::internal("learning ended before it began");
        begun.recv().map_err(|_| ended())??;
        Ok(online_trainer)
    }
}

impl Drop for OnlineTrainer {
    fn drop(&mut self) {
        self.sharing.abort();
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // The thread has reported its error.
            let _ = thread.join();
        }
    }
}

impl Trainer for OnlineTrainer {
    fn view(&self, user: &UserId) -> BoxFuture<'_, Result<TrainerView, TrainerError>> {
        let user = user.clone();
        Box::pin(async move {
            let mut view = self.shared.view(&user).await?;
            if self.commands.as_ref().is_none_or(mpsc::Sender::is_closed) {
                view.paused = Some("learning has ended; the server's log says why".to_owned());
            }
            Ok(view)
        })
    }

    fn command(&self, user: &UserId, command: Command) -> BoxFuture<'_, Result<TrainerView, TrainerError>> {
        let user = user.clone();
        Box::pin(async move {
            let ended = || TrainerError::Ended("its thread is gone".to_owned());
            let (reply, done) = oneshot::channel();
            let asked = Asked { user: user.clone(), command, reply };
            let commands = self.commands.as_ref().ok_or_else(ended)?;
            commands.send(asked).await.map_err(|_| ended())?;
            done.await.map_err(|_| ended())??;
            self.shared.view(&user).await
        })
    }
}

impl Shared {
    async fn view(&self, user: &UserId) -> Result<TrainerView, TrainerError> {
        let adapter = self.router.trained_by(user);
        let waiting =
            self.recorder.waiting().await.map_err(|error| TrainerError::Ended(error.to_string()))?;
        let own = waiting.iter().filter(|waiting| self.router.trained_by(&waiting.user) == adapter);
        let waiting = own.map(|waiting| waiting.samples).sum();
        let AdapterState { version, paused, last, .. } =
            self.standings().get(&adapter).cloned().unwrap_or_default();
        Ok(TrainerView {
            adapter,
            version,
            objective: self.plan.objective.name().to_owned(),
            paused,
            waiting,
            every_turns: self.plan.train_every_turns,
            every_secs: self.plan.train_every_secs,
            last,
        })
    }

    fn standings(&self) -> MutexGuard<'_, BTreeMap<String, AdapterState>> {
        self.standings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, adapter: &str, change: impl FnOnce(&mut AdapterState)) {
        change(self.standings().entry(adapter.to_owned()).or_default());
    }
}

/// State of the thread.
struct Room {
    model: Model,
    folder: PathBuf,
    announce: Announce,
    shared: Arc<Shared>,
    runtime: Handle,
    trainers: BTreeMap<String, AdapterTrainer>,
    /// Number of started updates, for their keys.
    made: u64,
}

/// Reason why the thread wakes up.
enum Woken {
    Asked(Asked),
    Look,
    End,
}

/// Applies changes of the users who share to the next request, independently of the trainer thread.
async fn keep_sharing(shared: Arc<Shared>) {
    let mut events = shared.recorder.events();
    loop {
        match shared.recorder.sharing().await {
            Ok(users) => shared.router.share(users),
            Err(LedgerError::Ended) => return,
            Err(error) => tracing::error!("who shares cannot be read: {error}"),
        }
        loop {
            match events.recv().await {
                Ok(LedgerEvent { what: LedgerChange::Consent, .. }) | Err(RecvError::Lagged(_)) => break,
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}

impl Room {
    /// Loads all existing adapters.
    fn begin(&mut self) -> Result<(), TrainError> {
        let sharing = self.runtime.block_on(self.shared.recorder.sharing());
        self.shared.router.share(sharing.map_err(|error| unrecordable(&error))?);
        let folders = match fs::read_dir(&self.folder) {
            Ok(folders) => folders,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(&self.folder, &error)),
        };
        for entry in folders {
            let entry = entry.map_err(|error| unreadable(&self.folder, &error))?;
            // Names of adapters contain only characters that every file system allows.
            if let Some(name) = entry.file_name().to_str().filter(|_| entry.path().is_dir()) {
                match self.take_up(name) {
                    Ok(()) => {}
                    // An operator who serves another policy than before has to know.
                    Err(error) if error.is_refused() => return Err(error),
                    Err(failure) => self.pause(name, &failure.to_string()),
                }
            }
        }
        Ok(())
    }

    /// Loads an adapter and reconciles the ledger with its checkpoint (I2).
    fn take_up(&mut self, name: &str) -> Result<(), TrainError> {
        if self.trainers.contains_key(name) {
            return Ok(());
        }
        let mut adapter_trainer =
            AdapterTrainer::begin(&self.model, &self.shared.plan, name, &self.folder.join(name))?;
        let version = adapter_trainer.version();
        let recorder = &self.shared.recorder;
        let reconciled = self.runtime.block_on(async {
            tell_back(recorder, &adapter_trainer, name).await?;
            let checkpoint =
                (version > 0).then(|| adapter_trainer.checkpoint_of(version).display().to_string());
            recorder.reconcile(name, version, checkpoint, adapter_trainer.samples()).await
        });
        reconciled.map_err(|error| unrecordable(&error))?;
        if version > 0 {
            adapter_trainer.publish()?;
            self.shared.router.answers(adapter_trainer.name.clone(), version);
        }
        let paused = fs::read_to_string(self.folder.join(name).join(PAUSED)).ok();
        self.shared.change(name, |standing| (standing.version, standing.paused) = (version, paused));
        self.trainers.insert(name.to_owned(), adapter_trainer);
        Ok(())
    }

    fn work(&mut self, mut asked: mpsc::Receiver<Asked>, mut events: broadcast::Receiver<LedgerEvent>) {
        let runtime = self.runtime.clone();
        loop {
            // Commands have priority between two updates.
            let patience = if self.train_due() { Duration::ZERO } else { LOOK };
            match runtime.block_on(woken(&mut asked, &mut events, patience)) {
                Woken::Look => {}
                Woken::Asked(Asked { user, command, reply }) => {
                    // The sender may be gone.
                    let _ = reply.send(self.obey(&user, command));
                }
                Woken::End => break,
            }
        }
    }

    /// Makes the update that has been due longest, if any. Returns whether one was due.
    fn train_due(&mut self) -> bool {
        let ChatPlan { train_every_turns, train_every_secs, .. } = self.shared.plan;
        let waiting = match self.runtime.block_on(self.shared.recorder.waiting()) {
            Ok(waiting) => waiting,
            // The server is ending.
            Err(LedgerError::Ended) => return false,
            Err(error) => {
                tracing::error!("what waits to be learned from cannot be read: {error}");
                return false;
            }
        };
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let is_due = |(samples, since_ms): (u64, i64)| {
            let waited = now_ms.saturating_sub(since_ms);
            samples >= u64::from(train_every_turns) || waited >= i64::from(train_every_secs) * 1000
        };
        let standings = self.shared.standings().clone();
        let is_paused = |name: &str| standings.get(name).is_some_and(|standing| standing.paused.is_some());
        let due = by_adapter(&waiting)
            .into_iter()
            .filter(|(name, (waiting, _))| is_due(*waiting) && !is_paused(name));
        let Some((name, (_, owner))) = due.min_by_key(|(_, ((_, since_ms), _))| *since_ms) else {
            return false;
        };
        if let Err(why) = self.train(&name, owner) {
            self.pause(&name, &why);
        }
        true
    }

    /// Pauses learning after an error, and logs the reason.
    fn pause(&self, name: &str, why: &str) {
        tracing::error!("learning of the adapter `{name}` is paused: {why}");
        self.set_paused(name, Some("something went wrong; the server's log says what".to_owned()));
    }

    /// Stored on disk, so that a restarted server does not resume learning.
    fn set_paused(&self, name: &str, why: Option<String>) {
        let file = self.folder.join(name).join(PAUSED);
        let kept = match &why {
            Some(why) => fs::create_dir_all(self.folder.join(name)).and_then(|()| fs::write(&file, why)),
            None => fs::remove_file(&file).or_else(|error| {
                if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
            }),
        };
        if let Err(error) = kept {
            tracing::error!("whether the adapter `{name}` is paused is not kept: {error}");
        }
        self.shared.change(name, |standing| standing.paused = why);
    }

    fn obey(&mut self, user: &UserId, command: Command) -> Result<(), TrainerError> {
        let name = self.shared.router.trained_by(user);
        let owner = (name != SHARED).then(|| user.clone());
        match command {
            Command::Pause => {
                let known = self.shared.standings().get(&name).and_then(|standing| standing.paused.clone());
                self.set_paused(&name, Some(known.unwrap_or_else(|| "somebody asked for it".to_owned())));
            }
            Command::Resume => {
                self.trainers.get_mut(&name).into_iter().for_each(AdapterTrainer::watch_anew);
                self.set_paused(&name, None);
                self.shared.change(&name, |standing| standing.rejected_in_a_row = 0);
            }
            Command::Train => {
                if self.shared.standings().get(&name).is_some_and(|standing| standing.paused.is_some()) {
                    return Err(TrainerError::Refused(
                        "learning is paused, and has to be resumed first".to_owned(),
                    ));
                }
                let waiting = self.runtime.block_on(self.shared.recorder.waiting());
                let waiting = waiting.map_err(|error| TrainerError::Ended(error.to_string()))?;
                if !by_adapter(&waiting).contains_key(&name) {
                    let why =
                        "no sample waits, since nothing was said yet of an answer that can be learned from";
                    return Err(TrainerError::Refused(why.to_owned()));
                }
                self.train(&name, owner).map_err(|why| {
                    tracing::error!("an update of `{name}` came to nothing: {why}");
                    TrainerError::Refused("the update came to nothing; the server's log says why".to_owned())
                })?;
            }
            Command::RollBack(to) => self.roll_back(&name, to)?,
        }
        Ok(())
    }

    fn roll_back(&mut self, name: &str, to: u64) -> Result<(), TrainerError> {
        if !self.folder.join(name).is_dir() {
            return Err(TrainerError::Refused("nothing was learned yet".to_owned()));
        }
        self.take_up(name).map_err(|failure| TrainerError::Refused(failure.to_string()))?;
        let Some(adapter_trainer) = self.trainers.get_mut(name) else { return Ok(()) };
        let version = adapter_trainer.roll_back(to)?;
        let recorded = self.runtime.block_on(tell_back(&self.shared.recorder, adapter_trainer, name));
        adapter_trainer.publish().map_err(|failure| TrainerError::Ended(failure.to_string()))?;
        self.shared.router.answers(adapter_trainer.name.clone(), version);
        self.shared.change(name, |standing| {
            standing.version = version;
            standing.rejected_in_a_row = 0;
            standing.last = Some(format!("version {to} was gone back to, as version {version}"));
        });
        (self.announce)(&format!("version {version} answers {} now: it is version {to} again", whom(name)));
        // The checkpoint is written; the ledger is updated before the next update at the latest.
        recorded.map_err(|error| TrainerError::Ended(error.to_string()))
    }

    /// One update of an adapter from its waiting samples.
    fn train(&mut self, name: &str, owner: Option<UserId>) -> Result<(), String> {
        self.take_up(name).map_err(|failure| failure.to_string())?;
        self.made += 1;
        let Self { model, shared, announce, runtime, trainers, made, .. } = self;
        let Some(adapter_trainer) = trainers.get_mut(name) else { return Ok(()) };
        let recorder = &shared.recorder;
        let written = |error: LedgerError| format!("the ledger cannot be written: {error}");
        let before = adapter_trainer.version();
        let began_ms = jiff::Timestamp::now().as_millisecond();
        let new = NewUpdate {
            key: format!("{name}-{began_ms}-{made}"),
            adapter: Adapter { name: name.to_owned(), owner },
            objective: shared.plan.objective.name().to_owned(),
            version: before,
            limit: shared.plan.train_every_turns.saturating_mul(MAX_BATCHES),
        };
        // The rollback may not be in the ledger yet, and the information is lost once there is another version.
        runtime.block_on(tell_back(recorder, adapter_trainer, name)).map_err(written)?;
        let Taken { update, samples } = runtime.block_on(recorder.take(new)).map_err(written)?;
        let router = Arc::clone(&shared.router);
        let learned = adapter_trainer.learn(&model.chat, &samples, |name| router.is_first(name));
        let Learned { left_out, outcome, metrics, collapse } = match learned {
            Ok(learned) => learned,
            Err(failure) => {
                let why = failure.to_string();
                // The error may name files, which the users of these turns must not see.
                let reasons = vec!["something went wrong; the server's log says what".to_owned()];
                let finish = Finish::Returned { reasons };
                runtime.block_on(recorder.finish(update, finish)).map_err(written)?;
                return Err(why);
            }
        };
        let left = left_out.len();
        let turns = counted(samples.len() - left);
        let left_out = if left_out.is_empty() {
            Ok(())
        } else {
            runtime.block_on(recorder.leave_out(update, left_out)).map_err(written)
        };
        let (finish, words) = match &outcome {
            UpdateOutcome::Nothing => {
                let why = format!("there was nothing to learn from: {left} samples were left out");
                (Finish::Returned { reasons: vec![why.clone()] }, why)
            }
            UpdateOutcome::Rejected { why } => {
                let words = format!("update {} was rejected: {why}", update.0);
                (Finish::Rejected { reasons: vec![why.clone()], metrics }, words)
            }
            UpdateOutcome::Accepted { version, checkpoint } => {
                let words = format!("update {} made version {version}", update.0);
                let (version, checkpoint) = (*version, Some(checkpoint.display().to_string()));
                (Finish::Accepted { version, branch: adapter_trainer.branch(), checkpoint, metrics }, words)
            }
        };
        let finished = runtime.block_on(recorder.finish(update, finish)).map_err(written);
        let finished = left_out.and(finished);
        if let UpdateOutcome::Accepted { version, .. } = outcome {
            // The checkpoint is authoritative, not the ledger.
            adapter_trainer.publish().map_err(|failure| failure.to_string())?;
            shared.router.answers(adapter_trainer.name.clone(), version);
            shared.change(name, |standing| (standing.version, standing.rejected_in_a_row) = (version, 0));
            let whom = whom(name);
            announce(&format!(
                "version {version} answers {whom} now: version {before} and what was said of {turns}"
            ));
        } else {
            announce(&format!("no new version for {}: {words}", whom(name)));
        }
        finished?;
        tracing::info!("{name}: {words}");
        let failures = shared.plan.failures;
        let mut paused = collapse.map(|collapse| format!("the policy collapses: {collapse}"));
        shared.change(name, |standing| {
            standing.last = Some(words);
            if let UpdateOutcome::Rejected { why } = &outcome {
                standing.rejected_in_a_row += 1;
                if standing.rejected_in_a_row >= failures {
                    let why = format!("{failures} versions in a row were rejected, the last because {why}");
                    paused = Some(why);
                }
            }
        });
        if let Some(why) = paused {
            let whom = whom(name);
            (self.announce)(&format!("learning for {whom} is paused until somebody resumes it: {why}"));
            self.set_paused(name, Some(why));
        }
        Ok(())
    }
}

fn counted(turns: usize) -> String {
    if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") }
}

/// Writes a rollback to the ledger, if the newest version is one. Idempotent.
async fn tell_back(
    recorder: &RecorderHandle,
    adapter_trainer: &AdapterTrainer,
    name: &str,
) -> Result<(), LedgerError> {
    let Some(to) = adapter_trainer.back_to() else { return Ok(()) };
    let version = adapter_trainer.version();
    let checkpoint = Some(adapter_trainer.checkpoint_of(version).display().to_string());
    recorder.roll_back(RollBack { adapter: name.to_owned(), to, version, checkpoint }).await
}

/// Waiting samples of each adapter: their number, the time of the oldest, and the adapter's owner.
fn by_adapter(waiting: &[Waiting]) -> BTreeMap<String, ((u64, i64), Option<UserId>)> {
    let mut found = BTreeMap::new();
    // The ledger decides, as for an update: samples that an update would not take are not due.
    for Waiting { user, shares, samples, since_ms } in waiting {
        let name = name_of(user, *shares);
        let owner = (name != SHARED).then(|| user.clone());
        let ((count, since), _) = found.entry(name).or_insert(((0, i64::MAX), owner));
        *count += samples;
        *since = (*since).min(*since_ms);
    }
    found
}

async fn woken(
    asked: &mut mpsc::Receiver<Asked>,
    events: &mut broadcast::Receiver<LedgerEvent>,
    patience: Duration,
) -> Woken {
    let event = async {
        loop {
            match events.recv().await {
                // One check covers all events until then.
                Ok(LedgerEvent { what: LedgerChange::Judged, .. }) if events.is_empty() => {
                    return Woken::Look;
                }
                Err(RecvError::Lagged(_)) => return Woken::Look,
                Ok(_) => {}
                Err(RecvError::Closed) => return Woken::End,
            }
        }
    };
    tokio::select! {
        biased;
        asked = asked.recv() => asked.map_or(Woken::End, Woken::Asked),
        event = event => event,
        () = sleep(patience) => Woken::Look, // timer: a trigger by time
    }
}

fn unrecordable(error: &LedgerError) -> TrainError {
    TrainError::storage(format!("the ledger of chat cannot be read or written: {error}"))
}

fn unreadable(folder: &std::path::Path, error: &std::io::Error) -> TrainError {
    TrainError::storage(format!("{} cannot be read: {error}", folder.display()))
}
