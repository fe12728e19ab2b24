//! GUI environments, and checks of pages.

use std::collections::BTreeMap;

use clawrl_core::{
    Check, ElementPattern, FixtureContent, GuiSpec, PageCheck, RequestPattern, Route, RouteAnswer,
    SITE_SUFFIX, SiteSpec, TextPattern, asked_by_pages,
};
use minijinja::Value;
use serde_json::Value as Json;

use super::filler::{Filler, Rule, first_line};
use crate::file::Text;
use crate::row::{
    BodyRow, GuiRow, JsonText, PageCheckRow, PatternKind, PatternRow, RequestRow, RouteAnswerRow, RouteRow,
    SiteRow,
};
use crate::value;

impl<'s> Filler<'_, '_, 's> {
    pub(super) fn gui(&mut self, row: &'s GuiRow, values: &Value) -> Option<GuiSpec> {
        let sites: Vec<_> = row.sites.iter().map(|site| self.site(site, values)).collect();
        let origins: Vec<_> =
            row.origins.iter().map(|origin| self.ruled(origin, values, value::origin)).collect();
        let start = self.start(row, values);
        let prepare = self.texts(&row.prepare, values);
        let end_when = self.optional(row.end_when.as_ref(), values);
        let files = self.files_of(&row.files, values);
        let hidden: Vec<_> =
            row.hidden.iter().map(|selector| self.ruled(selector, values, value::not_blank)).collect();
        let start = start?;
        let origins = origins.into_iter().collect::<Option<Vec<_>>>()?;
        self.start_is_reached(row, &start, &origins)?;
        Some(GuiSpec {
            sites: sites.into_iter().collect::<Option<_>>()?,
            origins,
            start,
            prepare: prepare?,
            end_when: end_when?,
            files: files?,
            viewport: row.viewport,
            hidden: hidden.into_iter().collect::<Option<_>>()?,
            screenshots: row.screenshots,
            observation_chars: row.observation_chars,
            show_address: row.show_address,
            settle: row.settle,
            sandbox: row.sandbox,
            memory_mib: row.memory_mib,
        })
    }

    /// As [`clawrl_core::TaskSpec::asked`] has it of the task.
    pub(super) fn asked_by_pages(
        &mut self,
        row: &'s GuiRow,
        instruction: &str,
        values: &Value,
    ) -> Option<String> {
        let (start, prepare) = (self.start(row, values)?, self.texts(&row.prepare, values)?);
        Some(asked_by_pages(instruction, &start, &prepare))
    }

    /// The address of the first page; a path is one of the first site.
    fn start(&mut self, row: &'s GuiRow, values: &Value) -> Option<String> {
        let written = match &row.start {
            Some(start) => self.ruled(start, values, value::start_page)?,
            None => "/".to_owned(),
        };
        if !written.starts_with('/') {
            return Some(written);
        }
        match row.sites.first() {
            Some(site) => Some(format!("http://{}{SITE_SUFFIX}{written}", site.name.value)),
            // Without `start`, that there are no sites is known already.
            None => {
                let start = row.start.as_ref()?;
                let message = format!("`{written}` is a path, and the task has no site");
                self.found(start.span, message, "of which site?", "write an address, or add `sites:`");
                None
            }
        }
    }

    /// The first page is one of a site or of an origin that is allowed: a task that cannot show it is none.
    fn start_is_reached(&mut self, row: &'s GuiRow, start: &str, origins: &[String]) -> Option<()> {
        let of_start = value::origin_of(start);
        let is_site = row.sites.iter().any(|site| {
            of_start.is_some()
                && of_start == value::origin_of(&format!("http://{}{SITE_SUFFIX}", site.name.value))
        });
        if is_site || origins.iter().any(|origin| value::origin_of(origin) == of_start) {
            return Some(());
        }
        let span = row.start.as_ref().or(row.origins.first())?.span;
        let message = format!("`{start}` is neither at a site of this task nor at one of its `origins`");
        let help = "name the site, as in `http://NAME.localhost/`, or add the origin: `origins: [https://example.org]`";
        self.found(span, message, "never reached", help);
        None
    }

    fn site(&mut self, row: &'s SiteRow, values: &Value) -> Option<SiteSpec> {
        let files = self.files_of(&row.files, values);
        let routes: Vec<_> = row.routes.iter().map(|route| self.route(route, values)).collect();
        Some(SiteSpec {
            name: row.name.value.clone(),
            folder: row.folder.clone(),
            files: files?,
            routes: routes.into_iter().collect::<Option<_>>()?,
        })
    }

