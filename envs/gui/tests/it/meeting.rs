//! Obstacles for an action: fields that keys do not reach, distant positions, dialogs and tabs that an earlier call
//! opened.

use clawrl_core::{GuiSpec, PageCheck, ToolCall};
use serde_json::json;

use crate::support::{act, begin, ctx, element, graded, page, site, spec, step, task, with_provider};

fn of(html: &str) -> GuiSpec {
    spec(vec![page("index.html", html)])
}

#[test]
fn typing_goes_only_to_the_named_field() {
    let html = "<title>Fields</title><label>Below <input id=below></label><label>Gone <input id=gone></label>\
        <label>Moves on <input id=moves></label><label>Next <input id=next></label><label>Lets go <input id=lets></label>\
        <div contenteditable aria-label=Free role=textbox>free</div>\
        <dialog><label>Above <input id=above></label></dialog><script>\
        moves.onfocus = () => next.focus(); lets.onfocus = () => lets.blur();\
        const show = () => { gone.style.display = 'none'; document.querySelector('dialog').showModal(); };</script>\
        <button onclick='show()'>Open</button>";
    with_provider(|provider| async move {
        let (mut env, seen) = begin(provider.as_ref(), &task(of(html), Vec::new())).await;
        let number = |name: &str| element(&seen, name);
        let typed = step(env.as_mut(), "type \"Free\" written").await;
        assert!(typed.contains("textbox \"Free\" = \"written\""), "{typed}");
        // A page may move the focus on, and keys go where a user's would.
        let typed = step(env.as_mut(), "type \"Moves on\" on").await;
        assert!(typed.contains("textbox \"Next\" = \"on\""), "{typed}");
        let typed = step(env.as_mut(), "type \"Lets go\" off").await;
        assert!(!typed.contains("error") && !typed.contains("= \"off\""), "{typed}");
        step(env.as_mut(), "click \"Open\"").await;
        for name in ["Below", "Gone"] {
            let told = step(env.as_mut(), &format!("type {} lost", number(name))).await;
            assert!(told.starts_with(&format!("error: element {} cannot be seen\n", number(name))), "{told}");
            assert!(!told.contains("lost"), "{told}");
        }
        let typed = step(env.as_mut(), "type \"Above\" found").await;
        assert!(typed.contains("= \"found\""), "{typed}");
        env.close().await;
    });
}

#[test]
fn dragging_needs_both_places_in_view_at_once() {
    // The window is 768 high.
    let html = "<title>Far</title><style>div { position: absolute; left: 40px }</style>\
        <div style='top: 1500px'><button draggable=true>Card</button></div>\
        <div style='top: 2100px'><button class=box>Near</button></div>\
        <div style='top: 5000px'><button class=box>Far</button></div><p id=said>nothing</p><script>\
        for (const box of document.querySelectorAll('.box')) { box.ondragover = (given) => given.preventDefault();\
        box.ondrop = () => { said.textContent = `on ${box.textContent}`; }; }</script>";
    with_provider(|provider| async move {
        let (mut env, _) = begin(provider.as_ref(), &task(of(html), Vec::new())).await;
        let told = step(env.as_mut(), "drag \"Card\" \"Far\"").await;
        assert!(told.starts_with("error: both places do not fit into the window at once\n"), "{told}");
        assert!(told.contains("nothing"), "{told}");
        for _ in 0..2 {
            let seen = step(env.as_mut(), "drag \"Card\" \"Near\"").await;
            assert!(seen.contains("on Near"), "{seen}");
            step(env.as_mut(), "scroll up").await;
        }
        env.close().await;
    });
}

