//! What is found of threads that are known to be busy. One test: a process is sampled once.

use std::hint::black_box;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use clawrl_profile::{Sampler, SamplerError};

/// Uses the processor for so long, by the wall clock of a machine that may be busy with others.
#[inline(never)]
fn numbers_are_summed(time: Duration) -> u64 {
    let began = Instant::now();
    let mut sum = 0u64;
    while began.elapsed() < time {
        for number in 0..10_000u64 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
    sum
}

#[inline(never)]
fn called_by_the_first(time: Duration) -> u64 {
    black_box(numbers_are_summed(time)) + 1
}

#[inline(never)]
fn called_by_the_second(time: Duration) -> u64 {
    black_box(numbers_are_summed(time)) + 2
}

#[test]
fn every_thread_is_sampled_and_no_other_process() {
    let sampler = Sampler::start().unwrap();
    assert!(matches!(Sampler::start(), Err(SamplerError::Taken)));
    let time = Duration::from_millis(600);
    let busy = |name: &str, body: fn(Duration) -> u64| {
        thread::Builder::new().name(name.to_owned()).spawn(move || body(time)).unwrap()
    };
    let threads = [busy("first", called_by_the_first), busy("second", called_by_the_second)];
    // A process with the timer and without the handler would be ended by its signal.
    let child = "for ((i = 0; i < 100000; i++)); do :; done; (exit 7)";
    let status = Command::new("bash").args(["-c", child]).status().unwrap();
    assert_eq!(status.code(), Some(7), "{status}");
    // Calls that wait are not cut short, whatever signals come.
    let began = Instant::now();
    let (_silent, nothing) = std::sync::mpsc::channel::<()>();
    nothing.recv_timeout(Duration::from_millis(200)).unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(200));
    for thread in threads {
        thread.join().unwrap();
    }
    let sampled = sampler.stop().unwrap();
    assert!(sampled.samples >= 20, "{sampled:?}");
    assert_eq!(sampled.lost, 0);
    for wanted in ["first", "second"] {
        assert!(sampled.names(|name| name == wanted), "{wanted}: {sampled:?}");
    }
    for wanted in ["called_by_the_first", "called_by_the_second", "numbers_are_summed"] {
        assert!(sampled.names(|name| name.ends_with(wanted)), "{wanted}: {sampled:?}");
    }
    let svg = sampled.flame_graph("a test");
    let document = roxmltree::Document::parse(&svg).unwrap();
    let titles = document.descendants().filter(|node| node.has_tag_name("title"));
    let titles: Vec<&str> = titles.filter_map(|node| node.text()).collect();
    assert!(titles.iter().any(|title| title.contains("numbers_are_summed: ")), "{titles:?}");
}
