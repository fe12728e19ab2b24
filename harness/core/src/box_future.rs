//! Futures behind a pointer.

use std::future::Future;
use std::pin::Pin;

/// A boxed future, for dynamic dispatch.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