    fn route(&mut self, row: &'s RouteRow, values: &Value) -> Option<Route> {
        let request = self.request(&row.request, values);
        let answer = self.route_answer(&row.answer, values);
        Some(Route {
            request: request?,
            after: row.after,
            times: row.times,
            delay: row.delay,
            answer: answer?,
        })
    }

    fn route_answer(&mut self, row: &'s RouteAnswerRow, values: &Value) -> Option<RouteAnswer> {
        Some(match row {
            RouteAnswerRow::Respond { status, headers, cookies, body } => {
                let headers = self.headers(headers, values);
                let cookies = self.cookies(cookies, values);
                let (body, kind) = match body {
                    BodyRow::Empty => (Some(FixtureContent::Inline(String::new())), None),
                    BodyRow::Text(text) => (
                        self.text(text, values).map(FixtureContent::Inline),
                        Some("text/html; charset=utf-8"),
                    ),
                    BodyRow::Json(json) => {
                        let json = self.json(json, values).map(|json| json.to_string());
                        (json.map(FixtureContent::Inline), Some("application/json"))
                    }
                    BodyRow::File(content) => (Some(content.clone()), None),
                };
                let mut headers = headers?;
                if let Some(kind) = kind {
                    headers.entry("content-type".to_owned()).or_insert_with(|| kind.to_owned());
                }
                RouteAnswer::Respond { status: *status, headers, cookies: cookies?, body: body? }
            }
            RouteAnswerRow::Redirect { to, headers, cookies } => {
                let to = self.ruled(to, values, value::not_blank);
                let headers = self.headers(headers, values);
                let cookies = self.cookies(cookies, values);
                RouteAnswer::Redirect { to: to?, headers: headers?, cookies: cookies? }
            }
            RouteAnswerRow::Serve(path) => RouteAnswer::Serve {
                path: match path {
                    Some(path) => Some(self.ruled(path, values, value::site_path)?),
                    None => None,
                },
            },
            RouteAnswerRow::Drop => RouteAnswer::Drop,
        })
    }

    fn cookies(&mut self, rows: &'s [Text], values: &Value) -> Option<Vec<String>> {
        let cookies: Vec<_> =
            rows.iter().map(|cookie| self.ruled(cookie, values, value::set_cookie)).collect();
        cookies.into_iter().collect()
    }

