//! `/turns/N`: all that is known of a turn.

use axum::http::StatusCode;

use super::conversation::{Conversation, call, text};
use super::document::{self, NoPage, Page};
use super::html::{Html, beginning, counted, moment};
use super::login::Visitor;
use super::session::{fate, kind, links, score, thumb};
use crate::api::gateway::Gateway;
use crate::{AnswerView, RequestView, TurnId, TurnView};

/// Tokens that are listed.
const TOKENS: usize = 2_000;

pub(super) async fn page(
    gateway: &Gateway,
    visitor: &Visitor,
    id: TurnId,
    upto: Option<usize>,
) -> Result<Page, NoPage> {
    let (turn, next) = gateway.recorder.turn_with_next(&visitor.user, id).await?;
    let visitor = visitor.clone();
    // A body may have megabytes: to read it here would hold up answers that are on their way.
    let shown = tokio::task::spawn_blocking(move || shown(&visitor, &turn, next.as_deref(), upto)).await;
    shown.map_err(|_| NoPage::new(StatusCode::INTERNAL_SERVER_ERROR, "The page could not be made."))
}

fn shown(visitor: &Visitor, turn: &TurnView, next: Option<&str>, upto: Option<usize>) -> Page {
    let (id, session) = (turn.line.turn, turn.session);
    let title = format!("Turn {id}");
    let mut page = Page { title, session: Some(session), turn: Some(id), ..Page::default() };
    page.head.raw("<h1>Turn ").text(id).raw("</h1>\n<p>in <a href=\"/sessions/").text(session);
    page.head.raw("\">session ").text(session).raw("</a></p>\n");
    let html = &mut page.live;
    html.raw("<p>");
    kind(html, turn);
    html.raw("<span class=\"soft\">");
    links(html, turn);
    html.raw("</span></p>\n");
    fate(html, turn);
    said(html, turn);
    let last = turn.requests.len().saturating_sub(1);
    for (place, request) in turn.requests.iter().enumerate() {
        self::request(html, turn, request, upto, place == last);
    }
    next_state(html, turn, next);
    feedback(html, turn);
    votes(html, turn);
    samples(html, turn);
    if turn.line.deleted_ms.is_none() {
        forms(&mut page.foot, visitor, id);
    }
    page
}

/// What the user said, before all that a client sends with it.
fn said(html: &mut Html, turn: &TurnView) {
    let body = turn.requests.last().and_then(|request| request.body.as_deref());
    if let Some((said, is_new)) =
        body.and_then(Conversation::read).and_then(|conversation| conversation.said())
    {
        html.raw("<h2>User</h2>\n");
        if !is_new {
            html.raw("<p class=\"soft\">The turn goes on from what tools or the client reported. The user\u{2019}s last message before that:</p>\n");
        }
        text(html, "saw", &said);
    }
}

fn request(html: &mut Html, turn: &TurnView, request: &RequestView, upto: Option<usize>, is_last: bool) {
    let number = request.request;
    html.raw("<h2>Request ").text(number);
    html.raw(if request.is_retry { ", once more</h2>\n" } else { "</h2>\n" });
    html.raw("<p class=\"soft\">").text(moment(request.received_ms)).raw(" UTC, ").text(&request.endpoint);
    html.raw(", ").text(&request.state);
    if let Some(why) = &request.reason {
        html.raw(": <bdi>").text(why).raw("</bdi>");
    }
    if let Some(model) = &request.model {
        html.raw(", asked for <bdi>").text(beginning(model, 200).0).raw("</bdi>");
    }
    for (label, count) in
        [("tokens fed", request.prompt_tokens), ("tokens answered", request.completion_tokens)]
    {
        if let Some(count) = count {
            html.raw(", ").text(count).raw(" ").raw(label);
        }
    }
    if let Some(wait) = request.first_token_after_ms {
        html.raw(", first token after ").text(wait).raw(" ms");
    }
    html.raw("</p>\n");
    redacted(html, &request.redacted);
    match request.body.as_deref().map(Conversation::read) {
        None => {
            html.raw("<p>Its words are deleted.</p>\n");
        }
        Some(None) => {
            html.raw("<p>Its body cannot be read.</p>\n");
        }
        // Retries repeat it: the words of the last one are enough.
        Some(Some(_)) if !is_last => {
            html.raw("<p class=\"soft\">The same history as in the last request of this turn.</p>\n");
        }
        Some(Some(conversation)) => words(html, turn, request, (&conversation, upto)),
    }
    request.answers.iter().for_each(|answer| self::answer(html, answer));
}

