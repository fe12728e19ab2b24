//! `/sessions/N`: its turns.

use super::document::{self, NoPage, Page};
use super::html::{Html, beginning, counted, moment};
use super::login::Visitor;
use super::overview::{facts, state, title};
use super::training::Fate;
use crate::api::gateway::Gateway;
use crate::{SessionId, TurnId, TurnView};

/// Turns of a page.
const TURNS: u32 = 25;
/// Characters of an answer that are shown.
const EXCERPT: usize = 240;

pub(super) async fn page(
    gateway: &Gateway,
    visitor: &Visitor,
    id: SessionId,
    before: Option<TurnId>,
) -> Result<Page, NoPage> {
    // One more tells whether there is another page.
    let (session, mut turns) = gateway.recorder.outline(&visitor.user, id, (before, TURNS + 1)).await?;
    let has_more = turns.len() > TURNS as usize;
    turns.truncate(TURNS as usize);
    let words = session.title.as_ref().map(|title| format!(": {title}")).unwrap_or_default();
    let mut page = Page { title: format!("Session {id}{words}"), session: Some(id), ..Page::default() };
    let live = &mut page.live;
    // It is deleted with the session.
    live.raw("<h1><bdi>");
    title(live, &session).raw("</bdi></h1>\n<p>");
    state(live, &session);
    live.raw(" ").text(counted(session.turn_count, "turn", "turns")).raw(" <span class=\"soft\">");
    facts(live, &session);
    live.raw("</span></p>\n<h2>Turns, newest first</h2>\n");
    if turns.is_empty() {
        live.raw("<p>There are no more.</p>\n");
    }
    live.raw("<ul class=\"list\">\n");
    turns.iter().for_each(|turn| entry(live, turn));
    live.raw("</ul>\n");
    if let Some(last) = turns.last().filter(|_| has_more) {
        live.raw("<p><a href=\"/sessions/").text(id).raw("?before=").text(last.line.turn);
        live.raw("\">Older turns</a></p>\n");
    }
    forms(&mut page.foot, visitor, id, session.closed_ms.is_none());
    Ok(page)
}

fn entry(html: &mut Html, turn: &TurnView) {
    let line = &turn.line;
    html.raw("<li><a class=\"main\" href=\"/turns/").text(line.turn).raw("\">Turn ").text(line.turn);
    html.raw("</a> ");
    kind(html, turn);
    if let Some(request) = turn.requests.first() {
        html.raw("<span class=\"soft when\">").text(moment(request.received_ms)).raw(" UTC</span>");
    }
    if let Some(said) = &line.said {
        excerpt(html, ("saw", "User"), said);
    }
    let answer = turn.requests.iter().flat_map(|request| &request.answers).next_back();
    if let Some(text) =
        answer.and_then(|answer| answer.text.as_deref()).filter(|text| !text.trim().is_empty())
    {
        excerpt(html, ("said", "Answer"), text);
    }
    html.raw("<div class=\"soft\">");
    links(html, turn);
    html.raw("</div>");
    judged(html, turn);
    fate(html, turn);
    html.raw("</li>\n");
}

/// The beginning of what somebody said.
fn excerpt(html: &mut Html, (class, who): (&'static str, &'static str), text: &str) {
    let (text, is_cut) = beginning(text.trim(), EXCERPT);
    html.raw("<p class=\"").raw(class).raw("\"><b>").raw(who).raw("</b> <bdi>").text(text);
    html.raw(if is_cut { "\u{2026}</bdi></p>" } else { "</bdi></p>" });
}

/// What kind of turn, in which state.
pub(super) fn kind(html: &mut Html, turn: &TurnView) {
    let line = &turn.line;
    html.raw("<span class=\"tag\">").text(&line.kind).raw("</span> <span class=\"tag\">").text(&line.state);
    html.raw("</span> ");
    if line.deleted_ms.is_some() {
        html.raw("<span class=\"tag bad\">deleted</span> ");
    }
    if let Some(mark) = &line.mark {
        html.raw("<bdi class=\"soft\">").text(mark).raw("</bdi> ");
    }
}

