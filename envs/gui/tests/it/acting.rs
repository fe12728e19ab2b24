//! Actions besides filling in forms: tools, tabs, points, and dialogs at odd times.

use std::time::Duration;

use clawrl_core::{Env, Screenshots, ToolCall};
use serde_json::{Value, json};

use crate::support::{begin, ctx, element, page, spec, step, task, with_provider};

async fn call(env: &mut dyn Env, tool: &str, arguments: Value) -> String {
    env.step(&[ToolCall::new(tool, arguments)], ctx(1)).await.unwrap().observation.joined_text()
}

const BENCH: &str = "<title>Bench</title><style>body { margin: 0 } #pad { position: absolute; left: 300px; top: 200px; width: 100px; height: 50px }\
    #tall { height: 3000px }</style><div id=pad></div>\
    <button id=b>Press</button><input id=t aria-label=Name><select aria-label=Size multiple><option>Small<option>Medium<option>Large</select>\
    <input type=file aria-label=Given><div id=from draggable=true aria-label=Card role=button>Card</div><div id=to aria-label=Box role=button>Box</div>\
    <a href='/next.html'>Next</a><p id=out>nothing</p><p id=at>at 0</p><div id=tall></div><script>\
    const say = (text) => { out.textContent = text; };\
    b.oncontextmenu = () => false;\
    for (const event of ['click', 'dblclick', 'auxclick', 'mouseover']) {\
      b.addEventListener(event, (e) => { say(`${event} ${e.button}`); });\
      pad.addEventListener(event, (e) => say(`pad ${event} ${e.clientX},${e.clientY}`)); }\
    addEventListener('keydown', (e) => { if (e.ctrlKey && e.key === 'k') { e.preventDefault(); say('key'); } });\
    t.addEventListener('change', () => say(`named ${t.value}`));\
    addEventListener('scroll', () => { at.textContent = `at ${scrollY}`; });\
    to.ondragover = (e) => e.preventDefault(); to.ondrop = () => say('dropped');</script>";

#[test]
fn every_tool_works() {
    with_provider(|provider| async move {
        let mut gui = spec(vec![
            page("index.html", BENCH),
            page(
                "next.html",
                "<title>Next</title><button onclick='document.title = confirm(\"Sure?\")'>Ask</button>",
            ),
        ]);
        gui.files = vec![page("cat.txt", "meow")];
        gui.screenshots = Screenshots::OnRequest;
        let (mut env, seen) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        let button = element(&seen, "button \"Press\"");
        let check = async |env: &mut dyn Env, tool: &str, arguments: Value, part: &str| {
            let seen = call(env, tool, arguments.clone()).await;
            assert!(seen.contains(part), "{tool} {arguments}: {seen}");
        };
        let env = env.as_mut();
        check(env, "scroll", json!({ "down": 500 }), "text: at 500").await;
        check(env, "scroll", json!({ "down": -300 }), "text: at 200").await;
        check(env, "scroll", json!({ "down": -200 }), "text: at 0").await;
        check(env, "click", json!({ "element": button }), "text: click 0").await;
        check(env, "click", json!({ "element": "\"Press\"", "count": 2 }), "text: dblclick 0").await;
        check(env, "click", json!({ "element": button, "button": "right" }), "text: auxclick 2").await;
        check(env, "click", json!({ "element": button, "button": "middle" }), "text: auxclick 1").await;
        check(env, "click", json!({ "x": 310, "y": 220 }), "text: pad click 310,220").await;
        check(env, "click", json!({ "x": 310, "y": 220, "element": button }), "error: name an element").await;
        check(env, "click", json!({ "x": 310 }), "error: name an element").await;
        check(env, "click", json!({ "element": button, "count": 4 }), "error: `count` is").await;
        check(env, "hover", json!({ "element": button }), "text: mouseover 0").await;
        check(env, "hover", json!({ "x": 399, "y": 249 }), "text: pad mouseover 399,249").await;
        check(env, "drag", json!({ "from": "\"Card\"", "to": "\"Box\"" }), "text: dropped").await;
        check(env, "type", json!({ "element": "\"Name\"", "text": "Ada", "enter": true }), "named Ada").await;
        check(env, "type", json!({ "element": "\"Name\"", "text": " L", "append": true }), "= \"Ada L\"")
            .await;
        check(env, "type", json!({ "text": "!" }), "= \"Ada L!\"").await;
        check(env, "press", json!({ "keys": "Ctrl+K" }), "text: key").await;
        check(
            env,
            "select",
            json!({ "element": "\"Size\"", "options": ["Small", "Large"] }),
            "= \"Small\", \"Large\"",
        )
        .await;
        check(env, "upload", json!({ "element": "\"Given\"", "file": "cat.txt" }), "cat.txt").await;
        check(env, "wait", json!({ "seconds": 0.1 }), "title: Bench").await;
        check(env, "wait", json!({ "seconds": 11 }), "error: waits are").await;
        check(env, "click", json!({ "element": "link \"Next\"" }), "title: Next").await;
        check(env, "dialog", json!({ "accept": true }), "error: no dialog").await;
        check(env, "click", json!({ "element": "\"Ask\"" }), "dialog: confirm \"Sure?\"").await;
        check(env, "dialog", json!({ "accept": true, "text": "x" }), "error: the dialog is of the kind")
            .await;
        check(env, "dialog", json!({ "accept": true }), "title: true").await;
        check(env, "click", json!({ "element": "\"Ask\"" }), "dialog: confirm").await;
        check(env, "dialog", json!({ "accept": false }), "title: false").await;
        check(env, "back", json!({}), "title: Bench").await;
        check(env, "navigate", json!({ "url": "http://app.localhost/next.html" }), "title: Next").await;
        check(env, "navigate", json!({}), "error: `navigate` takes").await;
        check(env, "tab", json!({ "tab": 2 }), "error: there is no tab 2").await;
        check(env, "tab", json!({ "tab": 1, "close": true }), "error: the last tab").await;
        check(env, "act", json!({ "line": "back" }), "title: Bench").await;
        check(env, "fly", json!({}), "error: there is no tool `fly`").await;
        let shown = env.step(&[ToolCall::new("screenshot", json!({}))], ctx(1)).await.unwrap().observation;
        assert_eq!(shown.parts.len(), 2, "{shown:?}");
        let end =
            env.step(&[ToolCall::new("submit", json!({ "answer": "done" }))], ctx(2)).await.unwrap().end;
        assert_eq!(end, Some(clawrl_core::StopReason::Submitted));
        env.close().await;
    });
}

