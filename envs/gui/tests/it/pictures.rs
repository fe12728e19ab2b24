//! Pictures: when they are taken, who sees them, and what prevents one.

use std::sync::Arc;

use clawrl_core::{
    BlobRef, BlobStore, Env, EnvProvider, LeaseRequest, MemoryBlobs, Observation, Part, Screenshots, TaskSpec,
};

use crate::support::{act, ctx, element, page, request, spec, step, task, with_provider};

const PAGE: &str = "<title>Wall</title><style>body { background: white }</style><input aria-label=Name autofocus>\
    <button onclick='document.body.style.background = \"green\"'>Paint</button><button onclick='alert(1)'>Ask</button>";

fn pictured(screenshots: Screenshots) -> Arc<TaskSpec> {
    let mut gui = spec(vec![page("index.html", PAGE)]);
    gui.screenshots = screenshots;
    task(gui, Vec::new())
}

/// An environment, its blobs, and the first observation.
async fn begin(
    provider: &dyn EnvProvider,
    task: &Arc<TaskSpec>,
) -> (Box<dyn Env>, Arc<MemoryBlobs>, Observation) {
    let blobs = Arc::new(MemoryBlobs::default());
    let kept = Arc::clone(&blobs) as Arc<dyn BlobStore>;
    let mut env = provider.lease(LeaseRequest { blobs: kept, ..request(task) }).await.unwrap();
    let seen = env.reset(ctx(0)).await.unwrap();
    (env, blobs, seen)
}

async fn did(env: &mut dyn Env, line: &str) -> Observation {
    env.step(&[act(line)], ctx(1)).await.unwrap().observation
}

/// Those that are shown, and those that are only recorded.
fn pictures(seen: &Observation) -> (Vec<BlobRef>, Vec<BlobRef>) {
    let all: Vec<BlobRef> = seen.all_pictures().collect();
    let shown = seen.parts.iter().filter(|part| matches!(part, Part::Image { .. })).count();
    (all[..shown].to_vec(), all[shown..].to_vec())
}

async fn size(blobs: &MemoryBlobs, blob: &BlobRef) -> (u32, u32) {
    let bytes = blobs.read(blob).await.unwrap();
    assert_eq!((blob.media_type.as_str(), &bytes[..8]), ("image/png", b"\x89PNG\r\n\x1a\n".as_slice()));
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn offers(seen: &Observation) -> bool {
    seen.tools.iter().any(|tool| tool.name == "screenshot")
}

#[test]
fn screenshot_shows_current_page() {
    with_provider(|provider| async move {
        for screenshots in [Screenshots::OnRequest, Screenshots::Recorded] {
            let recorded = usize::from(screenshots == Screenshots::Recorded);
            let (mut env, blobs, seen) = begin(provider.as_ref(), &pictured(screenshots)).await;
            assert!(offers(&seen), "{screenshots:?}");
            let (shown, kept) = pictures(&seen);
            assert_eq!((shown.len(), kept.len()), (0, recorded), "{screenshots:?}");
            let (white, more) = pictures(&did(env.as_mut(), "screenshot").await);
            assert_eq!((white.len(), more.len()), (1, 0), "{screenshots:?}");
            assert_eq!(size(&blobs, &white[0]).await, (1024, 768));
            assert!(
                kept.iter().all(|kept| *kept == white[0]),
                "nothing has changed, and a caret does not blink"
            );
            let painted =
                did(env.as_mut(), &format!("click {}", element(&seen.joined_text(), "Paint"))).await;
            assert_eq!(pictures(&painted).0.len(), 0);
            let (green, _) = pictures(&did(env.as_mut(), "screenshot").await);
            assert_ne!(green, white);
            // By calls of a model, and after something else.
            let calls = [act("press Tab"), clawrl_core::ToolCall::new("screenshot", serde_json::json!({}))];
            let seen = env.step(&calls, ctx(1)).await.unwrap().observation;
            assert_eq!(pictures(&seen).0.len(), 1);
            env.close().await;
        }
    });
}

#[test]
fn pictures_follow_the_tasks_setting() {
    with_provider(|provider| async move {
        let (mut env, blobs, seen) = begin(provider.as_ref(), &pictured(Screenshots::Shown)).await;
        assert!(!offers(&seen), "there is nothing to ask for");
        let (white, recorded) = pictures(&seen);
        assert_eq!((white.len(), recorded.len()), (1, 0));
        assert!(matches!(seen.parts[..], [Part::Text { .. }, Part::Image { .. }]));
        assert_eq!(size(&blobs, &white[0]).await, (1024, 768));
        let painted = did(env.as_mut(), &format!("click {}", element(&seen.joined_text(), "Paint"))).await;
        let (green, _) = pictures(&painted);
        assert!(green.len() == 1 && green != white);
        let told = step(env.as_mut(), "screenshot").await;
        assert!(told.starts_with("error: this task has no tool `screenshot`"), "{told}");
        env.close().await;

        let (mut env, _, seen) = begin(provider.as_ref(), &pictured(Screenshots::Never)).await;
        assert!(!offers(&seen));
        let told = did(env.as_mut(), "screenshot").await;
        assert!(told.joined_text().starts_with("error: this task has no tool `screenshot`"), "{told:?}");
        assert_eq!((seen.all_pictures().count(), told.all_pictures().count()), (0, 0));
        env.close().await;
    });
}

#[test]
fn dialog_prevents_picture_without_fault() {
    with_provider(|provider| async move {
        let (mut env, _, seen) = begin(provider.as_ref(), &pictured(Screenshots::Recorded)).await;
        let asked = did(env.as_mut(), &format!("click {}", element(&seen.joined_text(), "Ask"))).await;
        assert_eq!(asked.joined_text(), "dialog: alert \"1\"");
        assert_eq!(
            (asked.all_pictures().count(), &asked.facts["no_picture"]),
            (0, &"a dialog is open".into())
        );
        let told = did(env.as_mut(), "screenshot").await;
        assert_eq!(told.joined_text(), "error: there is no picture: a dialog is open\ndialog: alert \"1\"");
        let after = did(env.as_mut(), "accept").await;
        assert_eq!((after.all_pictures().count(), after.facts.contains_key("no_picture")), (1, false));
        env.close().await;
    });
}
