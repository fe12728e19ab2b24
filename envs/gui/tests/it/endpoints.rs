//! Browsers started by others.

use std::collections::HashMap;
use std::sync::Arc;

use clawrl_core::{Boundary, EnvProvider, FixtureFile, GuiSpec, PageCheck, Retry, TextPattern};
use clawrl_gui::{BrowserSource, Endpoints, GuiConfig, GuiProvider};
use clawrl_sandbox::WarmMarks;

use crate::bare::{BareDriver, silent_port};
use crate::conformance::conform;
use crate::isolation::{keeps_nothing, reaches_its_own};
use crate::support::{act, begin, ctx, element, graded, page, request, spec, step, task};

fn provider(urls: &str) -> GuiProvider {
    GuiProvider::new(GuiConfig {
        backends: HashMap::new(),
        source: BrowserSource::Endpoints(Arc::new(Endpoints::parse(urls, None).unwrap())),
        marks: WarmMarks { low: 0, high: 0 },
        expected: Vec::new(),
        judge: None,
    })
}

/// Runs `test` with a driver and a provider of its browsers, and checks that nothing is left of them.
async fn with_driver(test: impl AsyncFnOnce(&dyn EnvProvider)) {
    let driver = BareDriver::start();
    let provider = provider(&driver.url());
    test(&provider).await;
    assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
    assert_eq!(driver.sessions(), 0);
}

#[tokio::test]
async fn proxy_caches_nothing_and_reaches_nothing_else() {
    with_driver(async |provider| {
        keeps_nothing(provider).await;
        reaches_its_own(provider).await;
    })
    .await;
}

const FILES: &str = "<title>Files</title><p id=out>empty</p>\
    <input type=file aria-label=Given onchange='this.files[0].text().then(text => out.textContent = this.files[0].name + \":\" + text)'>\
    <a href='/note.txt' download>Note</a>";

fn with_files() -> GuiSpec {
    let file = |path: &str, text: &str| FixtureFile { path: path.to_owned(), ..page("", text) };
    GuiSpec {
        files: vec![file("one/cat.txt", "first\u{e9}"), file("two/cat.txt", "second")],
        ..spec(vec![page("index.html", FILES), page("note.txt", "a note\n")])
    }
}

#[tokio::test]
async fn files_go_there_and_come_back() {
    with_driver(async |provider| {
        let content = |text: &str| Some(TextPattern::Equals(text.to_owned()));
        let downloaded = |name: &str, content| PageCheck::Downloaded { name: name.to_owned(), content };
        let checks = vec![
            downloaded("note.txt", None),
            downloaded("note.txt", content("a note\n")),
            downloaded("note.txt", content("another")),
            downloaded("other.txt", None),
        ];
        let task = task(with_files(), checks);
        let (mut env, seen) = begin(provider, &task).await;
        let given = element(&seen, "\"Given\"");
        for (path, text) in [("one/cat.txt", "cat.txt:first\u{e9}"), ("two/cat.txt", "cat.txt:second")] {
            let seen = step(env.as_mut(), &format!("upload {given} {path}")).await;
            assert!(seen.contains(text), "{seen}");
        }
        let missing = step(env.as_mut(), &format!("upload {given} cat.txt")).await;
        assert!(missing.starts_with("error: there is no file `cat.txt`"), "{missing}");
        let mut seen = step(env.as_mut(), &format!("click {}", element(&seen, "\"Note\""))).await;
        for _ in 0..100 {
            if seen.contains("downloaded: note.txt") {
                break;
            }
            seen = step(env.as_mut(), "wait 0.1").await;
        }
        let scores = graded(env.as_mut()).await.checks.iter().map(|check| check.score).collect::<Vec<_>>();
        assert_eq!(scores, [1.0, 1.0, 0.0, 0.0]);
        env.close().await;
        // An attempt without downloads sees none of another attempt.
        let (mut env, _) = begin(provider, &task).await;
        let scores = graded(env.as_mut()).await.checks.iter().map(|check| check.score).collect::<Vec<_>>();
        assert_eq!(scores, [0.0; 4]);
        env.close().await;
    })
    .await;
}

