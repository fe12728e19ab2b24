//! Whole trees of a [`SafeDir`](crate::SafeDir): their hash, their copy into a fresh workspace, and their way to another
//! machine.
//!
//! I1. Everything that holds for `SafeDir` holds here: nothing outside is read, links are never followed,
//!     only regular files are opened.
//! I2. Entries, depth and bytes are bounded by [`TreeBounds`]; an error names the bound.
//! I3. Any depth is walked on a constant stack and a constant number of descriptors.
//! I4. The hash is a function of names, kinds, executable bits, contents and link targets: it does not
//!     depend on the machine, the owner, times or the order in which the file system lists names.
//! I5. A copy has the same hash as its source, unless its report lists what was left out.
//! I6. A full machine is told from a full sandbox: the first is a fault of the machine, the second of the tree's writer.
//! I7. What was packed and unpacked looks, to whoever looks at it through a `SafeDir`, as its source does where that is.
//!
//! While the tree is still being written the result is some mixture of states, or an error, within I1
//! and I2. Errors: [`TreeError`]. Cancellation: blocks until done, like every operation of `SafeDir`.

mod bounds;
mod chain;
mod copy;
mod data_extents;
mod exclude;
mod hash;
mod pack;
mod part;
mod remove;
mod size_limit;
mod skipped_entries;
mod special;
mod stream;
mod unpack;
mod walk;

pub use bounds::{TreeBound, TreeBounds, TreeError};
pub use copy::{CopyOptions, CopyReport, Existing, copy_tree};
pub use exclude::Exclusions;
pub use pack::pack_tree;
pub use part::copy_part;
pub use remove::remove_content;
pub use size_limit::SizeLimit;
pub use skipped_entries::{SkipReason, Skipped, SkippedEntries};
pub(crate) use special::special_file;
pub use unpack::{UnpackError, unpack_tree};
