//! Traces of an attempt in its browser: there are none, or the browser is not reused.

use clawrl_core::{EnvProvider, PageCheck, RequestPattern};

use crate::processes::browser;
use crate::support::{begin, graded, page, respond, route, spec, step, task, with_provider};

#[test]
fn tabs_and_names_of_windows_end_with_the_attempt() {
    with_provider(|provider| async move {
        // An empty address opens the window of that name if it exists, and a new one otherwise.
        let html = "<title>Main</title><button onclick='window.open(\"/other.html\", \"kept\"); window.name = \"own\"'>Open</button>\
            <button onclick='const found = window.open(\"\", \"kept\"); out.textContent = [found.location, window.name]; found.close()'>Find</button>\
            <p id=out></p>";
        let files = vec![page("index.html", html), page("other.html", "<title>Other</title>")];
        let task = task(spec(files), Vec::new());
        let (mut first, begun) = begin(provider.as_ref(), &task).await;
        let used = browser();
        let opened = step(first.as_mut(), "click \"Open\"").await;
        assert!(opened.starts_with("tabs: 1 \"Main\", 2* \"Other\"\n"), "{opened}");
        step(first.as_mut(), "tab 1").await;
        let found = step(first.as_mut(), "click \"Find\"").await;
        assert!(found.contains("http://app.localhost/other.html,own"), "{found}");
        let opened = step(first.as_mut(), "click \"Open\"").await;
        assert!(opened.starts_with("tabs: "), "{opened}");
        first.close().await;
        let (mut next, seen) = begin(provider.as_ref(), &task).await;
        assert_eq!(browser().id, used.id, "the browser is used again");
        assert_eq!(seen, begun);
        let found = step(next.as_mut(), "click \"Find\"").await;
        assert!(found.contains("about:blank,"), "{found}");
        assert!(!found.contains("own") && !found.contains("other.html"), "{found}");
        next.close().await;
    });
}

#[test]
fn cacheable_answers_are_requested_per_attempt() {
    with_provider(|provider| async move {
        let html = "<title>Main</title><p id=out></p><script>(async () => {\
            for (let i = 0; i < 2; i++) out.textContent += await (await fetch('/kept.txt')).text(); })()</script>";
        let headers = [("cache-control", "max-age=3600"), ("content-type", "text/plain")];
        let answer = respond(200, &headers, "kept ");
        let mut gui = spec(vec![page("index.html", html)]);
        gui.sites[0].routes = vec![route("/kept.txt", answer)];
        // Once: the second time, the attempt has it.
        let once = PageCheck::Requested {
            site: Some("app".to_owned()),
            request: RequestPattern { path: Some("/kept.txt".to_owned()), ..RequestPattern::default() },
            at_least: 1,
            at_most: Some(1),
        };
        let task = task(gui, vec![once]);
        let mut used = Vec::new();
        for _ in 0..2 {
            let (mut env, seen) = begin(provider.as_ref(), &task).await;
            assert!(seen.contains("kept kept"), "{seen}");
            let grade = graded(env.as_mut()).await;
            assert!(grade.passed, "{grade:?}");
            used.push(browser().id);
            env.close().await;
        }
        assert_eq!(used[0], used[1], "the browser is used again");
    });
}

#[test]
fn browser_with_uploads_is_not_reused() {
    with_provider(|provider| async move {
        let html =
            "<title>Files</title><a download href='/note.txt'>Get</a><input type=file aria-label=Given>";
        let files = vec![page("index.html", html), page("note.txt", "remember")];
        let none = task(spec(files.clone()), Vec::new());
        let mut gui = spec(files);
        gui.files = vec![page("cat.txt", "meow")];
        let some = task(gui, Vec::new());
        let cases = [
            (&none, "wait 0", true),
            (&none, "click \"Get\"", false),
            (&some, "upload \"Given\" cat.txt", false),
        ];
        for (task, line, is_used_again) in cases {
            let (mut env, _) = begin(provider.as_ref(), task).await;
            let used = browser().id;
            let seen = step(env.as_mut(), line).await;
            assert!(!seen.contains("error"), "{seen}");
            env.close().await;
            let (mut env, _) = begin(provider.as_ref(), &none).await;
            assert_eq!(browser().id == used, is_used_again, "{line}");
            env.close().await;
        }
    });
}

#[test]
fn dialog_does_not_outlive_its_attempt() {
    with_provider(|provider| async move {
        let html = "<title>Main</title><button onclick='alert(\"left\")'>Ask</button>";
        let task = task(spec(vec![page("index.html", html)]), Vec::new());
        let (mut env, begun) = begin(provider.as_ref(), &task).await;
        for _ in 0..2 {
            let asked = step(env.as_mut(), "click \"Ask\"").await;
            assert_eq!(asked, "dialog: alert \"left\"");
            env.close().await;
            let seen;
            (env, seen) = begin(provider.as_ref(), &task).await;
            assert_eq!(seen, begun);
        }
        let asked = step(env.as_mut(), "click \"Ask\"").await;
        assert_eq!(asked, "dialog: alert \"left\"");
        env.close().await;
        assert!(provider.usage().live <= 1);
    });
}
