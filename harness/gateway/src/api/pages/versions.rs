//! `/versions`: how whoever learns stands and what may be asked of them, versions that were in use, updates that one's turns are in, and their
//! curves.
//!
//! I1. Buttons stand in the live part, so that they say what can be done now; the form that they belong to, with its proof, stands outside.

use serde_json::Value;

use super::curves;
use super::document::{self, NoPage, Page};
use super::html::{Html, counted, moment};
use super::login::Visitor;
use crate::api::error::ApiError;
use crate::api::gateway::Gateway;
use crate::ledger::Lesson;
use crate::{TrainerView, UpdateId, VersionView};

/// Updates of a page.
const UPDATES: u32 = 25;
/// Versions that are listed.
const VERSIONS: u32 = 50;
/// Versions that are listed without unfolding the others.
const UNFOLDED: usize = 6;
/// Updates that a curve goes over.
const POINTS: u32 = 100;

pub(super) async fn page(
    gateway: &Gateway,
    visitor: &Visitor,
    before: Option<UpdateId>,
) -> Result<Page, NoPage> {
    // One more tells whether there is another page.
    let mut lessons = gateway.recorder.lessons(&visitor.user, before, UPDATES + 1).await?;
    let has_more = lessons.len() > UPDATES as usize;
    lessons.truncate(UPDATES as usize);
    let mut page = Page { title: "Versions".to_owned(), ..Page::default() };
    page.head.raw("<h1>Versions</h1>\n");
    if gateway.trainer.is_some() {
        page.head.raw("<form id=\"policy\" method=\"post\" action=\"/policy/train\">");
        document::proof(&mut page.head, visitor);
        page.head.raw("</form>\n");
    }
    let html = &mut page.live;
    answering(html, gateway, visitor);
    if before.is_none() {
        if let Some(trainer) = &gateway.trainer {
            match trainer.view(&visitor.user).await {
                Ok(view) => {
                    standing(html, &view);
                    let versions = gateway.recorder.versions(&view.adapter, VERSIONS + 1).await?;
                    list(html, &view, &versions);
                }
                Err(error) => {
                    let why = NoPage::from(ApiError::from(error)).message;
                    html.raw("<p class=\"warning\">").text(why).raw("</p>\n");
                }
            }
        }
        curves::curves(html, &gateway.recorder.figures(&visitor.user, POINTS).await?);
    }
    html.raw("<h2>Updates with turns of yours</h2>\n");
    if lessons.is_empty() && before.is_none() {
        html.raw("<p>There are none: no update has been made from a turn of yours.");
        if gateway.trainer.is_none() {
            html.raw(" This server records chats and learns nothing from them: it was started so, or its policy cannot be trained.");
        }
        html.raw("</p>\n");
    }
    lessons.iter().for_each(|lesson| entry(html, lesson));
    if let Some(last) = lessons.last().filter(|_| has_more) {
        html.raw("<p><a href=\"/versions?before=").text(last.update.0).raw("\">Older updates</a></p>\n");
    }
    Ok(page)
}

fn answering(html: &mut Html, gateway: &Gateway, visitor: &Visitor) {
    html.raw("<p>What answers you now: ");
    match gateway.backend.version(&visitor.user) {
        Some(version) => html.raw("version <b>").text(version).raw("</b>"),
        None => html.raw("a policy whose version is not known"),
    };
    for (place, model) in gateway.backend.models().iter().enumerate() {
        html.raw(if place == 0 { ", by the name <code>" } else { " or <code>" }).text(model).raw("</code>");
    }
    html.raw(".</p>\n");
}

/// How it stands, and what may be asked for.
fn standing(html: &mut Html, view: &TrainerView) {
    html.raw("<section class=\"message\" id=\"standing\"><h3>Learning of <bdi>")
        .text(&view.adapter)
        .raw("</bdi> ");
    html.raw(if view.paused.is_some() {
        "<span class=\"tag bad\">paused</span></h3>\n"
    } else {
        "<span class=\"tag good\">learns</span></h3>\n"
    });
    if let Some(why) = &view.paused {
        html.raw("<p class=\"warning\">No update begins until it is told to go on: <bdi>")
            .text(why)
            .raw("</bdi></p>\n");
    }
    html.raw("<p><b>").text(view.waiting).raw("</b> of ").text(view.every_turns);
    html.raw(if view.every_turns == 1 { " sample waits" } else { " samples wait" });
    html.raw("; an update begins when all are there, or after ")
        .text(time(view.every_secs))
        .raw(" with what waits.</p>\n");
    html.raw("<p class=\"soft\">Version ")
        .text(view.version)
        .raw("; what is maximised: <bdi>")
        .text(&view.objective);
    html.raw("</bdi>. ");
    match &view.last {
        Some(last) => html.raw("The last update: <bdi>").text(last).raw("</bdi>"),
        None => html.raw("There was no update yet."),
    };
    html.raw(
        "</p>\n<p class=\"buttons\"><button form=\"policy\" formaction=\"/policy/train\">Train now</button> ",
    );
    html.raw(if view.paused.is_some() {
        "<button form=\"policy\" formaction=\"/policy/resume\">Resume</button>"
    } else {
        "<button form=\"policy\" formaction=\"/policy/pause\">Pause</button>"
    });
    html.raw("</p></section>\n");
}

fn time(seconds: u32) -> String {
    match (seconds / 60, seconds % 60) {
        (minutes @ 1.., 0) => counted(minutes.into(), "minute", "minutes"),
        _ => counted(seconds.into(), "second", "seconds"),
    }
}