fn words(
    html: &mut Html,
    turn: &TurnView,
    request: &RequestView,
    (conversation, upto): (&Conversation, Option<usize>),
) {
    let count = conversation.count();
    let mut shown = Html::default();
    let first = conversation.show(&mut shown, upto);
    html.raw("<details id=\"conversation\"").raw(if upto.is_some() { " open" } else { "" });
    html.raw("><summary>The conversation as it was sent: ")
        .text(counted(count as u64, "message", "messages"))
        .raw("</summary>\n");
    if first > 0 {
        html.raw("<p><a href=\"/turns/").text(turn.line.turn).raw("?upto=").text(first);
        html.raw("\">").text(first).raw(" earlier messages</a> of ").text(count).raw("</p>\n");
    }
    html.part(&shown);
    if upto.is_some_and(|upto| upto < count) {
        html.raw("<p><a href=\"/turns/").text(turn.line.turn).raw("\">To the last message</a></p>\n");
    }
    html.raw("</details>\n");
    let tools = conversation.tools();
    if !tools.is_empty() {
        html.raw("<details id=\"tools\"><summary>").text(tools.len()).raw(" tools offered</summary><p>");
        for tool in tools.iter().take(200) {
            html.raw("<code><bdi>").text(beginning(tool, 200).0).raw("</bdi></code> ");
        }
        html.raw("</p></details>\n");
    }
    if !request.headers.is_empty() || !request.sampling.is_null() {
        html.raw("<details id=\"asked\"><summary>Headers and sampling that were asked for</summary>");
        for (name, value) in &request.headers {
            html.raw("<p><code>")
                .text(name)
                .raw(": <bdi>")
                .text(beginning(value, 500).0)
                .raw("</bdi></code></p>");
        }
        text(html, "saw", &request.sampling.to_string());
        html.raw("</details>\n");
    }
}

fn answer(html: &mut Html, answer: &AnswerView) {
    html.raw("<h3>Answer ").text(answer.choice + 1).raw("</h3>\n<div class=\"message\">");
    redacted(html, &answer.redacted);
    if let Some(reasoning) = answer.reasoning.as_deref().filter(|reasoning| !reasoning.is_empty()) {
        html.raw("<div class=\"soft\">reasoning</div>\n");
        text(html, "reasoning", reasoning);
    }
    match answer.text.as_deref() {
        Some(words) if !words.is_empty() => text(html, "said", words),
        Some(_) => {}
        None => {
            html.raw("<p>Its words are deleted.</p>\n");
        }
    }
    for one in answer.calls.as_array().map_or(&[][..], Vec::as_slice) {
        let field = |name: &str| one[name].as_str().unwrap_or("?");
        call(html, field("name"), field("arguments"));
    }
    html.raw("</div>\n<p class=\"soft\">ended by ").text(&answer.finish_reason);
    for (name, value) in [("temperature", answer.temperature), ("top_p", answer.top_p)] {
        if let Some(value) = value {
            html.raw(", ").raw(name).raw(" ").text(value);
        }
    }
    if let Some(top_k) = answer.top_k {
        html.raw(", top_k ").text(top_k);
    }
    if let Some(seed) = answer.seed {
        html.raw(", seed ").text(seed);
    }
    if let Some(adapter) = &answer.adapter {
        html.raw(", adapter <bdi>").text(adapter).raw("</bdi>");
    }
    match &answer.inexact {
        None => html.raw(". Its tokens and log-probabilities are exactly what was sampled.</p>\n"),
        Some(why) => html.raw(". It cannot be trained: <bdi>").text(why).raw("</bdi>.</p>\n"),
    };
    tokens(html, answer);
}

