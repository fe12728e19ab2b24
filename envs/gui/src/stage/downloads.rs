//! Downloads of an attempt: which have to begin, which have begun, and what came of them.
//!
//! That one has to begin is known from what was answered, and from the page; that it did is told by the browser, over another
//! connection, and later.

/// All of an attempt.
#[derive(Debug, Default)]
pub(super) struct Downloads {
    /// Those that the browser told of.
    begun: u32,
    /// Of those, the ones that have not ended.
    loading: u32,
    /// Those that pages began without a request.
    by_pages: u32,
    /// Those that were waited for in vain, and have not begun since.
    missing: u32,
    /// Of those that are complete, since they were last taken.
    names: Vec<String>,
}

impl Downloads {
    /// Pages began so many without a request.
    pub(super) fn add_by_pages(&mut self, count: u32) {
        self.by_pages += count;
    }

    /// The browser told of one.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
        self.loading += 1;
        // It may be one that nobody waits for any more; the next one is waited for all the same.
        self.missing = self.missing.saturating_sub(1);
    }

    /// One ended, in a file where it has a name.
    pub(super) fn end(&mut self, name: Option<&str>) {
        self.loading = self.loading.saturating_sub(1);
        self.names.extend(name.map(str::to_owned));
    }

    /// Nobody waits a second time for those that have not begun. `answered` as of [`Self::unheard`].
    pub(super) fn give_up(&mut self, answered: u32) {
        self.missing += self.unheard(answered);
    }

    pub(super) fn loading(&self) -> u32 {
        self.loading
    }

    /// Those that have to have begun, and that the browser has not told of. `answered` are those that began with a request.
    pub(super) fn unheard(&self, answered: u32) -> u32 {
        (answered + self.by_pages).saturating_sub(self.begun + self.missing)
    }

    /// Whether anything was downloaded, as far as anybody knows, or is to be.
    pub(super) fn are_any(&self, answered: u32) -> bool {
        self.begun + self.by_pages + answered > 0
    }

    /// Names of those that are complete, each time it is asked those that came since. In which order they ended is chance.
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut names = std::mem::take(&mut self.names);
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_waited_for_though_one_before_it_came_late() {
        let mut downloads = Downloads::default();
        let check = |downloads: &Downloads, answered, expected| {
            assert_eq!((downloads.unheard(answered), downloads.loading()), expected, "{downloads:?}");
        };
        check(&downloads, 1, (1, 0));
        downloads.give_up(1);
        check(&downloads, 1, (0, 0));
        downloads.begin();
        check(&downloads, 1, (0, 1));
        check(&downloads, 2, (1, 1));
        downloads.begin();
        check(&downloads, 2, (0, 2));
        downloads.end(None);
        downloads.end(Some("a"));
        check(&downloads, 2, (0, 0));
        downloads.add_by_pages(1);
        check(&downloads, 2, (1, 0));
        // Those that nobody foresaw are none that are waited for.
        downloads.begin();
        downloads.begin();
        check(&downloads, 2, (0, 2));
    }

    #[test]
    fn names_are_in_order_and_told_once() {
        let mut downloads = Downloads::default();
        assert!(!downloads.are_any(0) && downloads.are_any(1));
        for name in [Some("b"), None, Some("a")] {
            downloads.begin();
            downloads.end(name);
        }
        assert!(downloads.are_any(0));
        assert_eq!((downloads.take(), downloads.take()), (vec!["a".to_owned(), "b".to_owned()], Vec::new()));
    }
}
