//! What one attempt cannot do to another, to the harness, or to this machine.

use std::time::{Duration, Instant};

use clawrl_core::{Boundary, EnvProvider, Fault, PageCheck, RequestPattern, ToolCall};
use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};

use crate::processes::{drivers, listening};
use crate::support::{
    PATIENCE, act, as_normal_user, begin, ctx, element, graded, map, page, respond, route, site, spec, step,
    stepped, task, with_provider,
};

const KEEPER: &str = "<title>Keeper</title><p id=seen></p><button onclick='keep()'>Keep</button><script>\
    async function keep() { document.cookie = 'kept=1; Max-Age=9999'; localStorage.kept = 1; sessionStorage.kept = 1;\
      await new Promise(done => { indexedDB.open('kept').onsuccess = done; });\
      await (await caches.open('kept')).put('/x', new Response('kept'));\
      await navigator.serviceWorker.register('/worker.js'); await navigator.serviceWorker.ready; document.title = 'Kept'; }\
    Promise.all([indexedDB.databases(), caches.keys(), navigator.serviceWorker.getRegistrations()]).then(all =>\
      seen.textContent = JSON.stringify([document.cookie, localStorage.kept, sessionStorage.kept, all.map(x => x.length)]));</script>";

/// Answers in place of the site; at one address with the stored data.
const WORKER: &str = "const kept = `<script>Promise.all([indexedDB.databases(), caches.keys(), navigator.serviceWorker.getRegistrations()]).then(all =>\
      document.body.append(JSON.stringify([document.cookie, localStorage.kept, sessionStorage.kept, all.map(x => x.length)])))</script>`;\
    self.addEventListener('fetch', e => e.respondWith(e.request.url.endsWith('/kept')\
      ? new Response('<title>Kept</title><body>' + kept, { headers: { 'content-type': 'text/html' } }) : new Response('stolen')))";

#[test]
fn storage_is_not_shared_between_attempts() {
    with_provider(|provider| async move { keeps_nothing(provider.as_ref()).await });
}

