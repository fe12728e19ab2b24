//! Pages as text: the observations of fixtures, and their reproducibility.

use std::time::Duration;

use clawrl_core::{Route, RouteAnswer};

use crate::support::{begin, beside, page, route, spec, step, task, with_provider};

/// Each is a page beside these tests, with the text that it is seen as.
const FIXTURES: [&str; 10] =
    ["clickable", "drawing", "fields", "hidden", "hostile", "modal", "names", "structure", "trees", "words"];

#[test]
fn fixtures_are_seen_as_they_were() {
    with_provider(|provider| async move {
        for name in FIXTURES {
            let html = beside(&format!("page/{name}.html"));
            let mut gui = spec(vec![page("index.html", &html)]);
            gui.observation_chars = 1_000_000;
            let (mut env, seen) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
            env.close().await;
            // Behind its address and its title.
            let text = seen.lines().skip(2).collect::<Vec<_>>().join("\n");
            assert_eq!(text.trim_end(), beside(&format!("page/{name}.txt")).trim_end(), "{name}");
        }
    });
}

#[test]
fn same_page_gives_same_observation() {
    with_provider(|provider| async move {
        let html = "<title>Same</title><ul id=l></ul><ul id=m></ul><script>for (let i = 0; i < 30; i++) l.innerHTML += `<li><button>B${i}</button>`;\
                    setTimeout(() => m.insertAdjacentHTML('beforeend', '<li>late'), 30); fetch('/data.txt').then(r => r.text()).then(t => l.insertAdjacentHTML('beforeend', `<li>${t}`))</script>";
        let files = vec![page("index.html", html), page("data.txt", "loaded")];
        let task = task(spec(files), Vec::new());
        // Content that nothing waits for appears in the first snapshot, or later.
        let begin = async || {
            let (mut env, mut seen) = begin(provider.as_ref(), &task).await;
            for _ in 0..100 {
                if seen.contains("late") {
                    break;
                }
                seen = step(env.as_mut(), "wait 0.1").await;
            }
            (env, seen)
        };
        let (mut one, first) = begin().await;
        // Another browser, since the first is in use; and the same one again.
        let (mut other, second) = begin().await;
        one.close().await;
        other.close().await;
        let (mut third, again) = begin().await;
        third.close().await;
        assert!(first.contains("loaded"), "{first}");
        assert_eq!((&first, &first), (&second, &again));
    });
}

#[test]
fn long_pages_are_cut_and_kept() {
    with_provider(|provider| async move {
        let html = format!("<title>Long</title><p>{}", "word ".repeat(5_000));
        let mut gui = spec(vec![page("index.html", &html)]);
        gui.observation_chars = 1_000;
        let task = task(gui, Vec::new());
        let mut env =
            clawrl_core::EnvProvider::lease(provider.as_ref(), crate::support::request(&task)).await.unwrap();
        let seen = env.reset(crate::support::ctx(0)).await.unwrap();
        assert!(seen.joined_text().chars().count() <= 1_000);
        assert!(seen.full_text.unwrap().chars().count() > 20_000);
        env.close().await;
    });
}

#[test]
fn unshown_snapshot_assigns_no_numbers() {
    with_provider(|provider| async move {
        let mut gui = spec(vec![page("index.html", "<title>Half</title><button>Back</button><p>")]);
        // As if it had been read once before its first field was there, and once more instead.
        gui.prepare = vec![
            "const api = window[Symbol.for('clawrl.page')]; const half = api.observe({});\
             document.querySelector('button').insertAdjacentHTML('beforebegin', '<input aria-label=Name>');\
             const other = api.observe({ of: 'another' });\
             const whole = api.observe({ unseen: half.identity });\
             document.querySelector('p').textContent = `${half.text}; ${other}; ${whole.text.replace('\\n', ', ')}`;"
                .to_owned(),
        ];
        let (mut env, seen) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        env.close().await;
        let expected = "[1] button \"Back\"; null; [1] textbox \"Name\", [2] button \"Back\"";
        assert!(seen.contains(expected), "{seen}");
        // Shown content stays.
        assert!(seen.contains("\n[1] textbox \"Name\"\n[2] button \"Back\"\n"), "{seen}");
    });
}

