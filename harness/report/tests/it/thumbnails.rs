//! Pictures of pages in reports: a strip with small ones, and the files that they are of.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::{
    AttemptId, BlobRef, EpisodeSink, Epoch, LeaseRecord, Message, Observation, Role, SlotId, ToolCall, Turn,
    TurnFlags,
};
use clawrl_record::{RunEnd, blob_path};
use clawrl_report::{Options, ReportError, report};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::fixture::{Place, finished, heading, record};

const ROOM: u64 = 64 << 20;

/// A window of this colour, with a darker bar.
fn png(colour: [u8; 3]) -> Vec<u8> {
    let (width, height) = (960, 600);
    let pixel = |at: usize| if at / width < 80 { colour.map(|part| part / 2) } else { colour };
    let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

/// A run of one attempt: a recorded picture at the start, a turn without one, one that shows one, one that records the same.
fn place() -> (Place, [BlobRef; 2]) {
    let place = Place::new();
    let writer = place.opened();
    let sink = writer.sink();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let kept = runtime.block_on(async {
        let lease = LeaseRecord { attempt: AttemptId { slot: SlotId(0), number: 0 }, epoch: Epoch(1) };
        sink.leased(lease).await.unwrap();
        let keep = async |colour| sink.blobs().keep("image/png", png(colour)).await.unwrap();
        let (red, blue) = (keep([200, 40, 40]).await, keep([40, 40, 200]).await);
        let mut record = record(lease, finished(1.0), true);
        record.trajectory.cast = None;
        record.trajectory.reset.pictures.push(red.clone());
        let turn = |line: &str, observation: Observation| Turn {
            reply: Message::text(Role::Assistant, line),
            calls: vec![ToolCall::new("act", json!({ "line": line }))],
            tokens: None,
            usage: None,
            observation,
            process_reward: None,
            flags: TurnFlags::default(),
            policy_time: std::time::Duration::ZERO,
            step_time: std::time::Duration::ZERO,
        };
        let mut away = Observation::from_text("dialog: alert \"1\"");
        away.facts.insert("no_picture".to_owned(), "a dialog is open".into());
        let mut shows = Observation::from_text("a page");
        shows.parts.push(blue.clone().into());
        let records = Observation { pictures: vec![blue.clone()], ..Observation::from_text("a page") };
        record.trajectory.turns =
            vec![turn("click 1", away), turn("screenshot", shows), turn("press Tab", records)];
        sink.resolved(record).await.unwrap();
        [red, blue]
    });
    writer.finish(RunEnd::Interrupted).unwrap();
    (place, kept)
}

/// The content of a block.
fn unpacked(page: &str, id: &str) -> Option<Value> {
    let (_, rest) = page.split_once(&format!("<script type=\"text/plain\" id=\"{id}\">"))?;
    let mut json = String::new();
    let block = STANDARD.decode(rest.split('<').next()?).unwrap();
    GzDecoder::new(&*block).read_to_string(&mut json).unwrap();
    Some(serde_json::from_str(&json).unwrap())
}

#[test]
fn attempt_with_pictures_has_thumbnails() {
    let (place, [red, blue]) = place();
    let folder = "../runs/fixture/".to_owned();
    let made =
        place.report_with(&Options { page_bytes: ROOM, run_folder: folder.clone(), ..Options::default() });
    let small = unpacked(&made.page, "p0").unwrap();
    let names: Vec<&String> = small.as_object().unwrap().keys().collect();
    let mut expected = [&red.sha256, &blue.sha256];
    expected.sort();
    assert_eq!(names, expected, "each once");
    let bytes = STANDARD.decode(small[&red.sha256].as_str().unwrap()).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (240, 150));
    assert_eq!((&pixels[..3], &pixels[pixels.len() - 3..]), (&[99, 16, 16][..], &[206, 41, 41][..]));
    let detail = &unpacked(&made.page, "d0").unwrap()[0];
    let file = |blob: &BlobRef| json!([{ "sha256": blob.sha256, "file": blob_path(blob).unwrap() }]);
    assert_eq!(detail["pictures"], file(&red));
    let turns = &detail["turns"];
    assert_eq!(
        (&turns[0]["pictures"], &turns[0]["facts"]["no_picture"]),
        (&Value::Null, &"a dialog is open".into())
    );
    assert_eq!((&turns[1]["pictures"], &turns[2]["pictures"]), (&file(&blue), &file(&blue)));
    assert_eq!(turns[1]["saw"], format!("a page\n[image/png: {}]", blob_path(&blue).unwrap()));
    assert_eq!(unpacked(&made.page, "index").unwrap()["run_folder"], folder);
    assert_eq!(made.figures.warnings, Vec::<String>::new());
}

#[test]
fn i2_thumbnails_are_dropped_before_attempts() {
    let (place, _) = place();
    let whole = place.report(ROOM).page;
    let attempts = whole.split_once("id=\"d0\">").unwrap().1.split('<').next().unwrap().len() as u64;
    let page = place.report(attempts + 10).page;
    assert!(unpacked(&page, "d0").is_some() && unpacked(&page, "p0").is_none());
    assert_eq!(unpacked(&page, "index").unwrap()["cast_chunks"], 0);
}

#[test]
fn i4_missing_picture_is_noted_damaged_one_fails() {
    let (place, [red, blue]) = place();
    let path = |blob: &BlobRef| place.run().dir().join(blob_path(blob).unwrap());
    std::fs::remove_file(path(&blue)).unwrap();
    let figures = place.report(ROOM).figures;
    assert_eq!(figures.warnings, ["1 picture is missing from the run's folder"]);
    assert_eq!(place.report(0).figures.warnings.len(), 1, "whether there is room or not");
    std::fs::write(path(&red), b"else").unwrap();
    let error = report(&place.run(), &heading(), &Options::default()).unwrap_err();
    assert!(matches!(error, ReportError::Record(_)));
    assert!(error.to_string().contains(&red.sha256), "{error}");
}

#[test]
fn exports_name_the_files() {
    let (place, [red, blue]) = place();
    let folder = place.path().join("atif");
    place.report_with(&Options { atif: Some(folder.clone()), ..Options::default() });
    let text = std::fs::read_to_string(folder.join("s0.0.json")).unwrap();
    let exported: Value = serde_json::from_str(&text).unwrap();
    let file = |blob: &BlobRef| blob_path(blob).unwrap();
    assert_eq!(exported["extra"]["pictures_at_the_start"], json!([file(&red)]));
    let steps = exported["steps"].as_array().unwrap();
    let result = |step: &Value| step["observation"]["results"][0].clone();
    let [.., shows, records] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(result(shows)["content"], format!("a page\n[image/png: {}]", file(&blue)));
    assert_eq!(result(records)["extra"]["pictures"], json!([file(&blue)]));
}
