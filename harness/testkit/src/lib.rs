//! placeholder header, replaced below.
