//! Checks of pages, of the browser's storage, and of the requests to the sites, made while all of them still exist.

use clawrl_core::{
    Boundary, CheckReport, CheckSpec, ElementPattern, Fault, PageCheck, StorageArea, TextPattern,
};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::browser::lost;
use crate::browser_session::BrowserSession;
use crate::page::{PageError, within};
use crate::site::{LoggedRequest, Matching};

/// A check's score, and an explanation.
type CheckResult = (f64, String);

/// Evaluates one check.
///
/// # Errors
/// A grader [`Fault`]: the page does not answer, or the check cannot be evaluated.
pub(crate) async fn judge(
    session: &BrowserSession,
    spec: &CheckSpec,
    check: &PageCheck,
) -> Result<CheckReport, Fault> {
    let (score, message) =
        found(session, check).await.map_err(|fault| Fault { boundary: Boundary::Grader, ..fault })?;
    Ok(CheckReport { label: spec.label.clone(), score, weight: spec.weight, message })
}

async fn found(session: &BrowserSession, check: &PageCheck) -> Result<CheckResult, Fault> {
    let page = session.page();
    match check {
        PageCheck::Script { run, equals } => {
            Ok(match within(page.run(run, 0)).await.map_err(PageError::fault)? {
                Err(why) => (0.0, format!("the script failed: {why}")),
                Ok(value) if same(&value, equals) => (1.0, format!("the script returned {equals}")),
                Ok(value) => (0.0, format!("the script returned {value}, expected {equals}")),
            })
        }
        PageCheck::Reward { expression, lowest, highest } => {
            let value = match within(page.evaluate(expression)).await.map_err(PageError::fault)? {
                Ok(value) => value,
                Err(why) => return Ok((0.0, format!("the page has no reward: {why}"))),
            };
            let Some(reward) = value.as_f64().filter(|reward| reward.is_finite()) else {
                return Ok((0.0, format!("the page's reward is not a number: {value}")));
            };
            let score = ((reward - lowest) / (highest - lowest)).clamp(0.0, 1.0);
            Ok((score, format!("the page's reward is {reward}")))
        }
        PageCheck::Element { selector, with, at_least, at_most } => {
            #[derive(Deserialize)]
            struct Answer {
                elements: Option<Vec<Element>>,
                #[serde(default)]
                total: u32,
            }
            let answer: Answer =
                within(page.call("elements", json!([selector]))).await.map_err(PageError::fault)?;
            let Answer { elements, total } = answer;
            let Some(elements) = elements else {
                return Err(invalid(format!("`{selector}` is not a CSS selector")));
            };
            let mut count = 0;
            for element in &elements {
                count += u32::from(element.fits(with)?);
            }
            let what = format!("of {total} elements that `{selector}` finds, {count} are as wanted");
            // Elements beyond the limit never improve the score.
            let unseen = total.saturating_sub(elements.len() as u32);
            Ok(match at_most.filter(|&most| count + unseen > most) {
                Some(most) => {
                    (0.0, format!("{what}, and {unseen} were not looked at; at most {most} wanted"))
                }
                None => counted(count, *at_least, *at_most, &what),
            })
        }
        PageCheck::Url(pattern) => {
            let view = page.observe(&[]).await.map_err(PageError::fault)?;
            compared("the address", Some(&view.url), Some(pattern))
        }
        PageCheck::Storage { area, origin, key, value } => {
            if let Some(origin) = origin {
                let view = page.observe(&[]).await.map_err(PageError::fault)?;
                let is_there = view.url == *origin
                    || view.url.starts_with(&format!("{}/", origin.trim_end_matches('/')));
                if !is_there {
                    return Ok((
                        0.0,
                        format!("the active page is {}, whose storage is not that of {origin}", view.url),
                    ));
                }
            }
            let area = match area {
                StorageArea::Local => "local",
                StorageArea::Session => "session",
            };
            let kept: Value =
                within(page.call("storage", json!([area, key]))).await.map_err(PageError::fault)?;
            match kept["error"].as_str() {
                Some(why) => Ok((0.0, format!("{area} storage cannot be read: {why}"))),
                None => {
                    compared(&format!("`{key}` in {area} storage"), kept["value"].as_str(), value.as_ref())
                }
            }
        }
        PageCheck::Cookie { name, value } => {
            let kept = session.cookies().await?;
            let mut same_name = kept.iter().filter(|(kept, _)| kept == name);
            let what = format!("cookie `{name}`");
            match value {
                None => compared(&what, same_name.next().map(|(_, value)| value.as_str()), None),
                Some(pattern) => {
                    let mut last = compared(&what, None, Some(pattern))?;
                    for (_, value) in same_name {
                        last = compared(&what, Some(value), Some(pattern))?;
                        if last.0 >= 1.0 {
                            break;
                        }
                    }
                    Ok(last)
                }
            }
        }
        PageCheck::Requested { site, request, at_least, at_most } => {
            let Some(sites) = &session.sites else { return Err(invalid("no page was opened".to_owned())) };
            let Matching { surely, perhaps } = sites.matching(site.as_deref(), request);
            // Content that was too large to be kept never improves the score.
            let most = at_most.filter(|&most| surely + perhaps > most);
            let what = match perhaps {
                0 => format!("{surely} requests are as wanted"),
                _ => format!(
                    "{surely} requests are as wanted, and {perhaps} more may be, whose bodies were too large to keep"
                ),
            };
            let (score, message) = match most {
                Some(most) => (0.0, format!("{what}; at most {most} wanted")),
                None => counted(surely, *at_least, *at_most, &what),
            };
            Ok((
                score,
                if score >= 1.0 { message } else { format!("{message}; {}", asked(&sites.requests())) },
            ))
        }
        PageCheck::Downloaded { .. } => {
            Err(invalid("downloads are checked after the browser has ended".to_owned()))
        }
        other => Err(invalid(format!("unknown check: {other:?}"))),
    }
}

