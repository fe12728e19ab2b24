//! Pages about what is learned: how it stands, what may be asked for, versions, curves, and how much is talked.

use std::sync::Arc;

use clawrl_gateway::{Command, TrainerError};

use super::dashboard::{Browser, ask, hi};
use super::house::{House, user};
use super::scripted::{Scripted, said};
use super::tutor::{Tutor, go_back, learn};

const COMMANDS: [&str; 4] = ["train", "pause", "resume", "rollback"];

fn policy() -> Arc<Scripted> {
    Scripted::new(vec![Ok(said(&["One ", "and ", "two"]))])
}

async fn house(tutor: &Arc<Tutor>) -> House {
    House::learning(policy(), Arc::clone(tutor) as _).await
}

/// Questions of Ada, and as many updates of them one by one, from version 7 on.
async fn learned(house: &House, updates: usize) {
    for at in 0..updates {
        ask(house, "one", hi(&format!("question {at}")), &[]).await;
    }
    for (at, turn) in house.turns().await.iter().enumerate() {
        let figures = [("reward_mean", at as f64 / 4.0 - 0.5), ("kl", 0.01)];
        learn(&house.record, (&user("ada"), turn.line.turn), 7 + at as u64, &figures).await;
    }
}

/// The row of a version, with its tags.
fn row(page: &str, version: u64) -> &str {
    let begins = format!("<b>{version}</b></td>");
    page.split("<tr>").find(|row| row.contains(&begins)).unwrap_or_else(|| panic!("{version}: {page}"))
}

#[tokio::test]
async fn a_page_says_how_learning_stands() {
    let tutor = Tutor::new(9);
    let house = house(&tutor).await;
    let (ada, bob) = (Browser::logged_in(&house, "one").await, Browser::logged_in(&house, "two").await);
    let empty = ada.page("/versions").await;
    for part in [
        "Learning of <bdi>ada</bdi>",
        "<b>3</b> of 8 samples wait",
        "after 10 minutes",
        "There was no update yet",
    ] {
        assert!(empty.contains(part), "{part}: {empty}");
    }
    assert!(empty.contains("the one that learning began with") && !empty.contains("no learner"), "{empty}");
    assert!(
        !empty.contains("<svg") && empty.contains("/policy/pause") && !empty.contains("/policy/resume"),
        "{empty}"
    );
    learned(&house, 2).await;
    tutor.change(|state| {
        state.paused = Some("<script>too little memory".to_owned());
        state.last = Some("made <b>version 9".to_owned());
        (state.every_turns, state.every_secs) = (1, 90);
    });
    let page = ada.page("/versions").await;
    for part in [
        "&lt;script&gt;too little memory",
        "made &lt;b&gt;version 9",
        "<b>3</b> of 1 sample waits",
        "after 90 seconds",
        "/policy/resume",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("/policy/pause") && !page.contains("/secret/place"), "{page}");
    assert!(row(&page, 9).contains("in use") && !row(&page, 9).contains("<button"), "{page}");
    assert!(row(&page, 8).contains("leads to it") && row(&page, 8).contains("value=\"8\""), "{page}");
    assert!(
        row(&page, 0).contains("what learning began with") && row(&page, 0).contains("value=\"0\""),
        "{page}"
    );
    go_back(&house.record, 8, 10).await;
    tutor.change(|state| state.version = 10);
    let page = ada.page("/versions").await;
    assert!(row(&page, 10).contains("in use") && row(&page, 9).contains("given up"), "{page}");
    assert!(row(&page, 9).contains("value=\"9\""), "what was given up may be gone back to: {page}");
    let his = bob.page("/versions").await;
    assert!(
        his.contains("Learning of <bdi>bob</bdi>") && !his.contains("<svg") && !his.contains("<table"),
        "{his}"
    );
    // What is fetched again has buttons, and neither the form nor its proof.
    let part = ada.send("GET", "/versions", &[("x-clawrl-part", "live")], "").await.text().await;
    let proof = ada.proof().await;
    assert!(part.contains("form=\"policy\"") && !part.contains("<form") && !part.contains(&proof), "{part}");
    assert_eq!(page.matches("<form id=\"policy\" method=\"post\"").count(), 1);
    let older = ada.page("/versions?before=2").await;
    assert!(
        older.contains("Update 1 ") && !older.contains("Update 2 ") && !older.contains("<svg"),
        "{older}"
    );
    assert_eq!(tutor.told(), [], "to look is to ask for nothing");
}

