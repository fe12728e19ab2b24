//! Pages of the trainer: status, commands, versions, charts, and recent activity.

use std::sync::Arc;

use clawrl_gateway::{Command, TrainerError};

use super::dashboard::{Browser, ask, hi};
use super::scripted::{Scripted, said};
use super::test_server::{TestServer, user};
use super::test_trainer::{TestTrainer, go_back, learn};

const COMMANDS: [&str; 4] = ["train", "pause", "resume", "rollback"];

fn policy() -> Arc<Scripted> {
    Scripted::new(vec![Ok(said(&["One ", "and ", "two"]))])
}

async fn server(trainer: &Arc<TestTrainer>) -> TestServer {
    TestServer::learning(policy(), Arc::clone(trainer) as _).await
}

/// Questions of Ada, and one update with each, from version 7 on.
async fn learned(server: &TestServer, updates: usize) {
    for at in 0..updates {
        ask(server, "one", hi(&format!("question {at}")), &[]).await;
    }
    for (at, turn) in server.turns().await.iter().enumerate() {
        let figures = [("reward_mean", at as f64 / 4.0 - 0.5), ("kl", 0.01)];
        learn(&server.record, (&user("ada"), turn.line.turn), 7 + at as u64, &figures).await;
    }
}

/// The row of a version, with its tags.
fn row(page: &str, version: u64) -> &str {
    let begins = format!("<b>{version}</b></td>");
    page.split("<tr>").find(|row| row.contains(&begins)).unwrap_or_else(|| panic!("{version}: {page}"))
}

#[tokio::test]
async fn versions_page_shows_the_trainers_status() {
    let trainer = TestTrainer::new(9);
    let server = server(&trainer).await;
    let (ada, bob) = (Browser::logged_in(&server, "one").await, Browser::logged_in(&server, "two").await);
    let empty = ada.page("/versions").await;
    for part in
        ["Training of <bdi>ada</bdi>", "<b>3</b> of 8 samples waiting", "after 10 minutes", "No update yet"]
    {
        assert!(empty.contains(part), "{part}: {empty}");
    }
    assert!(empty.contains("Only the version before training exists."), "{empty}");
    assert!(
        !empty.contains("<svg") && empty.contains("/policy/pause") && !empty.contains("/policy/resume"),
        "{empty}"
    );
    learned(&server, 2).await;
    trainer.change(|state| {
        state.paused = Some("<script>too little memory".to_owned());
        state.last = Some("made <b>version 9".to_owned());
        (state.every_turns, state.every_secs) = (1, 90);
    });
    let page = ada.page("/versions").await;
    for part in [
        "&lt;script&gt;too little memory",
        "made &lt;b&gt;version 9",
        "<b>3</b> of 1 sample waiting",
        "after 90 seconds",
        "/policy/resume",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("/policy/pause") && !page.contains("/secret/place"), "{page}");
    assert!(row(&page, 9).contains("in use") && !row(&page, 9).contains("<button"), "{page}");
    assert!(row(&page, 8).contains("ancestor") && row(&page, 8).contains("value=\"8\""), "{page}");
    assert!(row(&page, 0).contains("before training") && row(&page, 0).contains("value=\"0\""), "{page}");
    go_back(&server.record, 8, 10).await;
    trainer.change(|state| state.version = 10);
    let page = ada.page("/versions").await;
    assert!(row(&page, 10).contains("in use") && row(&page, 9).contains("discarded"), "{page}");
    assert!(row(&page, 9).contains("value=\"9\""), "what was given up may be gone back to: {page}");
    let his = bob.page("/versions").await;
    assert!(
        his.contains("Training of <bdi>bob</bdi>") && !his.contains("<svg") && !his.contains("<table"),
        "{his}"
    );
    // The refreshed part has buttons, and neither the form nor its proof.
    let part = ada.send("GET", "/versions", &[("x-clawrl-part", "live")], "").await.text().await;
    let proof = ada.proof().await;
    assert!(part.contains("form=\"policy\"") && !part.contains("<form") && !part.contains(&proof), "{part}");
    assert_eq!(page.matches("<form id=\"policy\" method=\"post\"").count(), 1);
    let older = ada.page("/versions?before=2").await;
    assert!(
        older.contains("Update 1 ") && !older.contains("Update 2 ") && !older.contains("<svg"),
        "{older}"
    );
    assert_eq!(trainer.commands(), [], "viewing is not a command");
}

#[tokio::test]
async fn many_versions_are_folded_and_cut() {
    let trainer = TestTrainer::new(16);
    let server = server(&trainer).await;
    learned(&server, 9).await;
    let ada = Browser::logged_in(&server, "one").await;
    let page = ada.page("/versions").await;
    let (newest, older) =
        page.split_once("<details id=\"older-versions\"><summary>3 older versions").unwrap();
    assert!(row(newest, 16).contains("in use") && row(newest, 11).contains("ancestor"), "{page}");
    assert!(row(older, 10).contains("<button") && row(older, 0).contains("<button"), "{page}");
    for version in 17..60 {
        go_back(&server.record, 7, version).await;
    }
    let page = ada.page("/versions").await;
    assert!(page.contains("44 older versions") && page.contains("</code> lists older versions"), "{page}");
    assert!(row(&page, 10).contains("discarded") && !page.contains("<b>9</b></td>"), "{page}");
    assert!(!page.contains("before training"), "{page}");
}