fn tokens(html: &mut Html, answer: &AnswerView) {
    let AnswerView { sampled_ids, logprobs, .. } = answer;
    if sampled_ids.is_empty() {
        return;
    }
    let count = sampled_ids.len();
    html.raw("<p>").text(count).raw(" tokens");
    let sum: f64 = logprobs.iter().map(|logprob| f64::from(*logprob)).sum();
    if let Some(least) = logprobs.iter().copied().reduce(f32::min) {
        let mean = format!("{:.3}", sum / logprobs.len() as f64);
        html.raw("; log-probability ")
            .text(mean)
            .raw(" on average, ")
            .text(format!("{least:.3}"))
            .raw(" at least");
    }
    let segments = answer.versions.as_array().map_or(&[][..], Vec::as_slice);
    for (place, segment) in segments.iter().enumerate() {
        let first = segment[0].as_u64().unwrap_or_default();
        let end = segments.get(place + 1).and_then(|next| next[0].as_u64()).unwrap_or(count as u64);
        html.raw("; ")
            .text(first)
            .raw(" to ")
            .text(end.saturating_sub(1))
            .raw(" by version ")
            .text(&segment[1]);
    }
    html.raw("</p>\n<details class=\"tokens\"><summary>Tokens with their log-probabilities</summary><pre class=\"saw\">");
    for (place, id) in sampled_ids.iter().enumerate().take(TOKENS) {
        html.text(id);
        if let Some(logprob) = logprobs.get(place) {
            html.raw(":").text(format!("{logprob:.3}"));
        }
        html.raw(" ");
    }
    html.raw("</pre>");
    if count > TOKENS {
        html.raw("<p class=\"soft\">").text(count - TOKENS).raw(" more are not shown here.</p>");
    }
    html.raw("</details>\n");
}

fn redacted(html: &mut Html, redacted: &serde_json::Value) {
    let rules = redacted.as_object().into_iter().flatten();
    for (rule, count) in rules {
        html.raw("<p class=\"warning\">Redacted by the rule ")
            .text(rule)
            .raw(": ")
            .text(count)
            .raw(" times.</p>\n");
    }
}

fn next_state(html: &mut Html, turn: &TurnView, body: Option<&str>) {
    html.raw("<h2 id=\"next\">Next state</h2>\n");
    let Some(next) = &turn.next_state else {
        html.raw(if turn.line.ended_without_next_state {
            "<p>The session ended, and nothing came after its answer.</p>\n"
        } else {
            "<p>Nothing has come after its answer.</p>\n"
        });
        return;
    };
    html.raw("<p class=\"soft\">in request ").text(next.request).raw(", after answer ").text(next.choice + 1);
    html.raw(" of request ").text(next.answered).raw(", found by ").text(&next.found_by);
    if next.calls_without_result > 0 {
        html.raw("; calls without a result: ").text(next.calls_without_result);
    }
    html.raw("</p>\n");
    match body.and_then(Conversation::read) {
        Some(conversation) => {
            conversation.show_places(html, &next.messages);
            if next.aside.as_array().is_some_and(|aside| !aside.is_empty()) {
                html.raw("<details id=\"aside\"><summary>Beside it: what the client adds, and is no part of it</summary>");
                conversation.show_places(html, &next.aside);
                html.raw("</details>\n");
            }
        }
        None => {
            html.raw("<p>Its words are deleted.</p>\n");
        }
    }
}

fn feedback(html: &mut Html, turn: &TurnView) {
    html.raw("<h2 id=\"feedback\">Feedback</h2>\n");
    if turn.feedback.is_empty() {
        html.raw("<p>Nobody has said what they think of it.</p>\n");
    }
    for one in &turn.feedback {
        html.raw("<div class=\"message\">")
            .raw(thumb(one.thumb))
            .raw(" <span class=\"soft\">")
            .text(moment(one.at_ms));
        html.raw(" UTC, by ").text(&one.source).raw("</span>");
        if one.deleted_ms.is_some() {
            html.raw(" <span class=\"tag bad\">deleted</span>");
        }
        if let Some(score) = one.score {
            html.raw(" score ").text(score);
        }
        if let Some(emoji) = one.reaction["emoji"].as_str() {
            html.raw(" <bdi>").text(beginning(emoji, 40).0).raw("</bdi>");
        }
        if let Some(words) = &one.text {
            text(html, "saw", words);
        }
        html.raw("</div>\n");
    }
}