const WRONG: &str = "<title>Wrong</title><img src=/none.png alt=None><script>undefinedName</script>\
    <iframe srcdoc='<script>throw new TypeError(\"of the frame\")</script>'></iframe>\
    <button id=throws>Throw</button><button id=rejects>Reject</button><button id=says>Say</button><button id=many>Many</button>\
    <button id=late>Late</button><button id=handles>Handle</button><button id=odd>Odd</button><button id=asks>Ask</button>\
    <button id=repeats>Repeat</button><script>\
    const on = (id, act) => { document.getElementById(id).onclick = act; };\
    on('throws', () => { null.field; });\
    on('rejects', () => { Promise.reject(new RangeError('too\\nfar')); Promise.reject('a text'); Promise.reject(1).catch(() => {}); });\
    on('says', () => { console.error('it is', 7, new Error('broken')); console.warn('not this'); });\
    on('many', () => { for (let i = 0; i < 9; i++) setTimeout(() => { throw `no ${i} ` + 'x'.repeat(300); }); });\
    on('late', async () => { await fetch('/slow.txt'); throw new Error('late'); });\
    on('handles', () => { addEventListener('error', (e) => e.preventDefault(), { once: true }); null.field; });\
    on('odd', () => { throw { toString() { throw 1; } }; });\
    on('asks', () => { setTimeout(() => { throw 'before'; }); setTimeout(() => alert('well?'), 50); });\
    on('repeats', () => { for (let i = 0; i < 3; i++) setTimeout(() => { throw 'again'; }); });\
    </script>";

#[test]
fn page_errors_are_shown_once() {
    with_provider(|provider| async move {
        let mut gui = spec(vec![page("index.html", WRONG), page("slow.txt", "slow")]);
        let slow = RouteAnswer::Serve { path: None };
        gui.sites[0].routes = vec![Route { delay: Duration::from_millis(700), ..route("/slow.txt", slow) }];
        let task = task(gui, Vec::new());
        let (mut env, seen) = begin(provider.as_ref(), &task).await;
        let errors = |seen: &str| {
            let lines: Vec<&str> =
                seen.lines().filter_map(|line| line.strip_prefix("page error: ")).collect();
            lines.join("; ")
        };
        assert!(
            seen.starts_with(
                "page error: ReferenceError: undefinedName is not defined\npage error: TypeError: of the frame\nurl: "
            ),
            "{seen}"
        );
        let long = |number: u32| format!("no {number} {}…", "x".repeat(194));
        let many: Vec<String> = (0..5).map(long).chain(["and more".to_owned()]).collect();
        let many = many.join("; ");
        let cases = [
            ("wait 0", ""),
            ("click \"Throw\"", "TypeError: Cannot read properties of null (reading 'field')"),
            // Once more is another one, and nothing is left of it afterwards.
            ("click \"Throw\"", "TypeError: Cannot read properties of null (reading 'field')"),
            ("wait 0", ""),
            ("click \"Reject\"", "RangeError: too far; a text"),
            ("click \"Say\"", "it is 7 Error: broken"),
            ("click \"Many\"", many.as_str()),
            ("wait 0", ""),
            // The awaited effect belongs to the step that caused it.
            ("click \"Late\"", "Error: late"),
            ("click \"Handle\"", ""),
            ("click \"Odd\"", "exception"),
            // Nothing is read behind a dialog; it is kept until it can be shown.
            ("click \"Ask\"", ""),
            ("accept", "before"),
            ("click \"Repeat\"", "again"),
            ("wait 0", ""),
        ];
        for (line, expected) in cases {
            let seen = step(env.as_mut(), line).await;
            assert_eq!(errors(&seen), expected, "{line}: {seen}");
        }
        env.close().await;
        let (mut env, again) = begin(provider.as_ref(), &task).await;
        assert_eq!(again, seen);
        env.close().await;
    });
}
