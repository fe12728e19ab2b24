//! The scripted policies through the [`Policy`] trait, as an executor calls them.

#![allow(clippy::unwrap_used)]

mod episode;
mod policies;
mod solving;