pub(crate) async fn keeps_nothing(provider: &dyn EnvProvider) {
    let files = vec![page("index.html", KEEPER), page("worker.js", WORKER)];
    let task = task(spec(files), Vec::new());
    let (mut first, seen) = begin(provider, &task).await;
    assert!(seen.contains(r#"["",null,null,[0,0,0]]"#), "{seen}");
    let mut kept = step(first.as_mut(), &format!("click {}", element(&seen, "button \"Keep\""))).await;
    // A page at rest may still wait for its databases.
    for _ in 0..20 {
        if kept.contains("title: Kept") {
            break;
        }
        kept = step(first.as_mut(), "wait 0.5").await;
    }
    assert!(kept.contains("title: Kept"), "{kept}");
    // At the same time in another browser, and afterwards in the same one.
    let (mut beside, seen_beside) = begin(provider, &task).await;
    assert_eq!(seen_beside, seen);
    // All of it was stored: the worker answers for the site, and lists the rest.
    let again = step(first.as_mut(), "goto http://app.localhost/").await;
    assert!(again.contains("stolen"), "{again}");
    let kept = step(first.as_mut(), "goto http://app.localhost/kept").await;
    assert!(kept.contains(r#"["kept=1","1","1",[1,1,1]]"#), "{kept}");
    first.close().await;
    beside.close().await;
    for _ in 0..2 {
        let (mut after, seen_after) = begin(provider, &task).await;
        assert_eq!(seen_after, seen);
        after.close().await;
    }
}

#[test]
fn clipboard_is_not_shared_between_attempts() {
    with_provider(|provider| async move {
        let html = "<title>Copy</title><textarea aria-label=Field onclick='this.select()'>secret</textarea><textarea aria-label=Other></textarea>\
                    <button onclick='f.select(); document.execCommand(\"copy\")'>Copy</button><input id=f aria-label=Third value=third>\
                    <button onclick='navigator.clipboard.writeText(\"written\").then(() => document.title = \"Written\")'>Write</button>";
        let task = task(spec(vec![page("index.html", html)]), Vec::new());
        let paste = async |env: &mut dyn clawrl_core::Env| {
            step(env, "click textbox \"Other\"").await;
            let keys = step(env, "press Ctrl+V").await;
            let middle =
                ToolCall::new("click", json!({ "element": "textbox \"Other\"", "button": "middle" }));
            let middle = env.step(&[middle], ctx(1)).await.unwrap().observation.joined_text();
            let shown = |seen: &str| seen.lines().find(|line| line.contains("\"Other\"")).unwrap().to_owned();
            (shown(&keys), shown(&middle))
        };
        let copies: [(&[&str], &str); 3] = [
            (&["click textbox \"Field\"", "press Ctrl+C"], "secret"),
            (&["click button \"Copy\""], "third"),
            (&["click button \"Write\"", "wait 0.2"], "written"),
        ];
        for (lines, copied) in copies {
            let (mut first, _) = begin(provider.as_ref(), &task).await;
            for line in lines {
                step(first.as_mut(), line).await;
            }
            // It exists as long as the attempt.
            let (pasted, again) = paste(first.as_mut()).await;
            assert!(pasted.contains(&format!("= \"{copied}\"")), "{copied}: {pasted}");
            assert_eq!(again, pasted, "what was selected is not pasted");
            first.close().await;
            let (mut next, _) = begin(provider.as_ref(), &task).await;
            let (pasted, again) = paste(next.as_mut()).await;
            assert!(!pasted.contains(" = ") && !again.contains(" = "), "{pasted} {again}");
            next.close().await;
        }
    });
}

#[test]
fn a_page_reaches_its_own_sites_and_nothing_else() {
    with_provider(|provider| async move { reaches_its_own(provider.as_ref()).await });
}

pub(crate) async fn reaches_its_own(provider: &dyn EnvProvider) {
    // Something of this machine, as the harness's own servers are.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let datagrams = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let udp = datagrams.local_addr().unwrap().port();
    let html = format!(
        "<title>Probe</title><p id=out></p><p id=gathered></p><script>const tries = ['http://127.0.0.1:{port}/', 'http://localhost:{port}/', 'http://other.localhost/', 'http://[::1]:{port}/', 'https://example.org/', 'http://app.localhost/own.txt'];\
         Promise.all(tries.map(u => fetch(u, {{ mode: u.includes('own') ? 'cors' : 'no-cors' }}).then(r => r.text()).then(t => t.slice(0, 5) || 'opaque', () => 'failed')))\
         .then(all => out.textContent = all.join(' '));\
         try {{ new WebSocket('ws://127.0.0.1:{port}/') }} catch {{}}\
         const peer = new RTCPeerConnection({{ iceServers: [{{ urls: ['stun:127.0.0.1:{udp}', 'turn:127.0.0.1:{udp}?transport=udp', 'turn:127.0.0.1:{port}?transport=tcp'], username: 'u', credential: 'c' }}] }});\
         peer.onicegatheringstatechange = () => {{ gathered.textContent = 'candidates: ' + peer.iceGatheringState; }};\
         peer.createDataChannel('x'); peer.createOffer().then(o => peer.setLocalDescription(o));</script>"
    );
    let files = vec![page("index.html", &html), page("own.txt", "mine!")];
    let (mut env, seen) = begin(provider, &task(spec(files), Vec::new())).await;
    // Those of other sites are answered by the proxy, which a page cannot tell from a server that says nothing.
    assert!(seen.contains("mine!"), "{seen}");
    for line in [format!("goto http://127.0.0.1:{port}/"), "goto http://other.localhost/".to_owned()] {
        let refused = step(env.as_mut(), &line).await;
        assert!(refused.contains("refused"), "{refused}");
    }
    for address in ["file:///etc/passwd", "chrome://version", "view-source:http://app.localhost/"] {
        let refused = step(env.as_mut(), &format!("goto {address}")).await;
        assert!(refused.starts_with("error: "), "{refused}");
    }
    // A peer asks its servers as soon as it looks for ways.
    step(env.as_mut(), "goto http://app.localhost/").await;
    let gathered = step(env.as_mut(), "wait 2").await;
    assert!(gathered.contains("candidates: "), "{gathered}");
    env.close().await;
    // Nobody knocked.
    let knocked = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
    assert!(knocked.is_err());
    let told = tokio::time::timeout(Duration::ZERO, datagrams.recv_from(&mut [0; 64])).await;
    assert!(told.is_err());
}

#[test]
fn isolation_holds_without_root() {
    as_normal_user("isolation::isolation_holds_without_root", || {
        with_provider(|provider| async move {
            keeps_nothing(provider.as_ref()).await;
            reaches_its_own(provider.as_ref()).await;
        });
    });
}

#[test]
fn page_cannot_reach_driver_or_browser_ports() {
    with_provider(|provider| async move {
        let html = "<title>Knocks</title><p id=out></p><script>const ports = new URLSearchParams(location.search).get('ports')?.split(',') ?? [];\
            Promise.all(ports.flatMap(port => [\
              fetch(`http://127.0.0.1:${port}/json/version`, { mode: 'no-cors' }).then(() => 'answered', () => 'failed'),\
              new Promise(end => { const socket = new WebSocket(`ws://127.0.0.1:${port}/session`); socket.onopen = () => end('open'); socket.onerror = () => end('closed'); }),\
            ])).then(all => { out.textContent = 'tried ' + all.join(' '); });</script>";
        let (mut env, _) =
            begin(provider.as_ref(), &task(spec(vec![page("index.html", html)]), Vec::new())).await;
        let ports = listening(&drivers()[0]);
        // Of the driver, of the browser, and of the proxy itself.
        assert!(ports.len() >= 3, "{ports:?}");
        let list: Vec<String> = ports.iter().map(u16::to_string).collect();
        let mut tried =
            stepped(env.as_mut(), &format!("goto http://app.localhost/?ports={}", list.join(","))).await;
        let until = Instant::now() + PATIENCE;
        // A page at rest may still wait for its sockets.
        while !tried.observation.joined_text().contains("tried ") {
            assert!(Instant::now() < until, "{tried:?}");
            tried = stepped(env.as_mut(), "wait 0.5").await;
        }
        let seen = tried.observation.joined_text();
        assert!(!seen.contains("open"), "{seen}");
        // They were requested, from the proxy.
        let refused = tried.observation.facts.get("refused").unwrap_or_default().to_string();
        for port in &ports {
            assert!(refused.contains(&format!("\"http://127.0.0.1:{port}\"")), "{port}: {refused}");
            let line = format!("goto http://127.0.0.1:{port}/json/version");
            let seen = step(env.as_mut(), &line).await;
            assert!(seen.contains("refused") && !seen.contains("webSocketDebuggerUrl"), "{seen}");
        }
        env.close().await;
    });
}

#[test]
fn attempts_reach_only_their_own_sites() {
    with_provider(|provider| async move {
        let of = |name: &str, other: &str| {
            let html = format!(
                "<title>{name}</title><p id=out></p><script>const tell = (u) => fetch(u).then(r => r.text().then(t => r.status + t.slice(0, 9)), () => 'failed');\
                 Promise.all(['/{name}.txt', '/{other}.txt', 'http://{name}.localhost/', 'http://{other}.localhost/'].map(u => tell(u + '?from={name}')))\
                 .then(all => {{ out.textContent = all.join(' '); }});</script>"
            );
            let cors = respond(200, &[("access-control-allow-origin", "*")], &format!("home-{name}"));
            let mut gui =
                spec(vec![page("index.html", &html), page(&format!("{name}.txt"), &format!("only-{name}"))]);
            gui.sites.push(site(name, Vec::new()));
            gui.sites[1].routes = vec![crate::support::route("/", cors)];
            let asked = |from: &str, at_least, at_most| PageCheck::Requested {
                site: None,
                request: RequestPattern { query: map(&[("from", from)]), ..RequestPattern::default() },
                at_least,
                at_most,
            };
            // Its own two files, that of the other which it has not, and its second site.
            task(gui, vec![asked(name, 3, Some(3)), asked(other, 0, Some(0))])
        };
        let (a, b) = (of("aaa", "bbb"), of("bbb", "aaa"));
        let shows = |seen: &str, name: &str| {
            assert!(seen.contains(&format!("200only-{name} 404")), "{seen}");
            assert!(seen.contains(&format!(" 200home-{name} failed")), "{seen}");
        };
        // At the same time in two browsers, then one after another in each of them.
        for _ in 0..2 {
            let (mut first, seen) = begin(provider.as_ref(), &a).await;
            let (mut second, seen_by_second) = begin(provider.as_ref(), &b).await;
            shows(&seen, "aaa");
            shows(&seen_by_second, "bbb");
            for env in [&mut first, &mut second] {
                let grade = graded(env.as_mut()).await;
                assert!(grade.passed, "{grade:?}");
            }
            // The last that is put back is the first that is taken.
            first.close().await;
            second.close().await;
        }
        assert_eq!(provider.usage().peak, 2);
    });
}

#[test]
fn file_and_browser_addresses_are_refused_to_pages() {
    with_provider(|provider| async move {
        let html = "<title>Way out</title><a href='file:///etc/passwd' target=_self>File</a><a href='chrome://version'>Browser</a>";
        let (mut env, seen) =
            begin(provider.as_ref(), &task(spec(vec![page("index.html", html)]), Vec::new())).await;
        for name in ["File", "Browser"] {
            let after = step(env.as_mut(), &format!("click {}", element(&seen, name))).await;
            assert!(!after.contains("root:") && !after.contains("Command Line"), "{after}");
        }
        env.close().await;
    });
}

/// Runs a script that ends badly, and returns the fault; meanwhile another attempt continues.
async fn broken(provider: &dyn EnvProvider, script: &str) -> Result<String, Fault> {
    let html = format!("<title>Bad</title><button onclick='{script}'>Break</button>");
    let mut gui = spec(vec![page("index.html", &html)]);
    gui.settle = Duration::from_secs(2);
    let (mut bad, seen) = begin(provider, &task(gui, Vec::new())).await;
    let good_html =
        "<title>0</title><button onclick='document.title = Number(document.title) + 1'>Add</button>";
    let (mut good, good_seen) =
        begin(provider, &task(spec(vec![page("index.html", good_html)]), Vec::new())).await;
    let breaks = [act(&format!("click {}", element(&seen, "Break")))];
    let add = format!("click {}", element(&good_seen, "Add"));
    let neighbour = async {
        for count in 1..=5 {
            let seen = step(good.as_mut(), &add).await;
            assert!(seen.contains(&format!("title: {count}\n")), "{seen}");
        }
    };
    let (result, ()) = tokio::join!(bad.step(&breaks, ctx(1)), neighbour);
    bad.close().await;
    good.close().await;
    result.map(|step| step.observation.joined_text())
}

mod slow {
    use super::*;

    #[test]
    fn page_cannot_open_files_or_browser_pages() {
        const OWN: &[&str] = &[
            "url: http://app.localhost/",
            "url: about:blank",
            "url: chrome-error:",
            "title:",
            "tabs:",
            "text: here",
            "text: no",
            "iframe",
            "link \"Link\"",
            "link \"Tab\"",
            "link \"Moved\"",
            "button \"Form\"",
            "button \"Window\"",
            "button \"Script\"",
            "button \"Frame\"",
            "button \"Fetch\"",
        ];
        with_provider(|provider| async move {
            for address in
                ["file:///etc/passwd", "file:///", "chrome://version/", "view-source:http://app.localhost/"]
            {
                let html = format!(
                    "<title>Tries</title><p>here</p><a href='{address}'>Link</a> <a target=_blank href='{address}'>Tab</a>\
                     <form action='{address}'><button>Form</button></form> <a href='/moved'>Moved</a>\
                     <button onclick='open(`{address}`)'>Window</button> <button onclick='location = `{address}`'>Script</button>\
                     <button onclick='frame.src = `{address}`'>Frame</button><iframe id=frame></iframe> <p id=read></p>\
                     <button onclick='fetch(`{address}`).then(a => a.text()).then(t => read.textContent = t, e => read.textContent = `no`)'>Fetch</button>"
                );
                let mut gui = spec(vec![page("index.html", &html)]);
                let moved = respond(302, &[("location", address)], "");
                gui.sites[0].routes = vec![route("/moved", moved)];
                let (mut env, begun) = begin(provider.as_ref(), &task(gui, Vec::new())).await;
                assert!(begun.contains("here"), "{begun}");
                for what in [
                    "link \"Link\"",
                    "link \"Tab\"",
                    "button \"Form\"",
                    "link \"Moved\"",
                    "button \"Window\"",
                    "button \"Script\"",
                    "button \"Frame\"",
                    "button \"Fetch\"",
                ] {
                    let seen = step(env.as_mut(), &format!("click {what}")).await;
                    // The observation is of the page itself, or empty.
                    let strange = |line: &&str| !OWN.iter().any(|own| line.contains(own));
                    let strange: Vec<&str> = seen.lines().filter(strange).collect();
                    // A browser with windows says in words that it did not go where it was sent.
                    let is_own = seen.starts_with("url: chrome-error:") || strange.is_empty();
                    assert!(is_own, "{address}, {what}: {seen}");
                    if !seen.contains("title: Tries") {
                        step(env.as_mut(), "goto http://app.localhost/").await;
                    }
                }
                env.close().await;
            }
        });
    }

    #[test]
    fn a_page_that_breaks_faults_its_own_attempt_alone() {
        with_provider(|provider| async move {
            let begun = Instant::now();
            let spins = broken(provider.as_ref(), "while (true) {}").await.unwrap_err();
            assert_eq!((spins.boundary, spins.code.as_str()), (Boundary::Env, "page-hung"), "{spins}");
            let eats = broken(
                provider.as_ref(),
                "const all = []; while (true) all.push(new Uint8Array(1e7).fill(1))",
            )
            .await
            .unwrap_err();
            assert!(["page-crashed", "page-hung", "browser-lost"].contains(&eats.code.as_str()), "{eats}");
            // Unsolicited tabs are not opened, and one dialog after another counts as an open one.
            let tabs = broken(provider.as_ref(), "for (let i = 0; i < 200; i++) window.open(\"/\")").await;
            match tabs {
                Ok(seen) => assert!(seen.contains("url: http://app.localhost/"), "{seen}"),
                Err(fault) => assert_eq!(fault.boundary, Boundary::Env, "{fault}"),
            }
            let alerts = broken(provider.as_ref(), "while (true) alert(1)").await.unwrap();
            assert_eq!(alerts, "dialog: alert \"1\"");
            // Each had no longer than a step may take.
            assert!(begun.elapsed() < Duration::from_secs(180));
            // And browsers are provided as before.
            let (mut after, seen) = begin(
                provider.as_ref(),
                &task(spec(vec![page("index.html", "<title>Fine</title>")]), Vec::new()),
            )
            .await;
            assert!(seen.contains("title: Fine"), "{seen}");
            after.close().await;
        });
    }
}
