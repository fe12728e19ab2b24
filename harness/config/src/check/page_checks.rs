//! Checks of pages, of the browser's storage, and of requests to sites.

use clawrl_core::{Check, ElementPattern, PageCheck, RequestPattern, StorageArea, TextPattern};
use serde_json::Value as Json;

use super::builder::{TaskBuilder, Written, any, first_line};
use super::checks::Labelled;
use crate::file::{
    CheckFile, Entries, Located, PageElementFile, PageRewardFile, PatternFile, RequestRef, Scalar, Text,
};
use crate::source::Span;
use crate::value;

impl<'s> TaskBuilder<'_, '_, 's> {
    /// The check, if its kind is one of these.
    pub(super) fn page_check(&mut self, check: &'s CheckFile) -> Option<Labelled> {
        let (check, subject) = if let Some(file) = &check.page_script {
            let run = self.ruled(&file.run, value::not_blank).unwrap_or_default();
            let equals = self.json(&file.equals).unwrap_or_default();
            let subject = first_line(&run);
            (PageCheck::Script { run, equals }, subject)
        } else if let Some(file) = &check.page_reward {
            self.page_reward(file)
        } else if let Some(file) = &check.page_element {
            self.page_element(file)
        } else if let Some(pattern) = &check.page_url {
            let pattern = self.pattern_of(pattern);
            let subject = match &pattern {
                TextPattern::Equals(text) | TextPattern::Contains(text) | TextPattern::Matches(text) => {
                    first_line(text)
                }
            };
            (PageCheck::Url(pattern), subject)
        } else if let Some(file) = &check.page_storage {
            let origin = file.origin.as_ref().and_then(|origin| self.ruled(origin, value::origin));
            let key = self.text(&file.key).unwrap_or_default();
            let value = self.value_or_absent(
                "page_storage",
                file.value.value.as_ref(),
                file.absent.as_ref(),
                file.span,
            );
            let area = file.area.as_ref().map_or(StorageArea::Local, |area| area.value.into());
            let subject = first_line(&key);
            (PageCheck::Storage { area, origin, key, value }, subject)
        } else if let Some(file) = &check.page_cookie {
            let name = self.ruled(&file.name, value::not_blank).unwrap_or_default();
            let value = self.value_or_absent(
                "page_cookie",
                file.value.value.as_ref(),
                file.absent.as_ref(),
                file.span,
            );
            (PageCheck::Cookie { name: name.clone(), value }, name)
        } else if let Some(file) = &check.requested {
            let request = self.request(file.request());
            let (at_least, at_most) =
                self.times(file.at_least.as_ref(), file.at_most.as_ref(), file.span, "requests");
            let words = [request.method.as_deref(), request.path.as_deref()];
            let subject = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
            let site = file.site.as_ref().map(|site| site.value.clone());
            (PageCheck::Requested { site, request, at_least, at_most }, subject)
        } else if let Some(file) = &check.downloaded {
            let name = self.ruled(&file.name, value::file_name).unwrap_or_default();
            let content = file.content.as_ref().map(|pattern| self.pattern_of(pattern));
            (PageCheck::Downloaded { name: name.clone(), content }, name)
        } else {
            return None;
        };
        Some((Check::Page(check), subject))
    }

    fn page_reward(&mut self, file: &'s Located<PageRewardFile>) -> (PageCheck, String) {
        let lowest = file.lowest.as_ref().map_or(0.0, |number| number.value);
        let highest = file.highest.as_ref().map_or(1.0, |number| number.value);
        if !(lowest < highest && lowest.is_finite() && highest.is_finite()) {
            let message = format!("no reward lies between {lowest} and {highest}");
            let help = "write the reward of a failure and that of a success: `lowest: -1`, `highest: 1`";
            self.problem(file.span, message, "no room between them", help);
        }
        let expression = self.ruled(&file.expression, value::not_blank).unwrap_or_default();
        let subject = first_line(&expression);
        (PageCheck::Reward { expression, lowest, highest }, subject)
    }