/// Turns that it hangs together with.
pub(super) fn links(html: &mut Html, turn: &TurnView) {
    let line = &turn.line;
    html.raw("epoch ").text(line.epoch);
    for (name, other) in [("goes on from", line.parent), ("another try of", line.sibling)] {
        if let Some(other) = other {
            html.raw(", ")
                .text(name)
                .raw(" <a href=\"/turns/")
                .text(other)
                .raw("\">turn ")
                .text(other)
                .raw("</a>");
        }
    }
    match &turn.next_state {
        Some(next) => {
            html.raw(", <a href=\"/turns/").text(line.turn).raw("#next\">next state</a> in request ");
            html.text(next.request)
        }
        None if line.ended_without_next_state => html.raw(", its session ended without a next state"),
        None => html.raw(", no next state"),
    };
}

/// Feedback, votes and reward, in short.
fn judged(html: &mut Html, turn: &TurnView) {
    if turn.feedback.is_empty() && turn.votes.is_empty() && turn.reward.is_none() {
        return;
    }
    for feedback in &turn.feedback {
        html.raw("<div>").raw(thumb(feedback.thumb));
        if let Some(text) = &feedback.text {
            html.raw(" <bdi>").text(beginning(text, EXCERPT).0).raw("</bdi>");
        }
        html.raw("</div>");
    }
    if !turn.votes.is_empty() || turn.reward.is_some() {
        html.raw("<div>").text(counted(turn.votes.len() as u64, "vote", "votes"));
        for (place, vote) in turn.votes.iter().enumerate() {
            html.raw(if place == 0 { ": " } else { ", " }).raw(score(vote.score));
        }
        if let Some(reward) = &turn.reward {
            html.raw("; reward ").text(reward.value);
        }
        html.raw("</div>");
    }
    for hint in turn.votes.iter().filter_map(|vote| vote.hint.as_deref()) {
        html.raw("<div class=\"soft\"><bdi>hint: ").text(beginning(hint, EXCERPT).0).raw("</bdi></div>");
    }
}

/// What became of it in training.
pub(super) fn fate(html: &mut Html, turn: &TurnView) {
    let fate = Fate::of(turn);
    html.raw("<div class=\"fate\"><b>").text(fate.word()).raw(":</b> ");
    for (place, word) in fate.words().iter().enumerate() {
        html.raw(if place > 0 { "; " } else { "" }).raw("<bdi>").text(word).raw("</bdi>");
    }
    html.raw("</div>");
}

pub(super) fn thumb(thumb: Option<i64>) -> &'static str {
    match thumb {
        Some(1) => "<span class=\"tag good\">good</span>",
        Some(-1) => "<span class=\"tag bad\">bad</span>",
        Some(_) => "<span class=\"tag\">neither good nor bad</span>",
        None => "",
    }
}

pub(super) fn score(score: Option<i64>) -> &'static str {
    match score {
        Some(1) => "+1",
        Some(-1) => "-1",
        Some(_) => "0",
        None => "no score",
    }
}

fn forms(html: &mut Html, visitor: &Visitor, id: SessionId, is_open: bool) {
    html.raw("<h2>Do</h2>\n");
    if is_open {
        html.raw("<form method=\"post\" action=\"/sessions/").text(id).raw("/close\">");
        document::proof(html, visitor);
        html.raw("<button>Close the session</button></form>\n");
    }
    html.raw("<details id=\"delete\"><summary>Delete the session\u{2026}</summary><p>All that was said in it is overwritten. ");
    html.raw("It cannot be taken back; weights that were trained on it stay what they are.</p>");
    html.raw("<form method=\"post\" action=\"/sessions/").text(id).raw("/delete\">");
    document::proof(html, visitor);
    html.raw("<button class=\"bad\">Delete the session</button></form></details>\n");
}
