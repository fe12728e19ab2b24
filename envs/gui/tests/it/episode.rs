//! Whole episodes: observations, actions and grades.

use std::time::{Duration, Instant};

use clawrl_core::{
    ElementPattern, PageCheck, RequestPattern, Route, RouteAnswer, StopReason, StorageArea, TextPattern,
};

use crate::support::{
    act, begin, ctx, element, graded, map, not_begun, page, respond, route, spec, step, stepped, task,
    with_provider,
};

const FORM: &str = r#"<title>Order</title><h1>Order</h1>
<form method="post" action="/orders">
<label>Name <input name="name"></label>
<label>Size <select name="size"><option>Small</option><option>Large</option></select></label>
<label><input type="checkbox" name="gift" value="yes"> Gift</label>
<label>Day <input type="date" name="day"></label>
<label>Picture <input type="file" name="picture"></label>
<button>Send</button></form>"#;

fn equals(text: &str) -> TextPattern {
    TextPattern::Equals(text.to_owned())
}

#[test]
fn submitted_form_reaches_site_log() {
    with_provider(|provider| async move {
        let mut gui = spec(vec![
            page("index.html", FORM),
            page("thanks.html", "<title>Thanks</title><p>Thank you.</p>"),
        ]);
        gui.files = vec![page("cat.txt", "meow")];
        gui.sites[0].routes = vec![Route {
            request: RequestPattern {
                method: Some("POST".to_owned()),
                path: Some("/orders".to_owned()),
                ..RequestPattern::default()
            },
            after: 0,
            times: None,
            delay: Duration::from_millis(50),
            answer: RouteAnswer::Redirect {
                to: "/thanks.html".to_owned(),
                headers: map(&[]),
                cookies: vec!["order=1; Path=/".to_owned(), "step=2; Path=/".to_owned()],
            },
        }];
        let sent = RequestPattern {
            method: Some("POST".to_owned()),
            form: map(&[("name", "Ada"), ("size", "Large"), ("gift", "yes"), ("day", "2031-02-28")]),
            ..RequestPattern::default()
        };
        let once = |request| PageCheck::Requested {
            site: Some("app".to_owned()),
            request,
            at_least: 1,
            at_most: Some(1),
        };
        let checks = vec![
            once(sent),
            PageCheck::Url(equals("http://app.localhost/thanks.html")),
            PageCheck::Cookie { name: "order".to_owned(), value: Some(equals("1")) },
            PageCheck::Cookie { name: "step".to_owned(), value: Some(equals("2")) },
            PageCheck::Cookie { name: "other".to_owned(), value: None },
        ];
        let task = task(gui, checks);
        let (mut env, seen) = begin(provider.as_ref(), &task).await;
        assert!(seen.starts_with("url: http://app.localhost/\ntitle: Order\n"), "{seen}");
        let find = |part: &str| element(&seen, part);
        let named = step(env.as_mut(), &format!("type {} Ada", find("textbox \"Name\""))).await;
        assert!(named.contains("textbox \"Name\" = \"Ada\""), "{named}");
        step(env.as_mut(), &format!("select {} Large", find("\"Size\""))).await;
        step(env.as_mut(), &format!("click {}", find("checkbox \"Gift\""))).await;
        let dated = step(env.as_mut(), &format!("type {} 2031-02-28", find("\"Day\""))).await;
        assert!(dated.contains("2031-02-28"), "{dated}");
        let missing = step(env.as_mut(), &format!("upload {} dog.txt", find("\"Picture\""))).await;
        assert!(missing.starts_with("error: there is no file `dog.txt`; files: cat.txt\n"), "{missing}");
        let given = step(env.as_mut(), &format!("upload {} cat.txt", find("\"Picture\""))).await;
        assert!(given.contains("cat.txt"), "{given}");
        let sent = stepped(env.as_mut(), &format!("click {}", find("button \"Send\""))).await.observation;
        let thanks = sent.joined_text();
        assert!(thanks.contains("title: Thanks") && thanks.contains("Thank you."), "{thanks}");
        // The browser sends nothing about a form by itself: every refused request came from a page.
        assert_eq!(sent.facts.get("refused"), None);
        let grade = graded(env.as_mut()).await;
        assert!(grade.passed, "{grade:?}");
        env.close().await;
        // An agent that does nothing never passes.
        let (mut env, _) = begin(provider.as_ref(), &task).await;
        let grade = graded(env.as_mut()).await;
        assert!(!grade.passed && grade.score < 0.5, "{grade:?}");
        env.close().await;
    });
}

