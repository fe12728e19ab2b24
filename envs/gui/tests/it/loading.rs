//! Pages that do not come, come late, or come as something else.

use std::time::Duration;

use clawrl_core::{Boundary, Retry, RouteAnswer};

use crate::bare::silent_port;
use crate::support::{begin, map, not_begun, page, respond, route, spec, step, task, with_provider};

/// For work that takes long on a busy machine.
const PLENTY: Duration = Duration::from_secs(25);

#[test]
fn unreachable_origins_are_faults() {
    with_provider(|provider| async move {
        let silent = silent_port();
        let origin = format!("http://{}", silent.address());
        let html = format!(
            "<title>Main</title><button onclick='fetch(\"{origin}/\").catch(() => {{}})'>Ask</button>"
        );
        let mut gui = spec(vec![page("index.html", &html)]);
        gui.origins = vec![origin.clone()];
        let (mut env, _) = begin(provider.as_ref(), &task(gui.clone(), Vec::new())).await;
        let fault =
            env.step(&[crate::support::act("click \"Ask\"")], crate::support::ctx(1)).await.unwrap_err();
        assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Env, "origin-unreachable"), "{fault}");
        assert!(fault.retry == Retry::Sound && fault.message.contains(&origin), "{fault}");
        env.close().await;
        gui.start = format!("{origin}/");
        let fault = not_begun(provider.as_ref(), &task(gui, Vec::new())).await;
        assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Env, "origin-unreachable"), "{fault}");
    });
}

#[test]
fn error_as_first_page_is_fault_unless_planned() {
    with_provider(|provider| async move {
        let mut gui = spec(vec![page("other.html", "<title>Other</title>")]);
        let fault = not_begun(provider.as_ref(), &task(gui.clone(), Vec::new())).await;
        assert_eq!((fault.code.as_str(), fault.retry), ("page-unreachable", Retry::Never), "{fault}");
        assert!(fault.message.contains("status 404"), "{fault}");
        gui.sites[0].routes = vec![route("/", respond(404, &[], "<title>Lost</title>Where to?"))];
        let (mut env, seen) = begin(provider.as_ref(), &task(gui.clone(), Vec::new())).await;
        assert!(seen.contains("title: Lost"), "{seen}");
        // Later in the episode, such pages are part of what an agent may meet.
        let seen = step(env.as_mut(), "goto http://app.localhost/none").await;
        assert!(seen.contains("there is no such page"), "{seen}");
        env.close().await;
        gui.sites[0].routes = vec![route(
            "/",
            RouteAnswer::Redirect { to: "/none".to_owned(), headers: map(&[]), cookies: Vec::new() },
        )];
        let fault = not_begun(provider.as_ref(), &task(gui.clone(), Vec::new())).await;
        assert!(fault.message.contains("app.localhost/none was answered with status 404"), "{fault}");
        gui.start = "http://elsewhere.localhost/".to_owned();
        let fault = not_begun(provider.as_ref(), &task(gui, Vec::new())).await;
        assert!(fault.message.contains("status 403"), "{fault}");
    });
}

#[test]
fn asynchronous_page_work_is_awaited() {
    // Each takes longer than a page takes to be at rest.
    let work = [
        (
            "file",
            "new Promise(end => { const reader = new FileReader(); const whole = new Blob([new Uint8Array(8_000_000)]);\
                  let read = 0; reader.onload = () => { read += 1; if (read < 10) reader.readAsDataURL(whole);\
                  else end(read * reader.result.length); }; reader.readAsDataURL(whole); })",
            "106667050",
        ),
        (
            "blob",
            "new Blob([new Uint8Array(60_000_000)]).arrayBuffer().then(read => read.byteLength)",
            "60000000",
        ),
        (
            "picture",
            "new Promise(end => canvas.toBlob(end)).then(createImageBitmap).then(read => read.width)",
            "3000",
        ),
        (
            "database",
            "new Promise(end => { const open = indexedDB.open('kept', 1);\
                      open.onupgradeneeded = () => open.result.createObjectStore('all');\
                      open.onsuccess = () => { const change = open.result.transaction('all', 'readwrite');\
                      for (let i = 0; i < 2_000; i++) change.objectStore('all').put('x'.repeat(100), i);\
                      const count = change.objectStore('all').count(); change.oncomplete = () => end(count.result); }; })",
            "2000",
        ),
        (
            "key",
            "crypto.subtle.importKey('raw', new Uint8Array(16), 'PBKDF2', false, ['deriveBits'])\
                  .then(key => crypto.subtle.deriveBits({ name: 'PBKDF2', salt: new Uint8Array(16), iterations: 2_000_000,\
                  hash: 'SHA-512' }, key, 512)).then(bits => bits.byteLength)",
            "64",
        ),
    ];
    let html = |script: &str| {
        format!(
            "<title>Work</title><canvas id=canvas width=3000 height=3000></canvas><button>Start</button><p>\
             <script>document.querySelector('button').onclick = async () => {{\
             document.querySelector('p').textContent = 'it is ' + await {script}; }}</script>"
        )
    };
    with_provider(|provider| async move {
        for (name, script, result) in work {
            let mut gui = spec(vec![page("index.html", &html(script))]);
            gui.settle = PLENTY;
            let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
            let seen = step(env.as_mut(), "click button \"Start\"").await;
            env.close().await;
            assert!(seen.contains(&format!("it is {result}")), "{name}: {seen}");
        }
    });
}

#[test]
fn lazy_content_in_view_is_awaited() {
    // Each part is requested when the end of the previous ones is visible, which observers notice after a frame.
    let html = "<title>Parts</title><button>Start</button><div></div><p id=end>end</p><script>\
        const all = document.querySelector('div'); const end = document.querySelector('#end'); let next = 1;\
        const watcher = new IntersectionObserver(async ([seen]) => { watcher.disconnect();\
        if (!seen.isIntersecting || next > 30) return;\
        all.append(await (await fetch(`/part.txt?${next}`)).text() + next + ' '); next += 1; watcher.observe(end); });\
        document.querySelector('button').onclick = () => watcher.observe(end);</script>";
    with_provider(|provider| async move {
        let mut gui = spec(vec![page("index.html", html), page("part.txt", "part ")]);
        gui.settle = PLENTY;
        let (mut env, _) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
        let seen = step(env.as_mut(), "click button \"Start\"").await;
        env.close().await;
        assert!(seen.contains("part 30"), "{seen}");
    });
}
