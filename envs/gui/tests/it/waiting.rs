//! Effects of an action in a page, and how long they are awaited.

use std::time::{Duration, Instant};

use clawrl_core::{PageCheck, RequestPattern, Retry, Route, StopReason, TextPattern, ToolCall};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::support::{act, begin, ctx, graded, not_begun, page, respond, spec, step, task, with_provider};

/// Saves its input, a moment after the last change.
const SAVES: &str = "<title>Saves</title><style>div { height: 100px; overflow: auto } div p { height: 900px }</style>\
    <label>Size <select><option>Small<option>Large</select></label>\
    <label>Day <input type=date></label><label>Colour <input type=color></label><label>Share <input type=range></label>\
    <label>Name <input id=name></label><label>Picture <input type=file></label>\
    <button id=slow>Slow</button><button id=soon>Soon</button>\
    <button draggable=true>Card</button><button id=box>Box</button>\
    <iframe srcdoc='<label>Kind <select><option>One<option>Two</select></label>'></iframe>\
    <div aria-label=List role=listbox tabindex=0 id=list><p>Long</div><p id=said>nothing</p><script>\
    const said = document.querySelector('#said'); let timer; let count = 0;\
    const later = (what, after = 300) => () => { clearTimeout(timer); timer = setTimeout(() => { said.textContent = `saved ${what} ${++count}`; }, after); };\
    for (const [of, label] of [['select', 'size'], ['[type=date]', 'day'], ['[type=color]', 'colour'], ['[type=range]', 'share'], ['[type=file]', 'file']])\
      document.querySelector(of).addEventListener('change', later(label));\
    list.addEventListener('scroll', later('place'));\
    /* As libraries do it: the timer of the first key looks whether others came since, and waits for the rest of their time. */\
    let last = 0; let waits = false;\
    const look = () => { const rest = last + 300 - performance.now(); if (rest > 0) setTimeout(look, rest);\
      else { waits = false; said.textContent = `saved name ${++count}`; } };\
    document.querySelector('#name').addEventListener('input', () => { last = performance.now(); if (!waits) { waits = true; setTimeout(look, 300); } });\
    slow.onclick = () => { const until = performance.now() + 400; while (performance.now() < until); later('slowly')(); };\
    soon.onclick = () => { setTimeout(() => { said.textContent = 'saved soon'; }); };\
    box.ondragover = (given) => given.preventDefault(); box.ondrop = later('card');\
    document.querySelector('iframe').onload = ({ target }) => {\
      target.contentDocument.querySelector('select').addEventListener('change', later('kind')); };\
    </script>";

#[test]
fn delayed_effects_belong_to_their_action() {
    with_provider(|provider| async move {
        let mut gui = spec(vec![page("index.html", SAVES)]);
        gui.files = vec![page("cat.txt", "meow")];
        let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        let saves = [
            ("select \"Size\" Large", "size"),
            ("type \"Day\" 2031-02-28", "day"),
            ("type \"Colour\" #ff8800", "colour"),
            ("type \"Share\" 70", "share"),
            ("type \"Name\" Ada", "name"),
            ("upload \"Picture\" cat.txt", "file"),
            ("drag \"Card\" \"Box\"", "card"),
            ("scroll \"Long\" down", "place"),
            ("click \"Slow\"", "slowly"),
            ("select \"Kind\" Two", "kind"),
            ("click \"Soon\"", "soon"),
        ];
        for (number, (line, what)) in (1..).zip(saves) {
            let seen = step(env.as_mut(), line).await;
            let expected =
                if what == "soon" { "saved soon".to_owned() } else { format!("saved {what} {number}") };
            assert!(seen.contains(&expected), "{line}: {seen}");
        }
        env.close().await;
    });
}

#[test]
fn pending_effects_of_last_action_count() {
    with_provider(|provider| async move {
        let saved = PageCheck::Element {
            selector: "#said".to_owned(),
            with: clawrl_core::ElementPattern {
                text: Some(TextPattern::Equals("saved size 1".to_owned())),
                ..Default::default()
            },
            at_least: 1,
            at_most: None,
        };
        let task = task(spec(vec![page("index.html", SAVES)]), vec![saved]);
        let (mut env, _) = begin(provider.as_ref(), &task).await;
        let calls = [act("select \"Size\" Large"), ToolCall::new("submit", json!({}))];
        assert_eq!(env.step(&calls, ctx(1)).await.unwrap().end, Some(StopReason::Submitted));
        let grade = graded(env.as_mut()).await;
        assert!(grade.passed, "{grade:?}");
        env.close().await;
    });
}

#[test]
fn animated_pages_do_not_block() {
    let moves = [
        // It keeps scrolling, one timer at a time.
        "const go = () => { list.scrollTop = (list.scrollTop + 1) % 700; setTimeout(go, 40); }; go();",
        // A timer that sets the next one, and shows nothing.
        "const go = () => { setTimeout(go, 200); }; go(); document.addEventListener('click', go);",
        "document.addEventListener('click', () => setInterval(() => { window.count = (window.count ?? 0) + 1; }, 50));",
    ];
    with_provider(|provider| async move {
        for script in moves {
            let html = format!(
                "<title>Moves</title><div id=list style='height: 100px; overflow: auto'><p style='height: 900px'>Long</div>\
                 <button>Press</button><script>{script}</script>"
            );
            let mut gui = spec(vec![page("index.html", &html)]);
            // Longer than the test may take: a blocked caller runs into its limit.
            gui.settle = Duration::from_secs(120);
            let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
            for line in ["click \"Press\"", "scroll down", "press PageDown", "hover \"Press\""] {
                step(env.as_mut(), line).await;
            }
            env.close().await;
        }
    });
}