#[tokio::test]
async fn many_versions_are_folded_and_cut() {
    let tutor = Tutor::new(16);
    let house = house(&tutor).await;
    learned(&house, 9).await;
    let ada = Browser::logged_in(&house, "one").await;
    let page = ada.page("/versions").await;
    let (newest, older) =
        page.split_once("<details id=\"older-versions\"><summary>3 older versions").unwrap();
    assert!(row(newest, 16).contains("in use") && row(newest, 11).contains("leads to it"), "{page}");
    assert!(row(older, 10).contains("<button") && row(older, 0).contains("<button"), "{page}");
    for version in 17..60 {
        go_back(&house.record, 7, version).await;
    }
    let page = ada.page("/versions").await;
    assert!(page.contains("44 older versions") && page.contains("Older ones are in"), "{page}");
    assert!(row(&page, 10).contains("given up") && !page.contains("<b>9</b></td>"), "{page}");
    assert!(!page.contains("what learning began with"), "{page}");
}

#[tokio::test]
async fn forms_ask_for_the_adapter_of_their_login() {
    let tutor = Tutor::new(7);
    let house = house(&tutor).await;
    let (ada, bob) = (Browser::logged_in(&house, "one").await, Browser::logged_in(&house, "two").await);
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
        assert!(refused.text().await.contains("A version is gone back to by its number."), "{version}");
    }
    assert_eq!(tutor.told(), []);
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
    assert_eq!(tutor.told(), expected);
}

#[tokio::test]
async fn what_cannot_be_done_is_a_page_that_says_why() {
    let tutor = Tutor::new(7);
    let house = house(&tutor).await;
    let ada = Browser::logged_in(&house, "one").await;
    let form = format!("version=3&proof={}", ada.proof().await);
    let none = TrainerError::NoVersion(3, "the last <5> are".to_owned());
    let busy = TrainerError::Refused("an update is under way".to_owned());
    let ended = TrainerError::Ended("/secret/place: the disk is full".to_owned());
    for (error, status, words) in [
        (none, 404, "<h1>Version 3 is not kept: the last &lt;5&gt; are.</h1>"),
        (busy, 409, "<h1>An update is under way.</h1>"),
        (ended, 503, "<h1>Learning has ended; the server&#39;s log says why.</h1>"),
    ] {
        tutor.fail(Some(error));
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
    // What was learned is still to be seen.
    learned(&house, 1).await;
    let page = ada.page("/versions").await;
    assert!(page.contains("Learning has ended; the server") && page.contains("Update 1 "), "{page}");
    assert!(
        page.contains("<svg") && !page.contains("Train now") && !page.contains("/secret/place"),
        "{page}"
    );
}

#[tokio::test]
async fn where_nobody_learns_there_is_nothing_to_press() {
    let house = House::new(policy()).await;
    let ada = Browser::logged_in(&house, "one").await;
    let page = ada.page("/versions").await;
    assert!(page.contains("learns nothing from them"), "{page}");
    assert!(!page.contains("/policy/") && !page.contains("id=\"policy\""), "{page}");
    let form = format!("version=3&proof={}", ada.proof().await);
    for what in COMMANDS {
        let refused = ada.post(&format!("/policy/{what}"), &form).await;
        assert_eq!(refused.status, 409, "{what}");
        assert!(refused.text().await.contains("<h1>Nothing is learned here"), "{what}");
    }
}

#[tokio::test]
async fn curves_are_of_ones_own_updates_and_load_nothing() {
    let tutor = Tutor::new(11);
    let house = house(&tutor).await;
    learned(&house, 3).await;
    go_back(&house.record, 8, 11).await;
    let page = Browser::logged_in(&house, "one").await.page("/versions").await;
    assert!(page.contains("Curves of <bdi>ada</bdi>"), "{page}");
    assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (2, 2));
    assert_eq!((page.matches("class=\"dot\"").count(), page.matches("class=\"dot not\"").count()), (2, 4));
    for part in ["over 3 updates: from -0.5 to 0, last 0", ">update</text>", ">nats</text>", ">reward</text>"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    for wrong in ["style=", "<style", "http://", "https://", "url(", "<image", "xlink"] {
        assert!(!page.contains(wrong), "{wrong}: {page}");
    }
    assert!(!Browser::logged_in(&house, "two").await.page("/versions").await.contains("<svg"));
}

#[tokio::test]
async fn the_overview_says_how_much_was_talked_lately() {
    let house = House::new(policy()).await;
    let (ada, bob) = (Browser::logged_in(&house, "one").await, Browser::logged_in(&house, "two").await);
    assert!(
        ada.page("/")
            .await
            .contains("yours: 0 answers with 0 tokens, 0.00 a second; of all users: 0 answers")
    );
    ask(&house, "one", hi("one"), &[]).await;
    ask(&house, "one", hi("two"), &[]).await;
    ask(&house, "two", hi("three"), &[]).await;
    for (browser, own) in
        [(ada, "yours: 2 answers with 6 tokens, "), (bob, "yours: 1 answer with 3 tokens, ")]
    {
        let page = browser.page("/").await;
        assert!(page.contains(own) && page.contains("of all users: 3 answers with 9 tokens, "), "{page}");
    }
}