#[test]
fn later_calls_see_new_dialogs_and_tabs() {
    let html = "<title>Main</title><button onclick='document.title = confirm(\"Sure?\") ? \"Yes\" : \"No\"'>Ask</button>\
        <button ondblclick='document.title = prompt(\"Name?\")'>Twice</button>\
        <button onclick='alert(1); alert(2); document.title = \"Told\"'>Tell</button>\
        <a href='/other.html' target=_blank>Open</a><button onclick='window.open(\"/other.html\")'>Also</button>";
    with_provider(|provider| async move {
        let files = vec![page("index.html", html), page("other.html", "<title>Other</title>")];
        let (mut env, _) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        let mut done = async |lines: &[&str]| {
            let calls: Vec<ToolCall> = lines.iter().map(|line| act(line)).collect();
            env.step(&calls, ctx(1)).await.unwrap().observation.joined_text()
        };
        let check = |seen: &str, title: &str| {
            assert!(seen.contains(&format!("title: {title}\n")) && !seen.contains("error"), "{seen}");
        };
        for _ in 0..5 {
            check(&done(&["click \"Ask\"", "accept"]).await, "Yes");
            check(&done(&["click \"Ask\"", "dismiss"]).await, "No");
            check(&done(&["double \"Twice\"", "accept Ada"]).await, "Ada");
            check(&done(&["click \"Tell\"", "accept", "accept"]).await, "Told");
        }
        let told = done(&["click \"Ask\"", "click \"Tell\""]).await;
        assert_eq!(told, "error: a dialog is open; accept or dismiss it first\ndialog: confirm \"Sure?\"");
        check(&done(&["dismiss"]).await, "No");
        for link in ["click \"Open\"", "click \"Also\""] {
            let seen = done(&[link, "tab 2", "tab 1"]).await;
            assert!(seen.starts_with("tabs: 1* ") && seen.contains("title: No"), "{seen}");
            let seen = done(&["close 2", "accept"]).await;
            assert!(seen.starts_with("error: no dialog is open\n"), "{seen}");
        }
        env.close().await;
    });
}

#[test]
fn tab_opened_by_click_is_observed() {
    let html = "<title>Main</title><a href='http://other.localhost/' target=_blank>Open</a>";
    with_provider(|provider| async move {
        let mut gui = of(html);
        gui.sites.push(site("other", vec![page("index.html", "<title>Other</title>")]));
        let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        for round in 0..30 {
            let seen = step(env.as_mut(), "click \"Open\"").await;
            assert!(seen.starts_with("tabs: 1 \"Main\", 2* \"Other\"\n"), "{round}: {seen}");
            step(env.as_mut(), "close 2").await;
        }
        env.close().await;
    });
}

#[test]
fn maximum_dialogs_are_dismissed() {
    let html = "<title>Nags</title><button onclick='for (let left = 5; left > 0; left -= 1) alert(left); document.title = \"Quiet\"'>Nag</button>";
    with_provider(|provider| async move {
        let quiet = PageCheck::Script { run: "return document.title".to_owned(), equals: json!("Quiet") };
        let (mut env, _) = begin(provider.as_ref(), &task(of(html), vec![quiet])).await;
        let seen = step(env.as_mut(), "click \"Nag\"").await;
        assert_eq!(seen, "dialog: alert \"5\"");
        let grade = graded(env.as_mut()).await;
        assert!(grade.passed, "{grade:?}");
        env.close().await;
    });
}

#[test]
fn unnamed_pictures_use_their_file_names() {
    let html = "<title>Pictures</title><style>img { width: 20px; height: 20px; cursor: pointer }</style>\
        <img class=a src='/cat.svg?size=1'><img class=b src='data:image/png;base64,iVBOR/kept'><img class=c><script>\
        document.querySelector('.c').src = URL.createObjectURL(new Blob(['x'], { type: 'image/png' }));</script>";
    with_provider(|provider| async move {
        let cat = "<svg xmlns='http://www.w3.org/2000/svg' width='20' height='20'/>";
        let files = vec![page("index.html", html), page("cat.svg", cat)];
        let (mut env, seen) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        env.close().await;
        for end in [" .a cat.svg", " .b", " .c"] {
            assert!(seen.lines().any(|line| line.starts_with('[') && line.ends_with(end)), "{end}: {seen}");
        }
    });
}
