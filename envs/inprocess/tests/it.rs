//! The contract of every environment, and what is particular to those of this process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use clawrl_core::{
    AttemptId, CancelToken, Env, EnvProvider, EnvSpec, Epoch, InProcessSpec, LeaseRequest, Limit,
    MemoryBlobs, SlotId, StepCtx, StopReason, TaskSpec, ToolCall,
};
use clawrl_inprocess::{InProcessProvider, IntoEnvironment, MultiTurn, Row, SingleTurn, Step, Tool, ToolEnv};
use clawrl_testkit::conformance::{Case, check_provider};
use clawrl_testkit::task;
use serde_json::{Value, json};

struct Reverse;

impl SingleTurn for Reverse {
    fn prompt(&self, row: &Row) -> String {
        format!("Reverse {}.", row["text"])
    }

    fn reward(&self, row: &Row, reply: &str) -> f64 {
        f64::from(reply.trim() == row["answer"])
    }
}

/// Guess a number; `more` and `less` are the answers.
struct Guess;

impl MultiTurn for Guess {
    type State = (u64, u32);

    fn prompt(&self, _: &Row) -> String {
        "Guess a number from 0 to 9.".to_owned()
    }

    fn start(&self, _: &Row, seed: u64) -> (u64, u32) {
        (seed % 10, 0)
    }

    fn step(&self, _: &Row, (number, guesses): &mut (u64, u32), reply: &str) -> Step {
        *guesses += 1;
        match reply.trim().parse::<u64>() {
            Ok(guess) if guess == *number => Step::End,
            Ok(guess) => Step::Continue(if guess < *number { "more" } else { "less" }.to_owned()),
            Err(_) => Step::Continue("Write a number.".to_owned()),
        }
    }

    fn reward(&self, _: &Row, (_, guesses): &(u64, u32)) -> f64 {
        1.0 / f64::from(*guesses)
    }
}

/// A counter with a tool that returns when the test lets it.
#[derive(Clone, Default)]
struct Counter(Arc<(Mutex<bool>, Condvar)>);