    fn headers(&mut self, rows: &'s [(Text, Text)], values: &Value) -> Option<BTreeMap<String, String>> {
        let headers = self.named_texts(rows, value::header_name, value::header_value, values)?;
        Some(headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
    }

    fn named_texts(
        &mut self,
        rows: &'s [(Text, Text)],
        name_rule: Rule,
        value_rule: Rule,
        values: &Value,
    ) -> Option<BTreeMap<String, String>> {
        let mut filled = Vec::new();
        for (name, text) in rows {
            let name = self.ruled(name, values, name_rule);
            let text = self.ruled(text, values, value_rule);
            filled.push(name.zip(text));
        }
        filled.into_iter().collect()
    }

    fn request(&mut self, row: &'s RequestRow, values: &Value) -> Option<RequestPattern> {
        let method = row.method.as_ref().map(|method| self.ruled(method, values, value::method));
        let path = row.path.as_ref().map(|path| self.ruled(path, values, value::path_of_requests));
        let mut values_of = |rows| self.named_texts(rows, value::not_blank, any, values);
        let (query, form, cookies) = (values_of(&row.query), values_of(&row.form), values_of(&row.cookies));
        let json: Vec<Option<(String, Json)>> =
            row.json.iter().map(|(pointer, value)| self.pointed(pointer, value, values)).collect();
        Some(RequestPattern {
            method: match method {
                Some(method) => Some(method?),
                None => None,
            },
            path: match path {
                Some(path) => Some(path?),
                None => None,
            },
            query: query?,
            form: form?,
            cookies: cookies?,
            json: json.into_iter().collect::<Option<_>>()?,
        })
    }

    fn pointed(&mut self, pointer: &'s Text, value: &'s JsonText, values: &Value) -> Option<(String, Json)> {
        let pointer = self.ruled(pointer, values, value::json_pointer);
        let value = self.json(value, values);
        pointer.zip(value)
    }

    fn pattern_of(&mut self, row: &'s PatternRow, values: &Value) -> Option<TextPattern> {
        Some(match row.kind {
            PatternKind::Equals => TextPattern::Equals(self.text(&row.text, values)?),
            PatternKind::Contains => {
                TextPattern::Contains(self.ruled(&row.text, values, value::some_text)?)
            }
            PatternKind::Matches => TextPattern::Matches(self.regex(&row.text, values)?),
        })
    }

    fn optional_pattern(
        &mut self,
        row: Option<&'s PatternRow>,
        values: &Value,
    ) -> Option<Option<TextPattern>> {
        match row {
            Some(row) => self.pattern_of(row, values).map(Some),
            None => Some(None),
        }
    }

    /// The check, and what its default label names.
    pub(super) fn page_check(&mut self, row: &'s PageCheckRow, values: &Value) -> Option<(Check, String)> {
        let (check, subject) = match row {
            PageCheckRow::Script { run, equals } => {
                let run = self.ruled(run, values, value::not_blank);
                let equals = self.json(equals, values);
                let run = run?;
                let subject = first_line(&run);
                (PageCheck::Script { run, equals: equals? }, subject)
            }
            PageCheckRow::Reward { expression, lowest, highest } => {
                let expression = self.ruled(expression, values, value::not_blank)?;
                let subject = first_line(&expression);
                (PageCheck::Reward { expression, lowest: *lowest, highest: *highest }, subject)
            }
            PageCheckRow::Element {
                selector,
                text,
                value,
                attributes,
                checked,
                visible,
                at_least,
                at_most,
            } => {
                let selector = self.ruled(selector, values, value::not_blank);
                let text = self.optional_pattern(text.as_ref(), values);
                let value = self.optional_pattern(value.as_ref(), values);
                let attributes: Vec<_> = attributes
                    .iter()
                    .map(|(name, pattern)| {
                        let name = self.ruled(name, values, value::not_blank);
                        name.zip(self.pattern_of(pattern, values))
                    })
                    .collect();
                let selector = selector?;
                let with = ElementPattern {
                    text: text?,
                    value: value?,
                    attributes: attributes.into_iter().collect::<Option<_>>()?,
                    checked: *checked,
                    visible: *visible,
                };
                let subject = first_line(&selector);
                (PageCheck::Element { selector, with, at_least: *at_least, at_most: *at_most }, subject)
            }
            PageCheckRow::Url(pattern) => {
                let pattern = self.pattern_of(pattern, values)?;
                let subject = match &pattern {
                    TextPattern::Equals(text) | TextPattern::Contains(text) | TextPattern::Matches(text) => {
                        first_line(text)
                    }
                };
                (PageCheck::Url(pattern), subject)
            }
            PageCheckRow::Storage { area, origin, key, value } => {
                let origin = origin.as_ref().map(|origin| self.ruled(origin, values, value::origin));
                let key = self.text(key, values);
                let value = self.optional_pattern(value.as_ref(), values);
                let key = key?;
                let origin = match origin {
                    Some(origin) => Some(origin?),
                    None => None,
                };
                let subject = first_line(&key);
                (PageCheck::Storage { area: *area, origin, key, value: value? }, subject)
            }
            PageCheckRow::Cookie { name, value } => {
                let name = self.ruled(name, values, value::not_blank);
                let value = self.optional_pattern(value.as_ref(), values);
                let name = name?;
                (PageCheck::Cookie { name: name.clone(), value: value? }, name)
            }
            PageCheckRow::Requested { site, request, at_least, at_most } => {
                let request = self.request(request, values)?;
                let words = [request.method.as_deref(), request.path.as_deref()];
                let subject = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
                let site = site.as_ref().map(|site| site.value.clone());
                (PageCheck::Requested { site, request, at_least: *at_least, at_most: *at_most }, subject)
            }
            PageCheckRow::Downloaded { name, content } => {
                let name = self.ruled(name, values, value::file_name);
                let content = self.optional_pattern(content.as_ref(), values);
                let name = name?;
                (PageCheck::Downloaded { name: name.clone(), content: content? }, name)
            }
        };
        Some((Check::Page(check), subject))
    }
}

fn any(_: &str) -> Result<(), value::BadValue> {
    Ok(())
}
