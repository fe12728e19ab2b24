//! Downloads of an attempt: which have to begin, which have begun, and what came of them.
//!
//! That one has to begin is known from what was answered, and from what was clicked in pages; that it did is told by the browser,
//! over another connection, and later.

use crate::page::DownloadClicks;
use crate::proxy::FileAnswers;

/// All of an attempt.
#[derive(Debug, Default)]
pub(super) struct Downloads {
    /// Those that the browser told of.
    begun: u32,
    /// Of those, the ones that have not ended.
    loading: u32,
    /// Links that were clicked to lay down files.
    clicked: DownloadClicks,
    /// Those that were waited for in vain, and have not begun since; below 0, those that began and that nobody foresaw.
    missing: i64,
    /// Of those that are complete, since they were last taken.
    names: Vec<String>,
}

impl Downloads {
    /// So many links more were clicked.
    pub(super) fn click(&mut self, links: DownloadClicks) {
        self.clicked += links;
    }

    /// The browser told of one.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
        self.loading += 1;
        // It may be one that nobody waits for any more; the next one is waited for all the same.
        if self.missing > 0 {
            self.missing -= 1;
        }
    }

    /// One ended, in a file where it has a name.
    pub(super) fn end(&mut self, name: Option<&str>) {
        self.loading = self.loading.saturating_sub(1);
        self.names.extend(name.map(str::to_owned));
    }

    /// Nobody waits any more: not for those that have not begun, and those that nobody foresaw stand for none that is to come.
    pub(super) fn close(&mut self, answered: FileAnswers) {
        self.missing = i64::from(self.foreseen(answered)) - i64::from(self.begun);
        self.clicked.asked = self.clicked.asked.max(answered.asked);
    }

    pub(super) fn loading(&self) -> u32 {
        self.loading
    }

    /// Those that have to begin, and that the browser has not told of.
    pub(super) fn unheard(&self, answered: FileAnswers) -> u32 {
        let unheard = i64::from(self.foreseen(answered)) - i64::from(self.begun) - self.missing;
        u32::try_from(unheard).unwrap_or(0)
    }

    /// Whether anything was downloaded, as far as anybody knows, or is to be.
    pub(super) fn are_any(&self, answered: FileAnswers) -> bool {
        self.begun + self.foreseen(answered) > 0
    }

    /// Those that have to begin. What was clicked may be asked for when the page is at rest again, where the machine is busy, and
    /// not everything that is asked for was clicked.
    fn foreseen(&self, answered: FileAnswers) -> u32 {
        self.clicked.made + answered.unasked + answered.asked.max(self.clicked.asked)
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

    fn pages(unasked: u32) -> FileAnswers {
        FileAnswers { unasked, ..FileAnswers::default() }
    }

    #[test]
    fn what_was_clicked_is_waited_for_before_anybody_asks_for_it() {
        let mut downloads = Downloads::default();
        let asked = |asked| FileAnswers { asked, ..FileAnswers::default() };
        downloads.click(DownloadClicks { made: 0, asked: 1 });
        assert!(downloads.are_any(asked(0)));
        assert_eq!(downloads.unheard(asked(0)), 1);
        // It is the same one that is asked for.
        assert_eq!(downloads.unheard(asked(1)), 1);
        downloads.begin();
        assert_eq!(downloads.unheard(asked(1)), 0);
        downloads.close(asked(1));
        // One that nobody clicked, and one that is clicked after it.
        assert_eq!(downloads.unheard(asked(2)), 1);
        downloads.begin();
        downloads.close(asked(2));
        downloads.click(DownloadClicks { made: 0, asked: 1 });
        assert_eq!(downloads.unheard(asked(2)), 1);
    }

    #[test]
    fn those_that_nobody_foresaw_stand_for_none_that_comes() {
        let mut downloads = Downloads::default();
        downloads.begin();
        assert_eq!(downloads.unheard(pages(0)), 0);
        downloads.close(pages(0));
        assert_eq!(downloads.unheard(pages(1)), 1);
        assert!(downloads.are_any(pages(0)));
    }

    #[test]
    fn each_is_waited_for_though_one_before_it_came_late() {
        let mut downloads = Downloads::default();
        let check = |downloads: &Downloads, answered, expected| {
            assert_eq!((downloads.unheard(pages(answered)), downloads.loading()), expected, "{downloads:?}");
        };
        check(&downloads, 1, (1, 0));
        downloads.close(pages(1));
        check(&downloads, 1, (0, 0));
        downloads.begin();
        check(&downloads, 1, (0, 1));
        check(&downloads, 2, (1, 1));
        downloads.begin();
        check(&downloads, 2, (0, 2));
        downloads.end(None);
        downloads.end(Some("a"));
        check(&downloads, 2, (0, 0));
        downloads.click(DownloadClicks { made: 1, asked: 0 });
        check(&downloads, 2, (1, 0));
        // Those that nobody foresaw are none that are waited for.
        downloads.begin();
        downloads.begin();
        check(&downloads, 2, (0, 2));
    }

    #[test]
    fn names_are_in_order_and_told_once() {
        let mut downloads = Downloads::default();
        assert!(!downloads.are_any(pages(0)) && downloads.are_any(pages(1)));
        for name in [Some("b"), None, Some("a")] {
            downloads.begin();
            downloads.end(name);
        }
        assert!(downloads.are_any(pages(0)));
        assert_eq!((downloads.take(), downloads.take()), (vec!["a".to_owned(), "b".to_owned()], Vec::new()));
    }
}
