//! Two thousand requests under way at once, with one client.

use std::sync::Arc;

use clawrl_core::{Message, RemoteSpec, Role};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::stage::{Turn, policy, settings};
use crate::stub::{Answer, Asked, Step, Stub};

const REQUESTS: u32 = 2_000;

/// Both ends of every connection are in this process.
fn raise_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    assert!(maximum.is_none_or(|maximum| maximum >= 5_000), "{maximum:?} descriptors are too few");
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// Sends all requests at once; each gets its own reply. Returns the number of retries.
async fn all_are_answered(settings: RemoteSpec) -> u32 {
    let policy = Arc::new(policy(settings));
    let mut waiting = JoinSet::new();
    for slot in 0..REQUESTS {
        let policy = Arc::clone(&policy);
        waiting.spawn(async move {
            let conversation = [Message::text(Role::User, format!("say {slot}"))];
            let turn = Turn { slot, conversation: &conversation, ..Turn::default() };
            let action = turn.ask(&policy).await.unwrap();
            assert_eq!(action.text, format!("{slot}"));
            action.usage.unwrap().retries
        });
    }
    waiting.join_all().await.into_iter().sum()
}

/// The number that a request contains.
fn number(asked: &Asked) -> String {
    let messages = asked.body["messages"].as_array().unwrap();
    let text = messages.last().unwrap()["content"].as_str().unwrap();
    text.strip_prefix("say ").unwrap().to_owned()
}

/// The server answers no request before all have arrived, so that one delayed request would delay all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_at_once() {
    raise_limit();
    let barrier = Arc::new(Barrier::new(REQUESTS as usize));
    let stub =
        Stub::start(move |asked| Answer::said(&number(asked)).after(Step::Meet(Arc::clone(&barrier)))).await;
    let retries = all_are_answered(RemoteSpec { concurrency: REQUESTS, ..settings(&stub) }).await;
    assert_eq!((retries, stub.peak(), stub.asked().len()), (0, REQUESTS as usize, REQUESTS as usize));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_than_the_places() {
    raise_limit();
    let barrier = Arc::new(Barrier::new(50));
    let stub =
        Stub::start(move |asked| Answer::said(&number(asked)).after(Step::Meet(Arc::clone(&barrier)))).await;
    let retries = all_are_answered(RemoteSpec { concurrency: 50, ..settings(&stub) }).await;
    assert_eq!((retries, stub.peak(), stub.asked().len()), (0, 50, REQUESTS as usize));
}

mod slow {
    use super::*;

    /// Three quarters of the first six hundred requests are refused temporarily, by a rate limit or an error.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_slot_is_lost_to_a_server_that_refuses_many() {
        raise_limit();
        let stub = Stub::start(|asked| match asked.number {
            0..600 if asked.number % 2 == 0 => {
                Answer::whole("429 Too Many Requests", "Retry-After: 0.1\r\n", "")
            }
            0..600 if asked.number % 4 == 1 => Answer::whole("502 Bad Gateway", "", ""),
            _ => Answer::said(&number(asked)),
        })
        .await;
        let settings = RemoteSpec { concurrency: 500, tries: 20, ..settings(&stub) };
        let retries = all_are_answered(settings).await;
        assert_eq!((retries as usize, stub.asked().len()), (450, REQUESTS as usize + 450));
    }
}
