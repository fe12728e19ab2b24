//! Latency of a step: `echo` in a shell session against a bare loop that writes a line and reads to a sentinel.
//!
//! Both sides use bash on a pseudo-terminal without sandbox and take turns step by step, on one thread, so that noise
//! weighs on both alike. Prints the 10th, 50th and 90th percentile and the ratios.
//!
//! `cargo run --release -p clawrl-sandbox --example step_latency [STEPS]`

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/it/shell_fixture.rs"]
#[allow(dead_code)]
mod shell_fixture;

use std::time::{Duration, Instant};

use clawrl_sandbox::{Pty, PtyRead};

const SENTINEL: &[u8] = b"<prompt>";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let steps: usize = std::env::args().nth(1).map_or(5_000, |argument| argument.parse().unwrap());
    let (pty, terminal) = bare_shell().await;
    let mut shell = shell_fixture::shell().await;
    let (mut bare, mut session) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
    let mut seen = Vec::new();
    for step in 0..steps {
        let start = Instant::now();
        pty.write_all(b"echo hello\r").await.unwrap();
        until_sentinel(&pty, &mut seen).await;
        bare.push(start.elapsed());
        assert!(seen.windows(7).any(|window| window == b"hello\r\n"), "step {step}");

        let start = Instant::now();
        let output = shell.run("echo hello").await;
        session.push(start.elapsed());
        assert_eq!(output.text, "hello\n", "step {step}");
    }
    drop(pty);
    drop(terminal);
    let bare = report("bare loop", &mut bare);
    let session = report("shell session", &mut session);
    let ratio = |at: usize| session[at].as_secs_f64() / bare[at].as_secs_f64();
    println!("{:14} p10 {:7.2}      p50 {:7.2}      p90 {:7.2}", "ratio", ratio(0), ratio(1), ratio(2));
}

fn report(name: &str, times: &mut [Duration]) -> [Duration; 3] {
    times.sort_unstable();
    let found = [10, 50, 90].map(|percent| times[times.len() * percent / 100]);
    let [p10, p50, p90] = found.map(|time| time.as_secs_f64() * 1e6);
    println!("{name:14} p10 {p10:7.1} us   p50 {p50:7.1} us   p90 {p90:7.1} us");
    found
}

async fn bare_shell() -> (Pty, shell_fixture::Terminal) {
    let home = tempfile::tempdir().unwrap();
    let rc = home.path().join("rc");
    std::fs::write(&rc, "PS1='<prompt>'\n").unwrap();
    let arguments = ["--noprofile", "--rcfile", rc.to_str().unwrap(), "-i"].map(str::to_owned);
    let (master, terminal) = shell_fixture::spawn("bash", &arguments, home);
    let pty = Pty::from_master(master).unwrap();
    until_sentinel(&pty, &mut Vec::new()).await;
    (pty, terminal)
}

async fn until_sentinel(pty: &Pty, seen: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    seen.clear();
    while !seen.ends_with(SENTINEL) {
        match pty.read(&mut buffer).await.unwrap() {
            PtyRead::Bytes(count) => seen.extend_from_slice(&buffer[..count]),
            PtyRead::Empty | PtyRead::HungUp => panic!("the shell ended"),
        }
    }
}
