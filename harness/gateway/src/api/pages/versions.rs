//! `/versions`: updates that one's turns are in, and the versions that they made.

use serde_json::Value;

use super::document::{NoPage, Page};
use super::html::{Html, counted, moment};
use super::login::Visitor;
use crate::UpdateId;
use crate::api::gateway::Gateway;
use crate::ledger::Lesson;

/// Updates of a page.
const UPDATES: u32 = 25;

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
    let html = &mut page.live;
    html.raw("<p>What answers you now: ");
    match gateway.backend.version(&visitor.user) {
        Some(version) => html.raw("version <b>").text(version).raw("</b>"),
        None => html.raw("a policy whose version is not known"),
    };
    for (place, model) in gateway.backend.models().iter().enumerate() {
        html.raw(if place == 0 { ", by the name <code>" } else { " or <code>" }).text(model).raw("</code>");
    }
    html.raw(".</p>\n<h2>Updates with turns of yours</h2>\n");
    if lessons.is_empty() && before.is_none() {
        html.raw("<p>There are none: no update has been made from a turn of yours. This server records chats and has ");
        html.raw("no learner that trains on them yet; when it has, its updates, their gates and their turns stand here.</p>\n");
    }
    lessons.iter().for_each(|lesson| entry(html, lesson));
    if let Some(last) = lessons.last().filter(|_| has_more) {
        html.raw("<p><a href=\"/versions?before=").text(last.update.0).raw("\">Older updates</a></p>\n");
    }
    Ok(page)
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
