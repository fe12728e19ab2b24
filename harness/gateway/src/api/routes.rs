//! Route tables, which tests can list.
//!
//! I1. Every route is listed: a test compares the list with `openapi.json`.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};

use super::gateway::Gateway;

/// Routes of a part of the server.
#[derive(Debug, Default)]
pub(super) struct Routes {
    router: Router<Arc<Gateway>>,
    /// Methods and paths, in the order added.
    #[cfg(test)]
    pub(super) listed: Vec<(MethodFilter, &'static str)>,
}

impl Routes {
    pub(super) fn get<H: Handler<T, Arc<Gateway>>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.on(MethodFilter::GET, path, handler)
    }

    pub(super) fn post<H: Handler<T, Arc<Gateway>>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
    ) -> Self {
        self.on(MethodFilter::POST, path, handler)
    }

    pub(super) fn put<H: Handler<T, Arc<Gateway>>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.on(MethodFilter::PUT, path, handler)
    }

    pub(super) fn delete<H: Handler<T, Arc<Gateway>>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
    ) -> Self {
        self.on(MethodFilter::DELETE, path, handler)
    }

    fn on<H: Handler<T, Arc<Gateway>>, T: 'static>(
        mut self,
        method: MethodFilter,
        path: &'static str,
        handler: H,
    ) -> Self {
        #[cfg(test)]
        self.listed.push((method, path));
        self.router = self.router.route(path, on(method, handler));
        self
    }

    pub(super) fn into_router(self) -> Router<Arc<Gateway>> {
        self.router
    }
}