#[test]
fn impossible_action_is_reported_and_harmless() {
    with_provider(|provider| async move {
        let html = "<title>Odd</title><button disabled>Off</button><button id=b onclick='this.remove()'>Gone soon</button>\
                    <div style='position:relative'><button onclick='document.title = \"hit\"'>Below</button>\
                    <div style='position:absolute;inset:0;background:white'>Above</div></div>";
        let task = task(spec(vec![page("index.html", html)]), Vec::new());
        let (mut env, seen) = begin(provider.as_ref(), &task).await;
        let soon = element(&seen, "Gone soon");
        let told = step(env.as_mut(), "click 99").await;
        assert!(told.starts_with("error: there is no element 99 in this page\n"), "{told}");
        step(env.as_mut(), &format!("click {soon}")).await;
        let told = step(env.as_mut(), &format!("click {soon}")).await;
        assert!(told.starts_with(&format!("error: there is no element {soon} in this page\n")), "{told}");
        let told = step(env.as_mut(), &format!("click {}", element(&seen, "Below"))).await;
        assert!(told.starts_with("error: element") && told.contains("covered"), "{told}");
        let told = step(env.as_mut(), &format!("type {} x", element(&seen, "Off"))).await;
        assert!(told.starts_with("error: element"), "{told}");
        for (line, part) in [
            ("jump 1", "`jump`"),
            ("goto file:///etc/passwd", "is not an address"),
            ("goto javascript:alert(1)", "is not an address"),
            ("tab 7", "no tab 7"),
            ("accept", "no dialog"),
            ("click 5000,5", "outside"),
        ] {
            let told = step(env.as_mut(), line).await;
            assert!(
                told.starts_with("error: ") && told.contains(part) && told.contains("title: Odd"),
                "{line}: {told}"
            );
        }
        env.close().await;
    });
}

