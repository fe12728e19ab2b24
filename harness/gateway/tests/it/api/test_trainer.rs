//! A scripted trainer that records its commands.

use std::sync::{Arc, Mutex};

use clawrl_gateway::{
    Adapter, Command, Finish, NewSample, NewUpdate, RecorderHandle, RollBack, Trainer, TrainerError,
    TrainerView, TurnId, UpdateId, UserId,
};
use futures_util::future::BoxFuture;

/// The trainer. Each user has an adapter with their name.
#[derive(Debug)]
pub(super) struct TestTrainer {
    state: Mutex<TrainerView>,
    /// Commands and their users.
    commands: Mutex<Vec<(UserId, Command)>>,
    /// The error that it returns instead.
    fails: Mutex<Option<TrainerError>>,
}

impl TestTrainer {
    pub(super) fn new(version: u64) -> Arc<Self> {
        let state = TrainerView {
            adapter: String::new(),
            version,
            objective: "grpo".to_owned(),
            paused: None,
            waiting: 3,
            every_turns: 8,
            every_secs: 600,
            last: None,
        };
        Arc::new(Self { state: Mutex::new(state), commands: Mutex::default(), fails: Mutex::default() })
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut TrainerView)) {
        change(&mut self.state.lock().unwrap());
    }

    pub(super) fn fail(&self, error: Option<TrainerError>) {
        *self.fails.lock().unwrap() = error;
    }

    /// Commands since the last call.
    pub(super) fn commands(&self) -> Vec<(String, Command)> {
        self.commands.lock().unwrap().drain(..).map(|(user, command)| (user.0, command)).collect()
    }

    fn state(&self, user: &UserId) -> Result<TrainerView, TrainerError> {
        match &*self.fails.lock().unwrap() {
            Some(error) => Err(error.clone()),
            None => Ok(TrainerView { adapter: user.0.clone(), ..self.state.lock().unwrap().clone() }),
        }
    }
}

impl Trainer for TestTrainer {
    fn view(&self, user: &UserId) -> BoxFuture<'_, Result<TrainerView, TrainerError>> {
        let view = self.state(user);
        Box::pin(async { view })
    }

    fn command(&self, user: &UserId, command: Command) -> BoxFuture<'_, Result<TrainerView, TrainerError>> {
        self.commands.lock().unwrap().push((user.clone(), command));
        if self.fails.lock().unwrap().is_none() {
            self.change(|state| match command {
                Command::Train => state.last = Some("made version 8".to_owned()),
                Command::Pause => state.paused = Some("paused by a user".to_owned()),
                Command::Resume => state.paused = None,
                Command::RollBack(_) => state.version += 1,
            });
        }
        let view = self.state(user);
        Box::pin(async { view })
    }
}

/// An update with this turn's answer, of the adapter with the user's name: from `version` to the next one, with these metrics.
pub(super) async fn learn(
    record: &RecorderHandle,
    (user, turn): (&UserId, TurnId),
    version: u64,
    figures: &[(&str, f64)],
) -> UpdateId {
    let sample = NewSample { request: turn.0, choice: 0, reward: 1.0, hint: None };
    record.add_sample(sample).await.unwrap();
    let adapter = Adapter { name: user.0.clone(), owner: Some(user.clone()) };
    let (key, objective) = (format!("{} {version}", user.0), "grpo".to_owned());
    let taken = record.take(NewUpdate { key, adapter, objective, version, limit: 1 }).await.unwrap();
    assert_eq!(taken.samples.len(), 1);
    let metrics = figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let checkpoint = Some("/secret/place".to_owned());
    let finish = Finish::Accepted { version: version + 1, branch: 0, checkpoint, metrics };
    record.finish(taken.update, finish).await.unwrap();
    taken.update
}

/// Rolls Ada's adapter back to `to`, as `version`.
pub(super) async fn go_back(record: &RecorderHandle, to: u64, version: u64) {
    let back = RollBack { adapter: "ada".to_owned(), to, version, checkpoint: None };
    record.roll_back(back).await.unwrap();
}