#[test]
fn lines_go_back_and_click_at_points() {
    with_provider(|provider| async move {
        let files = vec![page("index.html", BENCH), page("next.html", "<title>Next</title><p>there</p>")];
        let (mut env, first) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        let seen = step(env.as_mut(), "click 350,225").await;
        assert!(seen.contains("text: pad click 350,225"), "{seen}");
        let seen = step(env.as_mut(), "click link \"Next\"").await;
        assert!(seen.contains("title: Next"), "{seen}");
        let seen = step(env.as_mut(), "back").await;
        assert!(
            seen.starts_with(&first[..first.find("\n").unwrap()]) && seen.contains("title: Bench"),
            "{seen}"
        );
        env.close().await;
    });
}

#[test]
fn closing_active_tab_observes_another() {
    with_provider(|provider| async move {
        let html = "<title>Main</title><button onclick='window.open(\"/other.html\")'>Open</button>";
        let other = "<title>Other</title><button onclick='window.close()'>Done</button>";
        let files = vec![page("index.html", html), page("other.html", other)];
        let (mut env, _) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        let env = env.as_mut();
        // By the agent, and by the page itself.
        for close in ["close 2", "click \"Done\""] {
            let seen = step(env, "click \"Open\"").await;
            assert!(seen.starts_with("tabs: 1 \"Main\", 2* \"Other\"\n"), "{close}: {seen}");
            let seen = step(env, close).await;
            assert!(seen.starts_with("url: http://app.localhost/\ntitle: Main\n"), "{close}: {seen}");
        }
        let seen = step(env, "click \"Open\"").await;
        assert!(seen.starts_with("tabs: 1 "), "{seen}");
        let seen = step(env, "tab 1").await;
        assert!(seen.starts_with("tabs: 1* \"Main\", 2 \"Other\"\nurl: http://app.localhost/\n"), "{seen}");
        // The first is closed: the second takes its place.
        let seen = step(env, "close 1").await;
        assert!(seen.starts_with("url: http://app.localhost/other.html\ntitle: Other\n"), "{seen}");
        env.close().await;
    });
}

#[test]
fn dialog_during_first_load_is_observed() {
    with_provider(|provider| async move {
        let html = "<title>Main</title><script>alert('first')</script><p>behind</p>";
        let (mut env, seen) =
            begin(provider.as_ref(), &task(spec(vec![page("index.html", html)]), Vec::new())).await;
        assert_eq!(seen, "dialog: alert \"first\"");
        let seen = step(env.as_mut(), "accept").await;
        assert!(seen.contains("title: Main") && seen.contains("behind"), "{seen}");
        env.close().await;
    });
}

#[test]
fn beforeunload_dialog_decides_navigation() {
    with_provider(|provider| async move {
        let html = "<title>Main</title><input aria-label=Name><a href='/other.html'>Leave</a>\
            <script>addEventListener('beforeunload', e => e.preventDefault())</script>";
        let other = "<title>Other</title><p>elsewhere</p>";
        let mut gui = spec(vec![page("index.html", html), page("other.html", other)]);
        gui.settle = Duration::from_secs(5);
        let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        // Only pages that were used may ask.
        step(env.as_mut(), "type \"Name\" Ada").await;
        for line in ["click \"Leave\"", "goto http://app.localhost/other.html"] {
            let asked = step(env.as_mut(), line).await;
            assert!(asked.starts_with("dialog: beforeunload"), "{line}: {asked}");
            let kept = step(env.as_mut(), "dismiss").await;
            assert!(kept.contains("title: Main") && kept.contains("= \"Ada\""), "{line}: {kept}");
        }
        let asked = step(env.as_mut(), "click \"Leave\"").await;
        assert!(asked.starts_with("dialog: beforeunload"), "{asked}");
        let left = step(env.as_mut(), "accept").await;
        assert!(left.contains("title: Other") && left.contains("elsewhere"), "{left}");
        env.close().await;
    });
}