fn votes(html: &mut Html, turn: &TurnView) {
    html.raw("<h2>Votes of judges</h2>\n");
    if turn.votes.is_empty() {
        html.raw("<p>No judge has voted.</p>\n");
    }
    for vote in &turn.votes {
        html.raw("<div class=\"message\"><b>").raw(score(vote.score)).raw("</b> <span class=\"soft\"><bdi>");
        html.text(&vote.judge).raw("</bdi>, vote ").text(vote.ballot + 1).raw(", ").text(moment(vote.at_ms));
        html.raw(" UTC</span>");
        if let Some(why) = &vote.reason {
            html.raw(" <bdi>").text(why).raw("</bdi>");
        }
        if let Some(hint) = &vote.hint {
            html.raw("<div class=\"soft\">hint: what the policy should have known</div>");
            text(html, "said", hint);
        }
        text(html, "saw", &vote.raw);
        html.raw("</div>\n");
    }
    if let Some(reward) = &turn.reward {
        html.raw("<p>Reward <b>").text(reward.value).raw("</b>, from <bdi>").text(&reward.source);
        html.raw("</bdi> <span class=\"soft\">").text(moment(reward.at_ms)).raw(" UTC</span></p>\n");
    }
}

fn samples(html: &mut Html, turn: &TurnView) {
    html.raw("<h2>Samples and updates</h2>\n");
    if turn.samples.is_empty() {
        html.raw("<p>No sample was made of it.</p>\n");
    }
    for sample in &turn.samples {
        html.raw("<div class=\"message\">Sample ")
            .text(sample.sample.0)
            .raw(" of answer ")
            .text(sample.choice + 1);
        html.raw(" of request ").text(sample.request).raw(": <span class=\"tag\">").text(&sample.state);
        html.raw("</span>, reward ").text(sample.reward);
        if let Some(why) = &sample.reason {
            html.raw(", <bdi>").text(why).raw("</bdi>");
        }
        if let Some(hint) = &sample.hint {
            html.raw("<div class=\"soft\">hint</div>");
            text(html, "said", hint);
        }
        html.raw("</div>\n");
    }
    for update in &turn.updates {
        // The page that begins with it: of many updates, the first page does not have all.
        html.raw("<p><a href=\"/versions?before=")
            .text(update.update.0.saturating_add(1))
            .raw("#update-")
            .text(update.update.0)
            .raw("\">Update ")
            .text(update.update.0);
        html.raw("</a> of <bdi>")
            .text(&update.adapter)
            .raw("</bdi> from version ")
            .text(update.version_before);
        if let Some(version) = update.version_after {
            html.raw(" to ").text(version);
        }
        html.raw(": ")
            .text(&update.state)
            .raw("; sample ")
            .text(update.sample.0)
            .raw(" was ")
            .text(&update.outcome);
        html.raw("</p>\n");
    }
}

fn forms(html: &mut Html, visitor: &Visitor, id: TurnId) {
    html.raw("<h2>Say what you think</h2>\n<form method=\"post\" action=\"/turns/")
        .text(id)
        .raw("/feedback\">");
    document::proof(html, visitor);
    html.raw("<label for=\"text\">What it should have been, if you like</label><textarea id=\"text\" name=\"text\" rows=\"3\"></textarea>");
    html.raw("<p class=\"buttons\"><button name=\"rating\" value=\"up\">Good</button> ");
    html.raw("<button name=\"rating\" value=\"down\">Bad</button> ");
    html.raw("<button name=\"rating\" value=\"\">Text alone</button></p></form>\n");
    html.raw("<details id=\"delete\"><summary>Delete the turn\u{2026}</summary><p>It is overwritten, and so are the turns behind it in ");
    html.raw("its session, which repeat it. It cannot be taken back; weights that were trained on it stay what they are.</p>");
    html.raw("<form method=\"post\" action=\"/turns/").text(id).raw("/delete\">");
    document::proof(html, visitor);
    html.raw("<button class=\"bad\">Delete the turn and what is behind it</button></form></details>\n");
}
