//! Pages, browsers and drivers that end while they are needed: each costs only its own attempt.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Boundary, Env, EnvProvider, Fault, GuiSpec, Retry, TaskSpec};

use crate::processes::{Process, browser, browsers, drivers, largest_page, until};
use crate::support::{act, begin, ctx, page, spec, step, task, with_provider};

/// Counts, and holds so much memory that its process is known by it.
const COUNTER: &str = "<title>0</title><button onclick='document.title = Number(document.title) + 1'>Add</button>\
    <button onclick='window.held = new Uint8Array(3e8).fill(1); document.title = \"held\"'>Hold</button>";

fn counter() -> Arc<TaskSpec> {
    task(spec(vec![page("index.html", COUNTER)]), Vec::new())
}

async fn fault_of(env: &mut dyn Env, line: &str) -> Fault {
    env.step(&[act(line)], ctx(1)).await.unwrap_err()
}

/// Ends a process of an attempt midway; a neighbour and the next attempt are unaffected.
async fn ended(provider: &dyn EnvProvider, victim: impl FnOnce() -> Process) -> Fault {
    let task = counter();
    let (mut neighbour, _) = begin(provider, &task).await;
    let others = (browsers(), drivers());
    let (mut env, _) = begin(provider, &task).await;
    let seen = step(env.as_mut(), "click \"Hold\"").await;
    assert!(seen.contains("title: held"), "{seen}");
    victim().kill();
    let fault = fault_of(env.as_mut(), "click \"Add\"").await;
    let counted = step(neighbour.as_mut(), "click \"Add\"").await;
    assert!(counted.contains("title: 1\n"), "{counted}");
    env.close().await;
    // The broken one is not reused, and nothing of it is left.
    until("nothing is left of it", || {
        let is_other = |one: &Process, others: &[Process]| others.iter().any(|other| other.id == one.id);
        browsers().iter().all(|one| is_other(one, &others.0))
            && drivers().iter().all(|one| is_other(one, &others.1))
    });
    let (mut next, seen) = begin(provider, &task).await;
    assert!(seen.contains("title: 0\n"), "{seen}");
    next.close().await;
    let counted = step(neighbour.as_mut(), "click \"Add\"").await;
    assert!(counted.contains("title: 2\n"), "{counted}");
    neighbour.close().await;
    assert_eq!((fault.boundary, fault.retry), (Boundary::Env, Retry::Sound), "{fault}");
    fault
}

#[test]
fn crashed_page_faults_its_attempt() {
    with_provider(|provider| async move {
        let fault = ended(provider.as_ref(), largest_page).await;
        assert_eq!(fault.code, "page-crashed", "{fault}");
    });
}

#[test]
fn a_browser_that_ends_is_a_fault_of_its_attempt() {
    with_provider(|provider| async move {
        // The last to be started is the one of the attempt.
        let fault = ended(provider.as_ref(), || browsers().pop().unwrap()).await;
        assert_eq!(fault.code, "browser-lost", "{fault}");
    });
}

#[test]
fn a_driver_that_ends_is_a_fault_of_its_attempt() {
    with_provider(|provider| async move {
        let fault = ended(provider.as_ref(), || drivers().pop().unwrap()).await;
        assert_eq!(fault.code, "browser-lost", "{fault}");
    });
}

#[test]
fn dead_idle_browser_is_replaced_silently() {
    with_provider(|provider| async move {
        let task = counter();
        let victims: [fn() -> Process; 2] = [browser, || drivers().pop().unwrap()];
        for victim in victims {
            let (mut env, _) = begin(provider.as_ref(), &task).await;
            env.close().await;
            assert_eq!(provider.usage().warm, 1);
            let idle = browser();
            victim().kill();
            let (mut env, seen) = begin(provider.as_ref(), &task).await;
            assert!(seen.contains("title: 0\n"), "{seen}");
            assert!(browsers().iter().any(|one| one.id != idle.id));
            env.close().await;
        }
    });
}

#[test]
fn browser_out_of_memory_faults_its_attempt() {
    with_provider(|provider| async move {
        // Bit by bit, so that it answers for as long as it lives; it stops where no limit let it come.
        let html = "<title>Eats</title><button>Start</button><script>const all = [];\
            document.querySelector('button').onclick = () => { const meal = setInterval(() => {\
            if (all.length < 150) all.push(new Uint8Array(2e7).fill(1)); else { clearInterval(meal); document.title = 'Full'; } }, 20); };</script>";
        let gui = GuiSpec { memory_mib: 1024, ..spec(vec![page("index.html", html)]) };
        let hungry = task(gui, Vec::new());
        let (mut neighbour, _) = begin(provider.as_ref(), &counter()).await;
        let (mut env, _) = begin(provider.as_ref(), &hungry).await;
        let mut result = env.step(&[act("click \"Start\"")], ctx(1)).await;
        while let Ok(seen) = &result {
            let seen = seen.observation.joined_text();
            assert!(!seen.contains("title: Full"), "nothing stopped it: {seen}");
            result = env.step(&[act("wait 0.5")], ctx(2)).await;
        }
        let fault = result.unwrap_err();
        assert_eq!((fault.boundary, fault.retry), (Boundary::Env, Retry::Sound), "{fault}");
        assert!(["page-crashed", "browser-lost"].contains(&fault.code.as_str()), "{fault}");
        let counted = step(neighbour.as_mut(), "click \"Add\"").await;
        assert!(counted.contains("title: 1\n"), "{counted}");
        env.close().await;
        neighbour.close().await;
    });
}

#[test]
fn excess_tabs_are_closed_and_attempt_continues() {
    const MAX_TABS: usize = 20;
    with_provider(|provider| async move {
        let html = "<title>Tabs</title><button onclick='for (let i = 0; i < 6; i++) window.open(\"/\")'>Open</button>\
            <button onclick='this.textContent = \"Pressed\"'>Press</button>";
        let mut gui = spec(vec![page("index.html", html)]);
        gui.settle = Duration::from_secs(5);
        let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        let tabs = |seen: &str| {
            let line = seen.lines().find(|line| line.starts_with("tabs: ")).unwrap_or_default();
            line.matches("\"Tabs\"").count() + line.matches("\"\"").count()
        };
        let mut count = 1;
        for _ in 0..6 {
            count = tabs(&step(env.as_mut(), "click \"Open\"").await);
            assert!(count <= MAX_TABS, "{count}");
        }
        assert_eq!(count, MAX_TABS);
        let pressed = step(env.as_mut(), "click \"Press\"").await;
        assert!(pressed.contains("button \"Pressed\""), "{pressed}");
        let first = step(env.as_mut(), "tab 1").await;
        assert!(first.starts_with("tabs: 1* \"Tabs\"") && tabs(&first) == MAX_TABS, "{first}");
        env.close().await;
    });
}
