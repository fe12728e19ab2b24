//! The scripted policies through the [`Policy`] trait, as an executor calls them.

mod episode;
mod policies;
mod solving;
