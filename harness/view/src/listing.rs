//! The page of all runs.
//!
//! The page uses an external style sheet and no script. All foreign text is escaped.

use std::fmt::Write;
use std::path::Path;

use clawrl_core::RunId;
use clawrl_record::{PAGE_STYLE, PassRate, RunInfo, RunState, escape_html, percent};
use clawrl_report::{STATS_STYLE, part_of, policy_and_model, state_word, time};

/// Reasons stay visible if the table is wider than the screen.
const STYLE: &str = "main{max-width:1200px}.runs th,.runs td{text-align:left;vertical-align:top}.runs .number{text-align:right}\
                     .runs .problem td{padding-left:16px;white-space:normal;overflow:visible}\
                     .problem bdi{display:inline-block;position:sticky;left:16px;max-width:min(85vw,1100px);overflow-wrap:anywhere}";

/// The style sheet.
pub(super) fn style() -> String {
    format!("{PAGE_STYLE}\n{STATS_STYLE}\n{STYLE}")
}

/// The page. `runs` as the store lists them; `has_page`: whether there is a page about a training.
pub(super) fn page(dir: &Path, runs: &[RunInfo], has_page: impl Fn(&RunId) -> bool) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/style.css\"><title>Runs - ClawRL</title></head><body><main>\n<h1>Runs</h1>\n\
         <p class=\"sub\">in <code><bdi>{}</bdi></code>, the latest first; times are in UTC</p>\n",
        escape_html(&dir.display().to_string())
    );
    let (parts, own): (Vec<&RunInfo>, Vec<&RunInfo>) =
        runs.iter().partition(|info| part_of(info, runs).is_some());
    if own.is_empty() {
        page.push_str("<p>There are no runs yet. <code>clawrl run SUITE</code> makes one.</p>\n");
    } else {
        table(&mut page, &own, &has_page);
    }
    if !parts.is_empty() {
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            page,
            "<details><summary>Runs of trainings: demonstrations and evaluations ({})</summary>",
            parts.len()
        );
        table(&mut page, &parts, &has_page);
        page.push_str("</details>\n");
    }
    page.push_str("</main></body></html>\n");
    page
}

fn table(page: &mut String, runs: &[&RunInfo], has_page: &dyn Fn(&RunId) -> bool) {
    page.push_str(
        "<div class=\"wide\"><table class=\"runs\"><thead><tr><th>run<th class=\"number\">passed<th>95 % interval\
         <th class=\"number\">faults<th>state<th>suites<th>policy<th>began<th class=\"number\">closed<th class=\"number\">cost</tr></thead><tbody>\n",
    );
    for info in runs {
        row(page, info, has_page);
    }
    page.push_str("</tbody></table></div>\n");
}

fn row(page: &mut String, info: &RunInfo, has_page: &dyn Fn(&RunId) -> bool) {
    let run = escape_html(info.run.as_str());
    let is_readable = !matches!(info.state, RunState::Damaged | RunState::Unreadable);
    let mut name = if is_readable { format!("<a href=\"/runs/{run}/\">{run}</a>") } else { run.clone() };
    if info.is_training && is_readable {
        name += &match has_page(&info.run) {
            true => format!(" <a class=\"soft\" href=\"/runs/{run}/training\">training</a>"),
            false => " <span class=\"soft\">training</span>".to_owned(),
        };
    }
    let unknown = || "?".to_owned();
    let policy = info.policy.as_ref().map_or_else(unknown, policy_and_model);
    let state_class = match info.state {
        RunState::Finished | RunState::Running => "",
        RunState::Interrupted => "fault",
        RunState::Damaged | RunState::Unreadable => "failed",
    };
    let (value, reach) = match info.pass_rate {
        Some(PassRate { value, low, high }) => {
            (percent(value), format!("{} to {}", percent(low), percent(high)))
        }
        None => ("n/a".to_owned(), String::new()),
    };
    let faults = if info.faulted > 0 {
        format!("<span class=\"fault\">{}</span>", info.faulted)
    } else {
        "0".to_owned()
    };
    let _ = writeln!(
        page,
        "<tr><td>{name}<td class=\"number\">{value}<td>{reach}<td class=\"number\">{faults}<td class=\"{state_class}\">{}\
         <td><bdi>{}</bdi><td><bdi>{}</bdi><td>{}<td class=\"number\">{}/{}<td class=\"number\">{}</tr>",
        state_word(info.state),
        escape_html(&info.suites.join(", ")),
        escape_html(&policy),
        info.started_ms.map_or_else(unknown, time),
        info.closed,
        info.slots,
        info.cost_nano_usd.map_or_else(String::new, dollars),
    );
    for what in info.problem.iter().chain(&info.fall) {
        let class = if info.problem.as_ref() == Some(what) { "failed" } else { "fault" };
        let _ = writeln!(
            page,
            "<tr class=\"problem\"><td colspan=\"10\" class=\"{class}\"><bdi>{}</bdi></tr>",
            escape_html(what)
        );
    }
}