/// Versions that were in use, newest first.
fn list(html: &mut Html, view: &TrainerView, versions: &[VersionView]) {
    html.raw("<h2>Versions of <bdi>").text(&view.adapter).raw("</bdi></h2>\n");
    if versions.is_empty() {
        html.raw("<p>There is the one that learning began with, and no other yet.</p>\n");
        return;
    }
    html.raw("<p class=\"soft\">To go back gives what an older version has a new number, and gives up what was learned since: these turns are not ");
    html.raw("trained again. What was given up can be gone back to as well, as long as it is kept.</p>\n");
    let listed = &versions[..versions.len().min(VERSIONS as usize)];
    let is_whole = listed.len() == versions.len();
    let (newest, older) = listed.split_at(listed.len().min(UNFOLDED));
    let begins = is_whole && view.version != 0 && listed.iter().all(|version| version.version != 0);
    table(html, view, newest, begins && older.is_empty());
    if !older.is_empty() {
        html.raw("<details id=\"older-versions\"><summary>");
        html.text(counted(older.len() as u64, "older version", "older versions")).raw("</summary>");
        table(html, view, older, begins);
        html.raw("</details>\n");
    }
    if !is_whole {
        html.raw("<p class=\"soft\">Older ones are in <code>GET /v1/policy</code>.</p>\n");
    }
}

/// `begins`: what learning began with is under them.
fn table(html: &mut Html, view: &TrainerView, versions: &[VersionView], begins: bool) {
    html.raw("<table class=\"versions\"><thead><tr><th>Version</th><th>From</th><th>Branch</th><th>Made (UTC)</th><th>State</th>");
    html.raw("<th></th></tr></thead><tbody>\n");
    versions.iter().for_each(|version| row(html, view, version));
    if begins {
        html.raw("<tr><td data-label=\"Version\"><b>0</b></td><td></td><td></td><td></td><td>what learning began with</td><td>");
        button(html, 0);
        html.raw("</td></tr>\n");
    }
    html.raw("</tbody></table>\n");
}

fn row(html: &mut Html, view: &TrainerView, version: &VersionView) {
    let is_current = version.version == view.version;
    html.raw("<tr><td data-label=\"Version\"><b>")
        .text(version.version)
        .raw("</b></td><td data-label=\"From\">");
    if let Some(parent) = version.parent {
        html.text(parent);
    }
    html.raw("</td><td data-label=\"Branch\">").text(version.branch).raw("</td><td class=\"when\">");
    html.text(moment(version.at_ms)).raw("</td><td>");
    html.raw(if is_current {
        "<span class=\"tag good\">in use</span>"
    } else if version.accepted {
        "<span class=\"tag\">leads to it</span>"
    } else {
        "<span class=\"tag bad\">given up</span>"
    });
    html.raw("</td><td>");
    if !is_current {
        button(html, version.version);
    }
    html.raw("</td></tr>\n");
}

fn button(html: &mut Html, version: u64) {
    html.raw("<button form=\"policy\" formaction=\"/policy/rollback\" name=\"version\" value=\"")
        .text(version);
    html.raw("\" aria-label=\"Go back to version ").text(version).raw("\">Go back to this one</button>");
}

fn entry(html: &mut Html, lesson: &Lesson) {
    let number = lesson.update.0;
    html.raw("<section class=\"message\" id=\"update-").text(number).raw("\"><h3>Update ").text(number);
    html.raw(" of <bdi>").text(&lesson.adapter).raw("</bdi>: version ").text(lesson.version_before);
    if let Some(version) = lesson.version_after {
        html.raw(" to ").text(version);
    }
    html.raw("</h3>\n<p><span class=\"tag\">").text(&lesson.state).raw("</span> <span class=\"soft\">");
    html.text(&lesson.objective).raw(", began ").text(moment(lesson.began_ms)).raw(" UTC");
    if let Some(ended) = lesson.ended_ms {
        html.raw(", ended ").text(moment(ended)).raw(" UTC");
    }
    if let Some(branch) = lesson.branch.filter(|branch| *branch > 0) {
        html.raw(", on branch ").text(branch);
    }
    html.raw("</span></p>\n");
    gates(html, lesson);
    figures(html, lesson);
    html.raw("<p>").text(counted(lesson.turn_count, "turn", "turns")).raw(" of yours in it: ");
    for (turn, outcome) in &lesson.turns {
        html.raw("<a href=\"/turns/").text(turn).raw("\">").text(turn).raw("</a> <span class=\"soft\">");
        html.text(outcome).raw("</span> ");
    }
    let left = lesson.turn_count.saturating_sub(lesson.turns.len() as u64);
    if left > 0 {
        html.raw("and ").text(left).raw(" more");
    }
    html.raw("</p></section>\n");
}

fn gates(html: &mut Html, lesson: &Lesson) {
    match lesson.state.as_str() {
        "accepted" => {
            html.raw("<p>Its gates passed.</p>\n");
        }
        "lost" => {
            html.raw("<p class=\"warning\">It was accepted, and training went on from a checkpoint without it.</p>\n");
        }
        _ => {}
    }
    if !lesson.reasons.is_empty() {
        html.raw("<p class=\"warning\">Why it was not accepted:</p>\n<ul>");
        for reason in &lesson.reasons {
            html.raw("<li><bdi>").text(reason).raw("</bdi></li>");
        }
        html.raw("</ul>\n");
    }
}

fn figures(html: &mut Html, lesson: &Lesson) {
    if lesson.metrics.is_empty() {
        return;
    }
    html.raw("<details id=\"figures-")
        .text(lesson.update.0)
        .raw("\"><summary>Figures</summary><table><tbody>");
    for (name, value) in &lesson.metrics {
        let value = value.as_str().map_or_else(|| Value::to_string(value), str::to_owned);
        html.raw("<tr><th>").text(name).raw("</th><td>").text(value).raw("</td></tr>");
    }
    html.raw("</tbody></table></details>\n");
}