/// The last few requests to the sites, to explain a failed check.
fn asked(requests: &[LoggedRequest]) -> String {
    const FEW: usize = 5;
    if requests.is_empty() {
        return "no site was asked for anything".to_owned();
    }
    let one = |request: &LoggedRequest| {
        let status = request.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        format!("{} {} ({status})", request.method, request.path)
    };
    let few: Vec<String> = requests.iter().rev().take(FEW).rev().map(one).collect();
    format!("of {} requests the last were {}", requests.len(), few.join(", "))
}

/// Compares a text with the expected one; without a pattern, the text must not exist.
pub(crate) fn compared(
    what: &str,
    found: Option<&str>,
    pattern: Option<&TextPattern>,
) -> Result<CheckResult, Fault> {
    Ok(match (found, pattern) {
        (None, None) => (1.0, format!("{what} is not there")),
        (Some(found), None) => (0.0, format!("{what} is {}, expected nothing", shown(found))),
        (None, Some(_)) => (0.0, format!("{what} is not there")),
        (Some(found), Some(pattern)) => match fits(found, pattern)? {
            true => (1.0, format!("{what} is as wanted")),
            false => (0.0, format!("{what} is {}", shown(found))),
        },
    })
}

fn counted(count: u32, at_least: u32, at_most: Option<u32>, what: &str) -> CheckResult {
    let passes = count >= at_least && at_most.is_none_or(|most| count <= most);
    let wanted = match at_most {
        Some(most) if most == at_least => format!("{most} wanted"),
        Some(most) => format!("{at_least} to {most} wanted"),
        None => format!("at least {at_least} wanted"),
    };
    (if passes { 1.0 } else { 0.0 }, format!("{what}; {wanted}"))
}