#[tokio::test]
async fn browser_with_pending_download_is_not_reused() {
    with_driver(async |provider| {
        // A frame that may not download anything: the browser never reports what starts in it.
        let html = "<title>Files</title><iframe sandbox='allow-scripts allow-same-origin'\
            srcdoc='<a download=none.txt href=\"data:text/plain,none\">None</a>'></iframe>";
        let check = PageCheck::Downloaded { name: "none.txt".to_owned(), content: None };
        for (line, checks, warm) in
            [("click \"None\"", Vec::new(), 0), ("wait 0", vec![check], 0), ("wait 0", Vec::new(), 1)]
        {
            let task = task(spec(vec![page("index.html", html)]), checks);
            let (mut env, _) = begin(provider, &task).await;
            step(env.as_mut(), line).await;
            env.close().await;
            assert_eq!(provider.usage().warm, warm, "{line}");
        }
    })
    .await;
}

#[tokio::test]
async fn sessions_are_shared_by_live_endpoints() {
    let drivers = [BareDriver::start(), BareDriver::start()];
    let task = task(spec(vec![page("index.html", "<title>Here</title>")]), Vec::new());
    let silent = silent_port();
    let dead = format!("http://{}", silent.address());
    let check = async |urls: String, expected: [usize; 2]| {
        let provider = provider(&urls);
        let mut envs = Vec::new();
        for _ in 0..2 {
            let (env, seen) = begin(&provider, &task).await;
            assert!(seen.contains("title: Here"), "{seen}");
            envs.push(env);
        }
        assert_eq!([drivers[0].sessions(), drivers[1].sessions()], expected, "{urls}");
        for mut env in envs {
            env.close().await;
        }
        // Including those kept for reuse.
        assert_eq!(provider.usage().warm, 2);
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
        assert_eq!([drivers[0].sessions(), drivers[1].sessions()], [0, 0]);
    };
    check(format!("{dead}, {}", drivers[0].url()), [2, 0]).await;
    check(format!("{} {dead} {}", drivers[0].url(), drivers[1].url()), [1, 1]).await;
}

#[tokio::test]
async fn dead_driver_faults_only_its_attempts() {
    let (mut mortal, later) = (BareDriver::start(), silent_port());
    let provider = provider(&format!("{} http://{}", mortal.url(), later.address()));
    let task = task(spec(vec![page("index.html", "<title>Here</title><button>Press</button>")]), Vec::new());
    let (mut env, _) = begin(&provider, &task).await;
    mortal.kill();
    let fault = env.step(&[act("click 1")], ctx(1)).await.unwrap_err();
    assert_eq!(
        (fault.code.as_str(), fault.boundary, fault.retry),
        ("browser-lost", Boundary::Env, Retry::Sound)
    );
    env.close().await;
    let fault = provider.lease(request(&task)).await.err().unwrap();
    assert_eq!((fault.code.as_str(), fault.boundary), ("webdriver-unreachable", Boundary::Provider));
    assert_eq!(fault.retry, Retry::Sound);
    assert!(fault.message.contains(&mortal.url()), "{fault}");
    let port = later.address().port();
    drop(later);
    let heir = BareDriver::start_at(port);
    let (mut env, seen) = begin(&provider, &task).await;
    assert!(seen.contains("title: Here"), "{seen}");
    assert_eq!(heir.sessions(), 1);
    env.close().await;
    assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
    assert_eq!(heir.sessions(), 0);
}

mod slow {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn browsers_of_endpoints_conform() {
        let driver = BareDriver::start();
        let url = driver.url();
        conform(move || Arc::new(provider(&url)) as Arc<dyn EnvProvider>).await;
        assert_eq!(driver.sessions(), 0);
    }
}
