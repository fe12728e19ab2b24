//! The page as a whole.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clawrl_record::{PAGE_STYLE, Run, duration, escape_html, percent};
use sha2::{Digest, Sha256};

use super::{charts, index, tables};
use crate::block::Extras;
use crate::error::ReportError;
use crate::gather::Gathered;
use crate::stats::RunStats;
use crate::words::{counted, interval_words};

/// Style of pages with statistics, in addition to [`PAGE_STYLE`].
pub const STATS_STYLE: &str = include_str!("style.css");
const VIEWER_STYLE: &str = include_str!("viewer.css");
const SCREEN: &str = include_str!("screen.js");
const TERMINAL: &str = include_str!("terminal.js");
const VIEWER: &str = include_str!("viewer.js");

/// The page.
pub(crate) fn render(run: &Run, figures: &RunStats, gathered: &Gathered<'_>) -> Result<String, ReportError> {
    let style = format!("{PAGE_STYLE}\n{STATS_STYLE}\n{VIEWER_STYLE}");
    let script = format!("{SCREEN}\n{TERMINAL}\n{VIEWER}");
    let (details, extras) = (gathered.blocks.details(), gathered.blocks.extras());
    let bytes = details.iter().map(String::len).chain(extras.iter().map(Extras::len)).sum::<usize>();
    let mut page = String::with_capacity(bytes + bytes / 16 + (1 << 20));
    // Writing to a string does not fail, here and below.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{}'; \
         style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'\">\
         <meta name=\"referrer\" content=\"no-referrer\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{} - ClawRL run</title>\n<style>{style}</style></head><body><main>\n",
        hash(&script),
        hash(&style),
        escape_html(figures.run.as_str()),
    );
    head(&mut page, figures);
    tables::tasks(&mut page, figures, run);
    tables::at_k(&mut page, figures);
    tables::suites(&mut page, figures);
    tables::faults(&mut page, figures);
    phases(&mut page, figures);
    tables::tokens(&mut page, figures);
    tables::groups(&mut page, figures);
    facts(&mut page, run);
    page.push_str("</main>\n");
    viewer(&mut page, gathered);
    block(&mut page, "index", &index::block(run, gathered)?);
    for (chunk, text) in details.iter().enumerate() {
        block(&mut page, &format!("d{chunk}"), text);
    }
    for (chunk, Extras { casts, films }) in extras.iter().enumerate() {
        for (kind, text) in [("c", casts), ("p", films)] {
            if let Some(text) = text {
                block(&mut page, &format!("{kind}{chunk}"), text);
            }
        }
    }
    let _ = write!(page, "<script>{script}</script>\n</body></html>\n");
    Ok(page)
}

/// Hash of a script or style, in the form of content security policies.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

/// Data, which no browser takes for a script.
fn block(page: &mut String, id: &str, text: &str) {
    let _ = writeln!(page, "<script type=\"text/plain\" id=\"{id}\">{text}</script>");
}

fn head(page: &mut String, figures: &RunStats) {
    let _ = write!(page, "<h1>{}</h1>\n<p class=\"sub\">", escape_html(figures.run.as_str()));
    let _ = write!(page, "policy <b>{}</b>, {}", escape_html(&figures.policy), escape_html(&figures.state));
    if let Some(time) = figures.started_ms.and_then(started) {
        let _ = write!(page, ", started {time} UTC");
    }
    let _ = writeln!(page, ", wall time {}</p>", duration(figures.wall_ms.saturating_mul(1_000)));
    for warning in &figures.warnings {
        let _ = writeln!(page, "<p class=\"warning\">{}</p>", escape_html(warning));
    }
    let total = &figures.total;
    page.push_str("<div class=\"figures\">");
    let mut figure = |value: String, label: String| {
        let _ = write!(page, "<div><b>{value}</b>{label}</div>");
    };
    let rate = total.rate.as_ref();
    figure(rate.map_or("n/a".to_owned(), |rate| percent(rate.value)), "pass rate".to_owned());
    figure(
        format!("{} / {}", total.passed, total.finished),
        format!("passed of finished, {} slots", total.slots),
    );
    figure(
        format!("<span class=\"{}\">{}</span>", if total.faulted > 0 { "fault" } else { "" }, total.faulted),
        format!("slots lost to faults; {}", counted(u64::from(total.faulted_attempts), "fault", "faults")),
    );
    figure(total.open.to_string(), "slots open".to_owned());
    figure(
        total.turns.to_string(),
        format!("turns in {}", counted(u64::from(total.attempts), "attempt", "attempts")),
    );
    page.push_str("</div>\n");
    match rate {
        Some(rate) => {
            let _ = writeln!(
                page,
                "<p>{} {}<br><span class=\"soft\">{}. Faults and open slots are excluded.</span></p>",
                tables::headline(rate),
                charts::interval(rate),
                interval_words(rate),
            );
        }
        None => page.push_str("<p>No episode finished, so there is no rate.</p>\n"),
    }
}