#[tokio::test]
async fn form_commands_apply_to_the_logins_adapter() {
    let trainer = TestTrainer::new(7);
    let server = server(&trainer).await;
    let (ada, bob) = (Browser::logged_in(&server, "one").await, Browser::logged_in(&server, "two").await);
    let (hers, his) = (ada.proof().await, bob.proof().await);
    for what in COMMANDS {
        for form in ["version=3".to_owned(), "version=3&proof=".to_owned(), format!("version=3&proof={his}")]
        {
            assert_eq!(ada.post(&format!("/policy/{what}"), &form).await.status, 403, "{what} {form}");
        }
        let evil = [("Origin", "http://evil.example"), ("Content-Type", "application/x-www-form-urlencoded")];
        let form = format!("version=3&proof={hers}");
        assert_eq!(ada.send("POST", &format!("/policy/{what}"), &evil, &form).await.status, 403, "{what}");
        assert_eq!(ada.send("GET", &format!("/policy/{what}"), &[], "").await.status, 405, "{what}");
    }
    for version in ["", "version=", "version=-1", "version=x", "version=1.5"] {
        let refused = ada.post("/policy/rollback", &format!("{version}&proof={hers}")).await;
        assert_eq!(refused.status, 400, "{version}");
        assert!(refused.text().await.contains("`version` must be the number of a version."), "{version}");
    }
    assert_eq!(trainer.commands(), []);
    for what in COMMANDS {
        let done = ada.post(&format!("/policy/{what}"), &format!("version=3&proof={hers}")).await;
        assert_eq!((done.status, done.header("location")), (303, Some("/versions")), "{what}");
    }
    assert_eq!(bob.post("/policy/pause", &format!("proof={his}")).await.status, 303);
    let of = |name: &str, command| (name.to_owned(), command);
    let expected = [
        of("ada", Command::Train),
        of("ada", Command::Pause),
        of("ada", Command::Resume),
        of("ada", Command::RollBack(3)),
        of("bob", Command::Pause),
    ];
    assert_eq!(trainer.commands(), expected);
}

#[tokio::test]
async fn refused_command_is_a_page_with_the_reason() {
    let trainer = TestTrainer::new(7);
    let server = server(&trainer).await;
    let ada = Browser::logged_in(&server, "one").await;
    let form = format!("version=3&proof={}", ada.proof().await);
    let none = TrainerError::NoVersion(3, "the last <5> are".to_owned());
    let busy = TrainerError::Refused("an update is under way".to_owned());
    let ended = TrainerError::Ended("/secret/place: the disk is full".to_owned());
    for (error, status, words) in [
        (none, 404, "<h1>Version 3 is not kept: the last &lt;5&gt; are.</h1>"),
        (busy, 409, "<h1>An update is under way.</h1>"),
        (ended, 503, "<h1>The trainer has stopped; see the server&#39;s log.</h1>"),
    ] {
        trainer.fail(Some(error));
        for what in COMMANDS {
            let refused = ada.post(&format!("/policy/{what}"), &form).await;
            assert_eq!(
                (refused.status, refused.header("content-type")),
                (status, Some("text/html; charset=utf-8"))
            );
            let page = refused.text().await;
            assert!(page.contains(words) && !page.contains("/secret/place"), "{what}: {page}");
        }
    }
    // Earlier updates are still shown.
    learned(&server, 1).await;
    let page = ada.page("/versions").await;
    assert!(page.contains("The trainer has stopped; see the server") && page.contains("Update 1 "), "{page}");
    assert!(
        page.contains("<svg") && !page.contains("Train now") && !page.contains("/secret/place"),
        "{page}"
    );
}

#[tokio::test]
async fn page_without_trainer_has_no_buttons() {
    let server = TestServer::new(policy()).await;
    let ada = Browser::logged_in(&server, "one").await;
    let page = ada.page("/versions").await;
    assert!(page.contains("does not learn from them"), "{page}");
    assert!(!page.contains("/policy/") && !page.contains("id=\"policy\""), "{page}");
    let form = format!("version=3&proof={}", ada.proof().await);
    for what in COMMANDS {
        let refused = ada.post(&format!("/policy/{what}"), &form).await;
        assert_eq!(refused.status, 409, "{what}");
        assert!(refused.text().await.contains("<h1>Training is off"), "{what}");
    }
}

#[tokio::test]
async fn charts_show_own_updates_and_load_nothing() {
    let trainer = TestTrainer::new(11);
    let server = server(&trainer).await;
    learned(&server, 3).await;
    go_back(&server.record, 8, 11).await;
    let page = Browser::logged_in(&server, "one").await.page("/versions").await;
    assert!(page.contains("Metrics of <bdi>ada</bdi>"), "{page}");
    assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (2, 2));
    assert_eq!((page.matches("class=\"dot\"").count(), page.matches("class=\"dot not\"").count()), (2, 4));
    for part in ["over 3 updates: from -0.5 to 0, last 0", ">update</text>", ">nats</text>", ">reward</text>"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    for wrong in ["style=", "<style", "http://", "https://", "url(", "<image", "xlink"] {
        assert!(!page.contains(wrong), "{wrong}: {page}");
    }
    assert!(!Browser::logged_in(&server, "two").await.page("/versions").await.contains("<svg"));
}

#[tokio::test]
async fn overview_shows_activity_of_the_last_hour() {
    let server = TestServer::new(policy()).await;
    let (ada, bob) = (Browser::logged_in(&server, "one").await, Browser::logged_in(&server, "two").await);
    assert!(ada.page("/").await.contains("you: 0 answers, 0 tokens (0.00 per second); all users: 0 answers"));
    ask(&server, "one", hi("one"), &[]).await;
    ask(&server, "one", hi("two"), &[]).await;
    ask(&server, "two", hi("three"), &[]).await;
    for (browser, own) in [(ada, "you: 2 answers, 6 tokens ("), (bob, "you: 1 answer, 3 tokens (")] {
        let page = browser.page("/").await;
        assert!(page.contains(own) && page.contains("all users: 3 answers, 9 tokens ("), "{page}");
    }
}