#[test]
fn elements_are_named_by_role_and_name() {
    with_provider(|provider| async move {
        let html = r#"<title>Named</title><h1>Mail</h1>
            <label>Name <input id=n></label><label>Size <select><option>Small<option>Large</select></label>
            <button onclick="t.textContent += ' one'">Delete</button><button onclick="t.textContent += ' two'">Delete</button>
            <button onclick="t.textContent += ' said'">Say  &quot;hi&quot; \ bye</button><a href="/next.html">Send mail</a>
            <p id=t>done:</p>"#;
        let next = "<title>Next</title><button>Other</button>";
        let files = vec![page("index.html", html), page("next.html", next)];
        let (mut env, seen) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        assert!(seen.contains(r#"button "Say \"hi\" \\ bye""#), "{seen}");
        let check = async |env: &mut dyn clawrl_core::Env, line: &str, part: &str| {
            let seen = step(env, line).await;
            assert!(seen.contains(part), "{line}: {seen}");
        };
        let env = env.as_mut();
        check(env, r#"type textbox "Name" Ada "the" Lovelace"#, r#"textbox "Name" = "Ada \"the\" Lovelace""#)
            .await;
        check(env, r#"select combobox "Size" Large"#, r#"combobox "Size" = "Large""#).await;
        check(env, r#"click button "Delete" #2"#, "done: two").await;
        check(env, r#"click "Delete" #1"#, "done: two one").await;
        check(env, r#"click button "Say \"hi\"  \\ bye""#, "said").await;
        let (first, second) = (element(&seen, "\"Delete\""), element(&seen, "\"Delete\"") + 1);
        check(env, r#"click "Delete""#, &format!("several elements: [{first}], [{second}]; `\"Delete\" #2`"))
            .await;
        check(env, r#"click "Delete" #3"#, "there are only 2").await;
        check(env, r#"click button "Send""#, r#"no button "Send" in this page; near it: ["#).await;
        check(env, r#"click button "Send""#, r#"] link "Send mail", ["#).await;
        check(env, r#"scroll button "Nothing" down"#, r#"error: there is no button "Nothing""#).await;
        // The observation is of this page alone: the next one is unknown until it is observed.
        let calls = [act(r#"click link "Send mail""#), act(r#"click "Delete" #1"#)];
        let seen = env.step(&calls, ctx(1)).await.unwrap().observation.joined_text();
        assert!(seen.starts_with("error: there is no \"Delete\" #1 in this page\n"), "{seen}");
        check(env, r#"click link "Send mail""#, "error: there is no link").await;
        let click = clawrl_core::ToolCall::new("click", serde_json::json!({ "element": "button \"Other\"" }));
        let seen = env.step(&[click], ctx(1)).await.unwrap().observation.joined_text();
        assert!(seen.starts_with("url: ") && seen.contains("(focused)"), "{seen}");
        env.close().await;
    });
}

#[test]
fn dialogs_tabs_and_downloads_are_seen_and_answered() {
    with_provider(|provider| async move {
        let html = "<title>Main</title><button onclick='document.title = prompt(\"Name?\")'>Ask</button>\
                    <a href='/other.html' target=_blank>Open</a><a download='note.txt' href='/note.txt'>Get</a>";
        let files = vec![
            page("index.html", html),
            page("other.html", "<title>Other</title><p>elsewhere</p>"),
            page("note.txt", "remember"),
        ];
        let check = PageCheck::Downloaded {
            name: "note.txt".to_owned(),
            content: Some(TextPattern::Contains("member".to_owned())),
        };
        let task = task(spec(files), vec![check]);
        let (mut env, seen) = begin(provider.as_ref(), &task).await;
        let asked = step(env.as_mut(), &format!("click {}", element(&seen, "Ask"))).await;
        assert_eq!(asked, "dialog: prompt \"Name?\"");
        let first = step(env.as_mut(), "click 1").await;
        assert!(first.starts_with("error: a dialog is open"), "{first}");
        let named = step(env.as_mut(), "accept Ada").await;
        assert!(named.contains("title: Ada"), "{named}");
        let other = step(env.as_mut(), &format!("click {}", element(&seen, "Open"))).await;
        assert!(other.starts_with("tabs: 1 \"Ada\", 2* ") && other.contains("title: Other"), "{other}");
        let back = step(env.as_mut(), "close 2").await;
        assert!(back.contains("title: Ada") && !back.contains("tabs:"), "{back}");
        let seen = step(env.as_mut(), &format!("click {}", element(&seen, "Get"))).await;
        assert!(seen.starts_with("downloaded: note.txt"), "{seen}");
        let grade = graded(env.as_mut()).await;
        assert!(grade.passed, "{grade:?} {seen}");
        env.close().await;
    });
}

#[test]
fn dialogs_of_frames_are_those_of_the_tab() {
    with_provider(|provider| async move {
        let html = "<title>Outer</title><iframe src='/middle.html' width=600 height=300></iframe>\
                    <iframe src='http://other.localhost/ask.html'></iframe><button onclick='frames[1].postMessage(0, \"*\")'>Far</button>";
        let middle = "<iframe srcdoc='<button onclick=\"parent.parent.document.title = prompt(`How many?`)\">Near</button>'></iframe>";
        let ask = "<script>onmessage = () => confirm('From afar?')</script>";
        let mut gui = spec(vec![page("index.html", html), page("middle.html", middle)]);
        gui.sites.push(crate::support::site("other", vec![page("ask.html", ask)]));
        let (mut env, seen) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        assert!(seen.contains("button \"Near\""), "{seen}");
        let asked = step(env.as_mut(), "click button \"Near\"").await;
        assert_eq!(asked, "dialog: prompt \"How many?\"");
        let told = step(env.as_mut(), "accept 12").await;
        assert!(told.contains("title: 12"), "{told}");
        let mut asked = step(env.as_mut(), "click button \"Far\"").await;
        // A page of another process is notified, and this one does not wait for it.
        for _ in 0..100 {
            if asked.starts_with("dialog") {
                break;
            }
            asked = step(env.as_mut(), "wait 0.1").await;
        }
        assert_eq!(asked, "dialog: confirm \"From afar?\"");
        let told = step(env.as_mut(), "dismiss").await;
        assert!(told.contains("title: 12"), "{told}");
        env.close().await;
    });
}

#[test]
fn page_ends_episode_with_its_reward() {
    with_provider(|provider| async move {
        let html = "<title>Game</title><script>var done = false, reward = 0, drawn = 0;</script>\
                    <button onclick='done = true; reward = 0.5; localStorage.setItem(\"won\", drawn)'>Win</button>";
        let mut gui = spec(vec![page("index.html", html)]);
        gui.prepare = vec!["drawn = seed * 2;".to_owned()];
        gui.end_when = Some("done".to_owned());
        let checks = vec![
            PageCheck::Reward { expression: "reward".to_owned(), lowest: -1.0, highest: 1.0 },
            PageCheck::Storage {
                area: StorageArea::Local,
                origin: None,
                key: "won".to_owned(),
                value: Some(equals("14")),
            },
            PageCheck::Script {
                run: "return Promise.all([drawn, 1])".to_owned(),
                equals: serde_json::json!([14.0, 1]),
            },
            PageCheck::Element {
                selector: "button".to_owned(),
                with: ElementPattern {
                    text: Some(equals("Win")),
                    visible: Some(true),
                    ..ElementPattern::default()
                },
                at_least: 1,
                at_most: Some(1),
            },
        ];
        let task = task(gui, checks);
        let (mut env, seen) = begin(provider.as_ref(), &task).await;
        assert_eq!(stepped(env.as_mut(), "wait 0").await.end, None);
        let won = stepped(env.as_mut(), &format!("click {}", element(&seen, "Win"))).await;
        assert_eq!(won.end, Some(StopReason::Ended("page-done".to_owned())));
        let grade = graded(env.as_mut()).await;
        let scores: Vec<f64> = grade.checks.iter().map(|check| check.score).collect();
        assert_eq!(scores, [0.75, 1.0, 1.0, 1.0], "{grade:?}");
        env.close().await;
        let mut broken = spec(vec![page("index.html", html)]);
        broken.prepare = vec!["nothing.here();".to_owned()];
        let task = crate::support::task(broken, Vec::new());
        let mut env =
            clawrl_core::EnvProvider::lease(provider.as_ref(), crate::support::request(&task)).await.unwrap();
        let fault = env.reset(ctx(0)).await.unwrap_err();
        assert_eq!(fault.code, "setup-failed", "{fault}");
        env.close().await;
    });
}

#[test]
fn pages_with_strict_csp_work() {
    with_provider(|provider| async move {
        let html = "<title>Strict</title><script>var done = false, reward = 0, drawn = 0, refused = '';\
                    try { Function('return 1')(); } catch (error) { refused = error.name; }</script>\
                    <button onclick='done = true; reward = 0.5'>Win</button>";
        let mut gui = spec(Vec::new());
        let policy = "script-src 'self' 'unsafe-inline'; require-trusted-types-for 'script'";
        gui.sites[0].routes = vec![route("/", respond(200, &[("content-security-policy", policy)], html))];
        gui.prepare = vec!["drawn = await_(seed); function await_(n) { return n * 2 } // told".to_owned()];
        gui.end_when = Some("done // once".to_owned());
        let script = |run: &str, equals: serde_json::Value| PageCheck::Script { run: run.to_owned(), equals };
        let reward = |expression: &str| PageCheck::Reward {
            expression: expression.to_owned(),
            lowest: 0.0,
            highest: 1.0,
        };
        let checks = vec![
            script("return Promise.all([drawn, refused])", serde_json::json!([14, "EvalError"])),
            reward("reward"),
            reward("Promise.resolve(reward)"),
            script("return }{", serde_json::Value::Null),
            script("throw new Error('no')", serde_json::Value::Null),
            script("throw { get message() { throw 1 } }", serde_json::Value::Null),
            script("let nothing;", serde_json::Value::Null),
        ];
        let task = task(gui.clone(), checks);
        let (mut env, _) = begin(provider.as_ref(), &task).await;
        assert_eq!(stepped(env.as_mut(), "wait 0").await.end, None);
        let won = stepped(env.as_mut(), "click \"Win\"").await;
        assert_eq!(won.end, Some(StopReason::Ended("page-done".to_owned())));
        let grade = graded(env.as_mut()).await;
        let scores: Vec<f64> = grade.checks.iter().map(|check| check.score).collect();
        assert_eq!(scores, [1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0], "{grade:?}");
        let says = |at: usize, part: &str| assert!(grade.checks[at].message.contains(part), "{grade:?}");
        says(2, "is not a number");
        says(3, "Unexpected token");
        says(4, "failed: no");
        says(5, "failed: unknown");
        env.close().await;
        gui.end_when = Some("done(".to_owned());
        let task = crate::support::task(gui.clone(), Vec::new());
        let (mut env, _) = begin(provider.as_ref(), &task).await;
        let fault = env.step(&[act("wait 0")], ctx(1)).await.unwrap_err();
        assert!(fault.code == "end-when" && fault.message.contains("Unexpected token"), "{fault}");
        env.close().await;
        gui.prepare = vec!["}".to_owned()];
        let fault = not_begun(provider.as_ref(), &crate::support::task(gui, Vec::new())).await;
        assert!(fault.code == "setup-failed" && fault.message.contains("Unexpected token"), "{fault}");
    });
}

#[test]
fn calls_after_a_failed_one_are_skipped() {
    with_provider(|provider| async move {
        let html =
            "<title>0</title><button onclick='document.title = Number(document.title) + 1'>Add</button>";
        let task = task(spec(vec![page("index.html", html)]), Vec::new());
        let (mut env, seen) = begin(provider.as_ref(), &task).await;
        let add = format!("click {}", element(&seen, "Add"));
        let calls = [act(&add), act(&add), act("click 99"), act(&add)];
        let seen = env.step(&calls, ctx(1)).await.unwrap().observation.joined_text();
        assert!(seen.contains("title: 2") && seen.starts_with("error: there is no element 99"), "{seen}");
        env.close().await;
    });
}

#[test]
fn pages_are_graded_after_settling() {
    with_provider(|provider| async move {
        let html = "<title>Main</title><button onclick='if (!confirm(\"Sure?\")) document.title = \"Kept\"'>Ask</button>\
                    <button onclick='fetch(\"/slow\").then(() => document.title = \"Done\")'>Load</button>\
                    <button onclick='while (true) alert(1)'>Nag</button>";
        let mut gui = spec(vec![page("index.html", html), page("slow", "slow")]);
        gui.sites[0].routes = vec![Route {
            request: RequestPattern { path: Some("/slow".to_owned()), ..RequestPattern::default() },
            after: 0,
            times: None,
            delay: Duration::from_millis(700),
            answer: RouteAnswer::Serve { path: None },
        }];
        let titled =
            |title: &str| PageCheck::Script { run: "return document.title".to_owned(), equals: title.into() };
        for (button, title) in [("Ask", "Kept"), ("Load", "Done")] {
            let task = task(gui.clone(), vec![titled(title)]);
            let (mut env, seen) = begin(provider.as_ref(), &task).await;
            let calls = [act(&format!("click {}", element(&seen, button))), act("submit")];
            let end = env.step(&calls, ctx(1)).await.unwrap().end;
            assert_eq!(end, Some(StopReason::Submitted));
            let grade = graded(env.as_mut()).await;
            assert!(grade.passed, "{button}: {grade:?}");
            env.close().await;
        }
        let task =
            task(gui, vec![titled("Main"), PageCheck::Cookie { name: "none".to_owned(), value: None }]);
        let (mut env, seen) = begin(provider.as_ref(), &task).await;
        step(env.as_mut(), &format!("click {}", element(&seen, "Nag"))).await;
        let grade = graded(env.as_mut()).await;
        let scores: Vec<f64> = grade.checks.iter().map(|check| check.score).collect();
        assert_eq!(scores, [0.0, 1.0], "{grade:?}");
        env.close().await;
    });
}

#[test]
fn double_clicks_work_on_slow_pages() {
    let html = "<title>Slow</title><button>Open</button><p>nothing</p><script>\
        const button = document.querySelector('button'); const said = document.querySelector('p'); let clicks = 0;\
        button.onmousedown = () => { const until = performance.now() + 700; while (performance.now() < until); };\
        button.onclick = ({ detail }) => { clicks += detail; };\
        button.ondblclick = () => { said.textContent = `double after ${clicks}`; };</script>";
    with_provider(|provider| async move {
        let files = vec![page("index.html", html)];
        let (mut env, _) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        let seen = step(env.as_mut(), "double button \"Open\"").await;
        assert!(seen.contains("double after 3"), "{seen}");
        // Each of its own is a single one, however soon it comes.
        step(env.as_mut(), "click button \"Open\"").await;
        let seen = step(env.as_mut(), "click button \"Open\"").await;
        env.close().await;
        assert!(seen.contains("double after 3"), "{seen}");
    });
}

#[test]
fn dialog_opened_by_double_click_is_shown() {
    let html = "<title>Asks</title><button>Open</button><script>\
        document.querySelector('button').ondblclick = () => alert('twice');</script>";
    with_provider(|provider| async move {
        let files = vec![page("index.html", html)];
        let (mut env, _) = begin(provider.as_ref(), &task(spec(files), Vec::new())).await;
        let seen = step(env.as_mut(), "double button \"Open\"").await;
        assert!(seen.contains("dialog: alert \"twice\""), "{seen}");
        let seen = step(env.as_mut(), "accept").await;
        env.close().await;
        assert!(seen.contains("button \"Open\""), "{seen}");
    });
}

#[test]
fn downloads_belong_to_their_starting_step() {
    let html = "<title>Files</title><a download href='/note.txt'>Link</a> <a href='/table.csv'>Type</a>\
        <a target=_blank href='/data.bin'>Tab</a> <a href='/attached.html'>Header</a>\
        <a download='kept.html' href='data:text/html,kept'>Data</a>\
        <button id=made>Made</button> <button id=sent>Sent</button> <button id=framed>Framed</button> <button id=asked>Asked</button><script>\
        const on = (id, act) => { document.getElementById(id).onclick = act; };\
        const link = () => Object.assign(document.createElement('a'), { download: 'made.txt',\
        href: URL.createObjectURL(new Blob(['made'])) });\
        on('made', () => link().click()); on('sent', () => link().dispatchEvent(new MouseEvent('click')));\
        on('asked', () => Object.assign(document.createElement('a'), { download: '', href: '/note.txt' }).click());\
        on('framed', () => document.body.append(Object.assign(document.createElement('iframe'), { src: '/data.bin' })));\
        </script>";
    let disposition = ("content-disposition", "attachment; filename=\"page.html\"");
    let attached = respond(200, &[disposition], "<p>attached");
    with_provider(|provider| async move {
        let files = vec![
            page("index.html", html),
            page("note.txt", "remember"),
            page("table.csv", "a,b"),
            page("data.bin", "\u{1}"),
        ];
        let mut gui = spec(files);
        gui.sites[0].routes = vec![route("/attached.html", attached)];
        let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        let kinds = [
            ("link \"Link\"", "note.txt"),
            ("link \"Type\"", "table.csv"),
            ("link \"Tab\"", "data.bin"),
            ("link \"Header\"", "page.html"),
            ("link \"Data\"", "kept.html"),
            ("button \"Made\"", "made.txt"),
            ("button \"Sent\"", "made.txt"),
            ("button \"Asked\"", "note.txt"),
            ("button \"Framed\"", "data.bin"),
        ];
        for (what, name) in kinds {
            for _ in 0..2 {
                let seen = step(env.as_mut(), &format!("click {what}")).await;
                assert!(seen.starts_with(&format!("downloaded: {name}")), "{what}: {seen}");
                assert_eq!(seen.matches("downloaded").count(), 1, "{what}: {seen}");
            }
        }
        env.close().await;
    });
}

#[test]
fn failed_downloads_are_not_awaited() {
    let html = "<title>Files</title><a download href='/dropped'>Dropped</a> <a download href='/empty'>Empty</a>\
        <a download href='/broken'>Broken</a> <a download href='/none.txt'>None</a> <a download href='/moved'>Moved</a>\
        <a download onclick='event.preventDefault()' href='/note.txt'>Kept</a> <a target=_blank href='/data.bin'>Tab</a>";
    with_provider(|provider| async move {
        let mut gui =
            spec(vec![page("index.html", html), page("note.txt", "remember"), page("data.bin", "\u{1}")]);
        gui.sites[0].routes = vec![
            route("/dropped", RouteAnswer::Drop),
            route("/empty", respond(204, &[], "")),
            route("/broken", respond(500, &[], "")),
            route("/moved", respond(302, &[("location", "/note.txt")], "")),
        ];
        let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        let since = Instant::now();
        for what in ["Dropped", "Empty", "Broken", "None", "Kept"] {
            let seen = step(env.as_mut(), &format!("click link \"{what}\"")).await;
            assert!(!seen.contains("downloaded"), "{what}: {seen}");
        }
        let seen = step(env.as_mut(), "click link \"Moved\"").await;
        assert!(seen.starts_with("downloaded: note.txt"), "{seen}");
        let seen = step(env.as_mut(), "click link \"Tab\"").await;
        assert!(seen.starts_with("downloaded: data.bin"), "{seen}");
        // Where one is waited for in vain, so are those after it, five seconds each.
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
        env.close().await;
    });
}