fn phases(page: &mut String, figures: &RunStats) {
    if figures.phases.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Latency of finished episodes</h2>\n<p class=\"key\">Four bars per decade.</p>\n\
         <div class=\"phases\">\n",
    );
    for phase in &figures.phases {
        charts::phase(page, phase);
    }
    page.push_str("</div>\n");
}

/// The inputs of the run.
fn facts(page: &mut String, run: &Run) {
    let plan = run.plan();
    let mut rows = vec![("seed".to_owned(), plan.seed.to_string())];
    rows.extend(plan.suites.iter().map(|suite| {
        (format!("suite {}", suite.name), format!("{} (sha256 {})", suite.path.display(), suite.sha256))
    }));
    rows.push(("concurrency".to_owned(), plan.limits.concurrency.to_string()));
    rows.push(("retries per slot".to_owned(), plan.limits.max_retries.to_string()));
    if let Ok(lock) = run.lock_file() {
        rows.push(("program".to_owned(), lock.program));
        rows.extend(lock.host);
    }
    page.push_str("<h2>Facts</h2>\n<table class=\"facts\"><tbody>\n");
    for (label, text) in rows {
        let _ = writeln!(page, "<tr><th>{}<td>{}</tr>", escape_html(&label), escape_html(&text));
    }
    page.push_str("</tbody></table>\n");
}

fn viewer(page: &mut String, gathered: &Gathered<'_>) {
    page.push_str("<section id=\"viewer\"><h2>Attempts</h2>\n");
    if gathered.attempts.is_empty() {
        page.push_str("<p>No attempt finished.</p>\n");
    }
    let place = |chunks: usize| {
        gathered.chunks[..chunks.min(gathered.chunks.len())].last().map_or(0, |range| range.end)
    };
    let (shown, replayed) = (place(gathered.blocks.details().len()), place(gathered.blocks.extras().len()));
    let all = gathered.attempts.len();
    let lost_casts = (replayed..all).filter(|&at| gathered.blocks.has_cast(at)).count();
    if lost_casts > 0 {
        let _ = writeln!(
            page,
            "<p class=\"warning\">To keep the page small, {} of passed attempts are omitted: \
             <code>clawrl report RUN --casts DIR</code> exports them, <code>--page-mib</code> raises the limit.</p>",
            counted(lost_casts as u64, "terminal recording", "terminal recordings"),
        );
    }
    if shown < all {
        let _ = writeln!(
            page,
            "<p class=\"warning\">To keep the page small, {} are listed without their turns: \
             <code>--page-mib</code> raises the limit.</p>",
            counted((all - shown) as u64, "attempt", "attempts"),
        );
    }
    page.push_str(
        "<noscript><p>The list of attempts and the terminal player need JavaScript.</p></noscript>\n\
         <p id=\"trouble\" class=\"failed\"></p>\n\
         <div id=\"attempts\" hidden><div class=\"filters\">\
         <label>Show <select id=\"kind\"><option value=\"\">all</option><option>passed</option><option>failed</option>\
         <option>fault</option><option>cancelled</option></select></label>\
         <label>Task <input id=\"task\" type=\"search\" placeholder=\"part of its name\"></label>\
         <span id=\"count\" class=\"soft\"></span></div>\n\
         <div class=\"columns\"><div id=\"list\" class=\"list\"><table><thead><tr><th>attempt<th>task<th>ending<th>score<th>turns\
         <th>time</tr></thead><tbody id=\"rows\"></tbody></table><button id=\"more\" hidden></button></div>\n\
         <article id=\"attempt\"><p class=\"soft\">Choose an attempt.</p></article></div></div></section>\n",
    );
}

/// `2026-11-22 08:00:00`.
fn started(ms: u64) -> Option<String> {
    let at = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())?;
    Some(at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