/// Listens, answers the first page with `answer`, if any, and nothing else. Connections of the second kind end after a
/// while.
async fn listen(answer: Option<&'static str>, ends_after: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test's runtime.
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.unwrap_or_default();
                match answer.filter(|_| request[..read].starts_with(b"GET / ")) {
                    Some(answer) => {
                        let _ = stream.write_all(answer.as_bytes()).await;
                        std::future::pending::<()>().await;
                    }
                    // timer: the lateness of the connection's end is what is tested
                    None => sleep(ends_after).await,
                }
            });
        }
    });
    address.to_string()
}

#[test]
fn late_error_page_is_fault() {
    with_provider(|provider| async move {
        let busy = "HTTP/1.1 503 Busy\r\ncontent-type: text/html\r\ncontent-length: 51\r\n\r\n\
            <title>Busy</title><img src=/more.png>Try it later.";
        let never = Duration::from_secs(600);
        let origin = format!("http://{}", listen(Some(busy), never).await);
        let mut gui = spec(vec![page("index.html", "<title>Unused</title>")]);
        gui.settle = Duration::from_secs(1);
        gui.origins = vec![origin.clone()];
        gui.start = format!("{origin}/");
        for prepare in [Vec::new(), vec!["nobody.isThere();".to_owned()]] {
            gui.prepare = prepare;
            let fault = not_begun(provider.as_ref(), &task(gui.clone(), Vec::new())).await;
            assert_eq!((fault.code.as_str(), fault.retry), ("page-unreachable", Retry::Sound), "{fault}");
            assert!(fault.message.contains("status 503"), "{fault}");
        }
    });
}

#[test]
fn late_tunnel_failure_is_fault() {
    with_provider(|provider| async move {
        let origin = format!("https://{}", listen(None, Duration::from_secs(3)).await);
        let mut gui = spec(vec![page("index.html", "<title>Unused</title>")]);
        gui.settle = Duration::from_secs(1);
        gui.origins = vec![origin.clone()];
        gui.start = format!("{origin}/");
        let fault = not_begun(provider.as_ref(), &task(gui, Vec::new())).await;
        assert_eq!((fault.code.as_str(), fault.retry), ("page-unreachable", Retry::Sound), "{fault}");
    });
}

#[test]
fn download_is_awaited_from_the_click() {
    // A frame that may not download anything: the file is never requested, as if that was still to come.
    let html = "<title>Files</title><iframe sandbox='allow-scripts allow-same-origin'\
        srcdoc='<a download href=\"/note.txt\">Asked</a>'></iframe>";
    with_provider(|provider| async move {
        let files = vec![page("index.html", html), page("note.txt", "remember")];
        let (mut env, _) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        let since = Instant::now();
        let seen = step(env.as_mut(), "click \"Asked\"").await;
        assert!(!seen.contains("downloaded"), "{seen}");
        assert!(since.elapsed() >= Duration::from_secs(5), "{:?}", since.elapsed());
        env.close().await;
    });
}

#[test]
fn download_is_awaited_after_a_missing_one() {
    // A frame that may not download anything.
    let html = "<title>Files</title><iframe sandbox='allow-scripts allow-same-origin'\
        srcdoc='<a download=none.txt href=\"data:text/plain,none\">None</a>'></iframe>\
        <button>Unforeseen</button><a download href='/note.txt'>Note</a><script>\
        document.querySelector('button').onclick = () => {\
          location = URL.createObjectURL(new Blob(['1'], { type: 'application/octet-stream' })); };</script>";
    with_provider(|provider| async move {
        let files = vec![page("index.html", html), page("note.txt", "remember")];
        let (mut env, _) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        let seen = step(env.as_mut(), "click \"None\"").await;
        assert!(!seen.contains("downloaded"), "{seen}");
        // As if the first one had started after all, after the wait was over.
        let mut seen = step(env.as_mut(), "click \"Unforeseen\"").await;
        for _ in 0..100 {
            if seen.contains("downloaded") {
                break;
            }
            seen = step(env.as_mut(), "wait 0.1").await;
        }
        assert!(seen.contains("downloaded"), "{seen}");
        // Chromium downloads ten at most that no real user asked for.
        for _ in 0..4 {
            let seen = step(env.as_mut(), "click \"Note\"").await;
            assert!(seen.starts_with("downloaded: note"), "{seen}");
        }
        env.close().await;
    });
}

mod slow {
    use super::*;

    #[test]
    fn settling_may_exceed_script_timeout() {
        with_provider(|provider| async move {
            let html = "<title>Waits</title><button onclick='fetch(\"/late\").then(() => document.title = \"Came\")'>Ask</button>";
            let mut gui = spec(vec![page("index.html", html)]);
            gui.settle = Duration::from_secs(60);
            gui.sites[0].routes = vec![Route {
                request: RequestPattern { path: Some("/late".to_owned()), ..RequestPattern::default() },
                after: 0,
                times: None,
                delay: Duration::from_secs(32),
                answer: respond(200, &[], "late"),
            }];
            let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
            let seen = step(env.as_mut(), "click \"Ask\"").await;
            assert!(seen.contains("title: Came"), "{seen}");
            env.close().await;
        });
    }
}