/// An amount; from one dollar on, in whole cents.
fn dollars(nano: u64) -> String {
    let dollars = nano as f64 / 1e9;
    if dollars < 1.0 { format!("${dollars:.4}") } else { format!("${dollars:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(run: &str, change: impl FnOnce(&mut RunInfo)) -> RunInfo {
        let mut info = RunInfo {
            run: RunId::new(run).unwrap(),
            started_ms: Some(1_795_680_000_123),
            state: RunState::Finished,
            slots: 10,
            closed: 10,
            faulted: 0,
            passed: 8,
            pass_rate: Some(PassRate { value: 0.8, low: 0.49, high: 0.943 }),
            cost_nano_usd: None,
            policy: Some(clawrl_core::PolicySpec::Oracle),
            suites: vec!["terminal-basics".to_owned()],
            fall: None,
            is_training: false,
            size_bytes: Some(1),
            problem: None,
        };
        change(&mut info);
        info
    }

    fn shown(runs: &[RunInfo]) -> String {
        page(Path::new("/tmp/<b>"), runs, |run| run.as_str() == "trained")
    }

    #[test]
    fn a_run_has_its_figures_and_leads_to_its_report() {
        let page = shown(&[info("one", |info| {
            info.faulted = 2;
            info.cost_nano_usd = Some(1_234_000_000);
        })]);
        for part in [
            "<a href=\"/runs/one/\">one</a>",
            "2026-11-26 08:00",
            ">finished<",
            "terminal-basics",
            "oracle",
            "10/10",
            "80.0 %",
            "49.0 % to 94.3 %",
            "<span class=\"fault\">2</span>",
            "$1.23",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn v5_a_run_that_cannot_be_read_says_why_and_leads_nowhere() {
        let page = shown(&[info("broken", |info| {
            (info.state, info.pass_rate, info.policy) = (RunState::Damaged, None, None);
            info.problem = Some("line 3 of <journal> is damaged".to_owned());
        })]);
        assert!(
            page.contains(">damaged<") && page.contains("line 3 of &lt;journal&gt; is damaged"),
            "{page}"
        );
        assert!(!page.contains("href=\"/runs/"), "{page}");
    }

    #[test]
    fn trainings_have_their_page_and_their_runs_are_folded() {
        let training = |run: &str| info(run, |info| info.is_training = true);
        let page = shown(&[
            training("trained"),
            training("begun"),
            info("trained-eval-000050", |_| {}),
            info("other", |_| {}),
        ]);
        assert!(
            page.contains("href=\"/runs/trained/training\"") && !page.contains("/runs/begun/training"),
            "{page}"
        );
        let (own, parts) = page.split_once("<details>").unwrap();
        assert!(
            own.contains("other")
                && !own.contains("trained-eval-000050")
                && parts.contains("trained-eval-000050"),
            "{page}"
        );
    }

    #[test]
    fn what_others_wrote_is_text() {
        let hostile = "</td><script>alert(1)</script>\"'><img src=x>";
        let page = shown(&[info("one", |info| {
            info.suites = vec![hostile.to_owned()];
            info.problem = Some(hostile.to_owned());
            info.fall = Some(hostile.to_owned());
        })]);
        assert!(
            !page.contains("<script") && !page.contains("<img") && !page.contains("<code><bdi>/tmp/<b>"),
            "{page}"
        );
        assert_eq!(page.matches("&lt;script&gt;alert(1)").count(), 3);
    }

    #[test]
    fn without_runs_the_page_says_how_to_make_one() {
        assert!(shown(&[]).contains("There are no runs yet"));
    }
}
