//! `/`: figures of the server, what was answered lately, and one's sessions.

use super::document::{NoPage, Page};
use super::html::{Html, counted, moment};
use super::login::Visitor;
use crate::api::gateway::Gateway;
use crate::api::hours::LastHour;
use crate::{SessionId, SessionView};

/// Sessions of a page.
const SESSIONS: u32 = 50;

pub(super) async fn page(
    gateway: &Gateway,
    visitor: &Visitor,
    before: Option<SessionId>,
) -> Result<Page, NoPage> {
    // One more tells whether there is another page.
    let wanted = crate::Page { before, limit: SESSIONS + 1 };
    let mut sessions = gateway.recorder.sessions(Some(&visitor.user), wanted).await?;
    let has_more = sessions.len() > SESSIONS as usize;
    sessions.truncate(SESSIONS as usize);
    let mut page = Page { title: "Chats".to_owned(), ..Page::default() };
    page.head.raw("<h1>Chats</h1>\n");
    figures(&mut page.live, gateway);
    last_hour(&mut page.live, gateway, visitor);
    page.live.raw("<h2>Your sessions</h2>\n");
    if sessions.is_empty() {
        page.live.raw(if before.is_some() {
            "<p>There are no older ones.</p>\n"
        } else {
            "<p>Nothing is recorded yet. Chat through <code>/v1/chat/completions</code> with your key, and it stands here.</p>\n"
        });
    }
    page.live.raw("<ul class=\"list\">\n");
    sessions.iter().for_each(|session| entry(&mut page.live, session));
    page.live.raw("</ul>\n");
    if let Some(last) = sessions.last().filter(|_| has_more) {
        page.live.raw("<p><a href=\"/?before=").text(last.session).raw("\">Older sessions</a></p>\n");
    }
    Ok(page)
}

fn figures(html: &mut Html, gateway: &Gateway) {
    let metrics = &gateway.metrics;
    html.raw("<div class=\"figures\">");
    let mut figure = |value: String, label: &str| {
        html.raw("<div><b>").text(value).raw("</b>").text(label).raw("</div>");
    };
    figure(metrics.requests.get().to_string(), "requests since the server began");
    let failures = counted(metrics.failures.get(), "has failed", "have failed");
    figure(metrics.answers.get().to_string(), &format!("answers; {failures}"));
    figure(format!("{:.1}", metrics.recent.rate()), "tokens a second, in the last minute");
    figure(gateway.places.running().to_string(), "answers on their way");
    let wait = |share| match metrics.first_token.within(share) {
        Some(wait) if wait.as_millis() < 1000 => format!("{} ms", wait.as_millis()),
        Some(wait) => format!("{} s", wait.as_secs_f64()),
        None if metrics.first_token.count() == 0 => "none yet".to_owned(),
        None => "over 60 s".to_owned(),
    };
    let (half, most) = (wait(0.5), wait(0.95));
    figure(half, &format!("to the first token at most, in half of the streams; in 95 %: {most}"));
    html.raw("</div>\n");
    if metrics.unrecorded.get() > 0 {
        let calls = counted(metrics.unrecorded.get(), "call", "calls");
        html.raw("<p class=\"warning\">")
            .text(calls)
            .raw(" of the record failed: some chat is not recorded.</p>\n");
    }
}

/// How much was answered lately: one's own, and the sum of all.
fn last_hour(html: &mut Html, gateway: &Gateway, visitor: &Visitor) {
    let hours = &gateway.metrics.hours;
    let mut say = |whose: &'static str, of: LastHour| {
        html.raw(whose).text(counted(of.answers, "answer", "answers")).raw(" with ");
        html.text(counted(of.tokens, "token", "tokens"))
            .raw(", ")
            .text(format!("{:.2}", of.rate))
            .raw(" a second");
    };
    say("<p id=\"hour\">In the last hour, yours: ", hours.last(Some(&visitor.user)));
    say("; of all users: ", hours.last(None));
    html.raw(".</p>\n<p class=\"soft\">Figures are of the whole server, unless they say that they are yours; what is below is yours alone.</p>\n");
}

fn entry(html: &mut Html, session: &SessionView) {
    html.raw("<li><a class=\"main\" href=\"/sessions/").text(session.session).raw("\"><bdi>");
    title(html, session).raw("</bdi></a> <span class=\"when\">");
    html.text(counted(session.turn_count, "turn", "turns")).raw("</span> ");
    state(html, session);
    html.raw("<div class=\"soft\">");
    facts(html, session);
    html.raw("</div></li>\n");
}

/// The user's first words; the number of a session without any.
pub(super) fn title<'a>(html: &'a mut Html, session: &SessionView) -> &'a mut Html {
    match &session.title {
        Some(title) => html.text(title),
        None => html.raw("Session ").text(session.session),
    }
}

/// Number, times, and by what its requests are known.
pub(super) fn facts(html: &mut Html, session: &SessionView) {
    html.raw("session ").text(session.session).raw(", opened <span class=\"when\">");
    html.text(moment(session.opened_ms)).raw(" UTC</span>");
    if let Some(last) = session.last_ms.filter(|last| *last != session.opened_ms) {
        html.raw(", last request <span class=\"when\">").text(moment(last)).raw(" UTC</span>");
    }
    html.raw(", <bdi>").text(&session.user).raw("</bdi>, known by ").text(evidence(&session.evidence));
    html.raw(", epoch ").text(session.epoch);
}

/// Open, or over and why.
pub(super) fn state(html: &mut Html, session: &SessionView) {
    match session.closed_ms {
        None => html.raw("<span class=\"tag good\">open</span>"),
        Some(at) => {
            let why = why(session.why.as_deref().unwrap_or("unknown"));
            html.raw("<span class=\"tag\">over</span> <span class=\"soft\">").text(why).raw(", ");
            html.text(moment(at)).raw(" UTC</span>")
        }
    };
}

/// By what requests of a session are known, in words.
fn evidence(word: &str) -> &str {
    match word {
        "extension" => "our headers",
        "affinity" => "OpenClaw's headers",
        "runtime line" => "a line that OpenClaw adds",
        "user field" => "the user field and the words",
        "content" => "the words alone",
        other => other,
    }
}

fn why(word: &str) -> &str {
    match word {
        "flag" => "the client said so",
        "endpoint" => "closed by request",
        "idle" => "nothing happened for too long",
        "deleted" => "something in it was deleted",
        "not linked again" => "it could not be linked again after a restart",
        other => other,
    }
}