    fn page_element(&mut self, file: &'s PageElementFile) -> (PageCheck, String) {
        let (at_least, at_most) =
            self.times(file.at_least.as_ref(), file.at_most.as_ref(), file.selector.span, "elements");
        let selector = self.ruled(&file.selector, value::not_blank).unwrap_or_default();
        let attributes = file.attributes.0.iter().map(|(name, pattern)| {
            let name = self.ruled(name, value::not_blank).unwrap_or_default();
            (name, self.pattern_of(pattern))
        });
        let attributes = attributes.collect();
        let with = ElementPattern {
            text: file.text.as_ref().map(|pattern| self.pattern_of(pattern)),
            value: file.value.as_ref().map(|pattern| self.pattern_of(pattern)),
            attributes,
            checked: file.checked,
            visible: file.visible,
        };
        let subject = first_line(&selector);
        (PageCheck::Element { selector, with, at_least, at_most }, subject)
    }

    fn value_or_absent(
        &mut self,
        key: &str,
        value: Option<&'s Located<PatternFile>>,
        absent: Option<&Located<bool>>,
        span: Span,
    ) -> Option<TextPattern> {
        match (value, absent.map(|absent| absent.value)) {
            (Some(pattern), None) => Some(self.pattern_of(pattern)),
            (None, Some(true)) => None,
            _ => {
                let message = format!("`{key}` needs either `value` or `absent: true`");
                self.problem(span, message, "none, or both", "write one of `value: text` and `absent: true`");
                None
            }
        }
    }

    fn pattern_of(&mut self, file: &'s Located<PatternFile>) -> TextPattern {
        let fields = match &file.value {
            PatternFile::Equals(scalar) => {
                let text = self.text(self.scalar_text(scalar, file.span));
                return TextPattern::Equals(text.unwrap_or_default());
            }
            PatternFile::Fields(fields) => fields,
        };
        match (&fields.equals, &fields.contains, &fields.matches) {
            (Some(scalar), None, None) => {
                TextPattern::Equals(self.text(self.written(scalar)).unwrap_or_default())
            }
            (None, Some(text), None) => {
                TextPattern::Contains(self.ruled(text, value::some_text).unwrap_or_default())
            }
            (None, None, Some(text)) => TextPattern::Matches(self.regex(text).unwrap_or_default()),
            _ => {
                let message = "what a text has to be needs one of `equals`, `contains` and `matches`";
                let help = "write one of them: `{ contains: hello }`; or the text itself";
                self.problem(file.span, message, "none, or several", help);
                TextPattern::Equals(String::new())
            }
        }
    }

    /// Builds the pattern that selects requests.
    pub(super) fn request(&mut self, file: RequestRef<'s>) -> RequestPattern {
        let json = file.json.0.iter().map(|(pointer, value)| {
            let pointer = self.ruled(pointer, value::json_pointer).unwrap_or_default();
            (pointer, self.json(value).unwrap_or_default())
        });
        let json: Vec<(String, Json)> = json.collect();
        RequestPattern {
            method: file.method.and_then(|method| self.ruled(method, value::method)),
            path: file.path.and_then(|path| self.ruled(path, value::path_of_requests)),
            query: self.scalar_pairs(file.query),
            form: self.scalar_pairs(file.form),
            cookies: self.scalar_pairs(file.cookies),
            json: json.into_iter().collect(),
        }
    }

    fn scalar_pairs<T: FromIterator<(String, String)>>(
        &mut self,
        entries: &'s Entries<Located<Scalar>>,
    ) -> T {
        let pairs: Vec<(&'s Text, Written<'s>)> =
            entries.0.iter().map(|(name, value)| (name, self.written(value))).collect();
        self.pairs(pairs, value::not_blank, any)
    }
}
