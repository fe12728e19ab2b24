//! A server with its record, for tests.

use std::net::SocketAddr;
use std::sync::Arc;

use clawrl_gateway::{
    Drained, Keys, Page, Recorder, RecorderHandle, RecorderSettings, Server, ServerSettings, SessionView,
    Trainer, TurnView, UserId,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::client::{self, Response};
use super::scripted::Scripted;

/// A server of two users, Ada with the key `one` and Bob with `two`.
pub(super) struct TestServer {
    pub(super) address: SocketAddr,
    pub(super) policy: Arc<Scripted>,
    pub(super) record: RecorderHandle,
    _recorder: Recorder,
    end: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<Drained>>,
    _folder: TempDir,
}

impl TestServer {
    pub(super) async fn new(policy: Arc<Scripted>) -> Self {
        Self::with(policy, |_| {}).await
    }

    pub(super) async fn with(policy: Arc<Scripted>, change: impl FnOnce(&mut ServerSettings)) -> Self {
        Self::built(policy, change, None).await
    }

    /// A server with a trainer.
    pub(super) async fn learning(policy: Arc<Scripted>, trainer: Arc<dyn Trainer>) -> Self {
        Self::built(policy, |_| {}, Some(trainer)).await
    }

    async fn built(
        policy: Arc<Scripted>,
        change: impl FnOnce(&mut ServerSettings),
        trainer: Option<Arc<dyn Trainer>>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::open(RecorderSettings::new(folder.path().join("ledger.sqlite"))).unwrap();
        let record = recorder.handle();
        let mut keys = Keys::default();
        keys.add("one", user("ada")).unwrap();
        keys.add("two", user("bob")).unwrap();
        let mut settings = ServerSettings::default();
        change(&mut settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut server =
            Server::new(listener, settings, keys, Arc::clone(&policy) as _, record.clone()).unwrap();
        if let Some(trainer) = trainer {
            server = server.with_trainer(trainer);
        }
        let address = server.address().unwrap();
        let (end, ended) = oneshot::channel();
        let running = tokio::spawn(server.run(async {
            let _ = ended.await;
        }));
        Self {
            address,
            policy,
            record,
            _recorder: recorder,
            end: Some(end),
            running: Some(running),
            _folder: folder,
        }
    }

    pub(super) fn host(&self) -> String {
        self.address.to_string()
    }

    /// Posts with Ada's key.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Response {
        self.post_as("one", path, body.to_string().as_bytes()).await
    }

    pub(super) async fn post_as(&self, key: &str, path: &str, body: &[u8]) -> Response {
        let bearer = format!("Bearer {key}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        client::send(self.address, &client::request("POST", path, &self.host(), &headers, body)).await
    }

    pub(super) async fn get(&self, path: &str) -> Response {
        let request = client::request("GET", path, &self.host(), &[("Authorization", "Bearer one")], b"");
        client::send(self.address, &request).await
    }

    /// Starts the shutdown.
    pub(super) fn end(&mut self) {
        let _ = self.end.take().unwrap().send(());
    }

    pub(super) async fn ended(&mut self) -> Drained {
        self.running.take().unwrap().await.unwrap()
    }

    /// Ada's sessions.
    pub(super) async fn sessions(&self) -> Vec<SessionView> {
        self.record.sessions(Some(&user("ada")), Page { before: None, limit: 100 }).await.unwrap()
    }

    /// Ada's turns, in order.
    pub(super) async fn turns(&self) -> Vec<TurnView> {
        let mut ids = Vec::new();
        for session in self.sessions().await {
            let session = self.record.session(&user("ada"), session.session).await.unwrap();
            ids.extend(session.turns.iter().map(|turn| turn.turn));
        }
        ids.sort_unstable();
        let mut turns = Vec::new();
        for id in ids {
            turns.push(self.record.turn(&user("ada"), id).await.unwrap());
        }
        turns
    }
}

pub(super) fn user(name: &str) -> UserId {
    UserId(name.to_owned())
}