impl Counter {
    fn release(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

impl ToolEnv for Counter {
    type State = i64;

    fn prompt(&self, _: &Row) -> String {
        "Count.".to_owned()
    }

    fn tools(&self, _: &Row) -> Vec<Tool> {
        ["add", "wait"]
            .map(|name| Tool {
                name: name.to_owned(),
                description: String::new(),
                parameters: json!({"type": "object"}),
            })
            .into()
    }

    fn start(&self, _: &Row, _: u64) -> i64 {
        0
    }

    fn call(&self, _: &Row, count: &mut i64, tool: &str, arguments: &Value) -> Result<String, String> {
        if tool == "wait" {
            let (released, changed) = &*self.0;
            drop(changed.wait_while(released.lock().unwrap(), |released| !*released).unwrap());
        }
        *count += arguments["by"].as_i64().ok_or("`by` has to be a number")?;
        Ok(count.to_string())
    }

    fn reward(&self, _: &Row, count: &i64, answer: Option<&str>) -> f64 {
        f64::from(answer == Some(&count.to_string()))
    }
}

fn provider() -> InProcessProvider {
    InProcessProvider::new([
        Reverse.into_environment(),
        Guess.into_environment(),
        Counter::default().into_environment(),
    ])
}

fn task_of(environment: &str, row: Value) -> Arc<TaskSpec> {
    let spec = InProcessSpec { environment: environment.to_owned(), row };
    Arc::new(TaskSpec { env: EnvSpec::InProcess(spec), ..task("s/t") })
}

async fn lease(provider: &InProcessProvider, task: Arc<TaskSpec>) -> Box<dyn Env> {
    let attempt = AttemptId { slot: SlotId(0), number: 0 };
    let request = LeaseRequest {
        task,
        attempt,
        epoch: Epoch(1),
        seed: 7,
        deadline: Instant::now() + Duration::from_secs(10),
        cancel: CancelToken::default(),
        blobs: Arc::new(MemoryBlobs::default()),
    };
    provider.lease(request).await.unwrap()
}

fn ctx() -> StepCtx {
    StepCtx { seq: 0, deadline: Instant::now() + Duration::from_secs(10), cancel: CancelToken::default() }
}

fn reply(text: &str) -> Vec<ToolCall> {
    vec![ToolCall::new("reply", json!({ "text": text }))]
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(name, arguments)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_conforms() {
    let case = Case {
        make_provider: Box::new(|| Arc::new(provider()) as Arc<dyn EnvProvider>),
        task: task_of("Counter", json!({})),
        quick_calls: vec![call("add", json!({"by": 2})), call("add", json!({}))],
        // The code of an environment cannot be interrupted.
        long_calls: None,
        ending_calls: Some(vec![call("submit", json!({"answer": "2"}))]),
        deterministic: true,
        patience: Duration::from_secs(10),
        at_once: 64,
    };
    check_provider(case).await.assert_conforms();
}

#[tokio::test]
async fn late_step_is_finished_before_grading() {
    let counter = Counter::default();
    let provider = InProcessProvider::new([counter.clone().into_environment()]);
    let mut env = lease(&provider, task_of("Counter", json!({}))).await;
    env.reset(ctx()).await.unwrap();
    let soon = || StepCtx { deadline: Instant::now() + Duration::from_millis(20), ..ctx() };
    let fault = env.step(&[call("wait", json!({"by": 2}))], soon()).await.unwrap_err();
    assert_eq!(fault.limit, Some(Limit::Step));
    let fault = env.grade(soon()).await.unwrap_err();
    assert_eq!(fault.limit, Some(Limit::Grade));
    counter.release();
    // `wait` counted, and no answer was submitted.
    assert_eq!(env.grade(ctx()).await.unwrap().score, 0.0);
    assert!(env.step(&[call("submit", json!({"answer": 2}))], ctx()).await.is_ok());
    assert!(env.grade(ctx()).await.unwrap().passed);
    env.close().await;
}

#[tokio::test]
async fn single_turn_scores_the_reply() {
    let provider = provider();
    for (text, score) in [("cba\n", 1.0), ("abc", 0.0)] {
        let mut env = lease(&provider, task_of("Reverse", json!({"text": "abc", "answer": "cba"}))).await;
        assert_eq!(env.reset(ctx()).await.unwrap().tools[0].text_argument.as_deref(), Some("text"));
        let result = env.step(&reply(text), ctx()).await.unwrap();
        assert_eq!(result.end, Some(StopReason::Submitted));
        let grade = env.grade(ctx()).await.unwrap();
        assert_eq!((grade.score, grade.passed), (score, score == 1.0));
        env.close().await;
    }
    assert_eq!((provider.usage().live, provider.usage().peak), (0, 1));
}

#[tokio::test]
async fn multi_turn_keeps_its_state() {
    let provider = provider();
    let mut env = lease(&provider, task_of("Guess", json!({}))).await;
    env.reset(ctx()).await.unwrap();
    assert_eq!(env.step(&reply("3"), ctx()).await.unwrap().observation.joined_text(), "more");
    let last = env.step(&reply("7"), ctx()).await.unwrap();
    assert!(matches!(last.end, Some(StopReason::Ended(_))), "{last:?}");
    assert_eq!(env.grade(ctx()).await.unwrap().score, 0.5);
}

#[tokio::test]
async fn tool_error_is_shown_and_answer_ends() {
    let provider = provider();
    let mut env = lease(&provider, task_of("Counter", json!({}))).await;
    let tools: Vec<String> =
        env.reset(ctx()).await.unwrap().tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(tools, ["add", "wait", "submit"]);
    let calls = [
        call("add", json!({"by": "x"})),
        call("add", json!({"by": 5})),
        call("submit", json!({"answer": 5})),
    ];
    let result = env.step(&calls, ctx()).await.unwrap();
    assert_eq!(result.observation.joined_text(), "error: `by` has to be a number\n5");
    assert_eq!(result.end, Some(StopReason::Submitted));
    assert!(env.grade(ctx()).await.unwrap().passed);
}

#[tokio::test]
async fn panic_and_bad_reward_are_faults() {
    struct Broken;
    impl SingleTurn for Broken {
        fn prompt(&self, _: &Row) -> String {
            String::new()
        }

        fn reward(&self, row: &Row, _: &str) -> f64 {
            row["reward"].as_json().as_f64().unwrap()
        }
    }
    let provider = InProcessProvider::new([Broken.into_environment()]);
    for (row, code, message) in [
        (json!({"reward": 1.5}), "reward-out-of-range", "returned the reward 1.5"),
        (json!({"score": 1}), "panicked", "the row has no field `reward`; its fields: score"),
    ] {
        let mut env = lease(&provider, task_of("Broken", row)).await;
        env.reset(ctx()).await.unwrap();
        env.step(&reply("x"), ctx()).await.unwrap();
        let fault = env.grade(ctx()).await.unwrap_err();
        assert!(fault.code == code && fault.message.contains(message), "{fault:?}");
        env.close().await;
    }
}

#[tokio::test]
async fn unknown_environment_is_a_fault() {
    let provider = provider();
    let task = task_of("Other", json!({}));
    let request = LeaseRequest {
        task,
        attempt: AttemptId { slot: SlotId(0), number: 0 },
        epoch: Epoch(1),
        seed: 7,
        deadline: Instant::now() + Duration::from_secs(10),
        cancel: CancelToken::default(),
        blobs: Arc::new(MemoryBlobs::default()),
    };
    let Err(fault) = provider.lease(request).await else { panic!("it was leased") };
    assert_eq!(fault.code, "unknown-environment");
}