fn fits(text: &str, pattern: &TextPattern) -> Result<bool, Fault> {
    Ok(match pattern {
        TextPattern::Equals(expected) => text == expected,
        TextPattern::Contains(part) => text.contains(part),
        TextPattern::Matches(regex) => {
            let regex = Regex::new(regex).map_err(|error| invalid(format!("`{regex}`: {error}")))?;
            regex.is_match(text)
        }
    })
}

/// An element, as reported by the page's script.
#[derive(Debug, Deserialize)]
struct Element {
    text: String,
    value: Option<String>,
    attributes: std::collections::BTreeMap<String, String>,
    checked: Option<bool>,
    visible: bool,
}

impl Element {
    fn fits(&self, with: &ElementPattern) -> Result<bool, Fault> {
        let has = |found: Option<&String>, pattern: &TextPattern| match found {
            Some(found) => fits(found, pattern),
            None => Ok(false),
        };
        for (name, pattern) in &with.attributes {
            if !has(self.attributes.get(name), pattern)? {
                return Ok(false);
            }
        }
        if let Some(pattern) = &with.text
            && !fits(&self.text, pattern)?
        {
            return Ok(false);
        }
        if let Some(pattern) = &with.value
            && !has(self.value.as_ref(), pattern)?
        {
            return Ok(false);
        }
        let checked = with.checked.is_none_or(|checked| self.checked.unwrap_or_default() == checked);
        Ok(checked && with.visible.is_none_or(|visible| self.visible == visible))
    }
}

/// Whether two JSON values are equal, numbers by value.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        _ => one == other,
    }
}

fn shown(text: &str) -> String {
    const MAX_SHOWN: usize = 200;
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("\"{}…\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}

pub(crate) fn invalid(message: String) -> Fault {
    Fault::permanent(Boundary::Grader, "invalid-check", message)
}

impl BrowserSession {
    /// Names and values of all cookies of the attempt.
    async fn cookies(&self) -> Result<Vec<(String, String)>, Fault> {
        let question = json!({ "partition": { "type": "storageKey", "userContext": self.context() } });
        let kept = self.browser.bidi.command("storage.getCookies", question).await.map_err(lost)?;
        let pair = |cookie: &Value| {
            let value = cookie["value"]["value"].as_str().unwrap_or_default();
            Some((cookie["name"].as_str()?.to_owned(), value.to_owned()))
        };
        Ok(kept["cookies"].as_array().into_iter().flatten().filter_map(pair).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared() {
        let check = |found: Option<&str>, pattern: Option<TextPattern>, expected: f64| {
            assert_eq!(compared("it", found, pattern.as_ref()).unwrap().0, expected, "{found:?} {pattern:?}");
        };
        check(None, None, 1.0);
        check(Some("x"), None, 0.0);
        check(None, Some(TextPattern::Contains(String::new())), 0.0);
        check(Some("abc"), Some(TextPattern::Equals("abc".to_owned())), 1.0);
        check(Some("abc"), Some(TextPattern::Equals("ab".to_owned())), 0.0);
        check(Some("abc"), Some(TextPattern::Contains("bc".to_owned())), 1.0);
        check(Some("abc"), Some(TextPattern::Matches("^a.c$".to_owned())), 1.0);
        let broken = compared("it", Some("x"), Some(&TextPattern::Matches("(".to_owned()))).unwrap_err();
        assert_eq!(broken.code, "invalid-check");
    }

    #[test]
    fn counts_have_bounds() {
        assert_eq!(counted(0, 1, None, "it").0, 0.0);
        assert_eq!(counted(1, 1, None, "it").0, 1.0);
        assert_eq!(counted(2, 0, Some(1), "it").0, 0.0);
        assert_eq!(counted(0, 0, Some(0), "it").0, 1.0);
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(same(&json!({ "a": [1, 2.0] }), &json!({ "a": [1.0, 2] })));
        assert!(!same(&json!([1]), &json!([1, 1])));
        assert!(!same(&json!("1"), &json!(1)));
    }
}
