//! Selects the route that answers.

use std::time::Duration;

use clawrl_core::RequestPattern;
use http::{HeaderMap, StatusCode};

use super::content::Content;

/// A route whose answer is ready to be sent.
#[derive(Debug)]
pub(super) struct PreparedRoute {
    pub(super) request: RequestPattern,
    pub(super) after: u32,
    pub(super) times: Option<u32>,
    pub(super) delay: Duration,
    pub(super) answer: PreparedAnswer,
}

/// As [`clawrl_core::RouteAnswer`].
#[derive(Debug)]
pub(super) enum PreparedAnswer {
    Respond { status: StatusCode, headers: HeaderMap, content: Content },
    Redirect { headers: HeaderMap },
    Serve { path: Option<String> },
    Drop,
}

impl PreparedRoute {
    /// Whether it answers a matching request after this many earlier ones.
    fn answers(&self, before: u64) -> bool {
        let after = u64::from(self.after);
        let is_late = |times: u32| before >= after + u64::from(times);
        before >= after && !self.times.is_some_and(is_late)
    }
}

/// The first route that matches and answers. `passed` counts the matching requests of each route.
pub(super) fn choose(
    routes: &[PreparedRoute],
    passed: &mut [u64],
    fits: impl Fn(&RequestPattern) -> bool,
) -> Option<usize> {
    for (number, (route, passed)) in routes.iter().zip(passed).enumerate() {
        if fits(&route.request) {
            *passed += 1;
            if route.answers(*passed - 1) {
                return Some(number);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(after: u32, times: Option<u32>) -> PreparedRoute {
        let request = RequestPattern::default();
        PreparedRoute { request, after, times, delay: Duration::ZERO, answer: PreparedAnswer::Drop }
    }

    fn check(routes: &[(u32, Option<u32>)], expected: &[Option<usize>]) {
        let routes: Vec<_> = routes.iter().map(|(after, times)| route(*after, *times)).collect();
        let mut passed = vec![0; routes.len()];
        let found: Vec<_> = expected.iter().map(|_| choose(&routes, &mut passed, |_| true)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn routes_answer_after_and_so_many_times() {
        check(&[(0, None)], &[Some(0), Some(0)]);
        check(&[(1, None)], &[None, Some(0), Some(0)]);
        check(&[(1, Some(2))], &[None, Some(0), Some(0), None, None]);
        check(&[(0, Some(0))], &[None, None]);
        check(&[(u32::MAX, Some(u32::MAX))], &[None, None]);
    }

    #[test]
    fn first_answering_route_hides_later_ones() {
        check(&[(0, Some(1)), (1, None)], &[Some(0), None, Some(1)]);
    }
}
