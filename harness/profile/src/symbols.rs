//! From addresses to names of functions, inlined ones included.

use std::collections::HashMap;
use std::rc::Rc;

use addr2line::Loader;

use crate::modules::{Loaded, file_name};
use crate::tree::{Frame, Origin};

/// Longer names, of templates within templates, are cut.
const NAME_CHARS: usize = 300;
/// Libraries of the learner and of the products in the engine.
const TENSOR_LIBRARIES: [&str; 5] = ["libtorch", "libc10", "libgomp", "libmkl", "libiomp"];

/// Names that were found, and the files that they are looked up in.
#[derive(Default)]
pub(crate) struct Symbols {
    names: HashMap<u64, Rc<[Frame]>>,
    /// In the order of the modules; `None` of a file that tells nothing.
    files: Vec<Option<Loader>>,
}

impl Symbols {
    /// The functions at an address, the one that contains the others first.
    pub(crate) fn at(&mut self, address: u64, modules: &[Loaded]) -> Rc<[Frame]> {
        if let Some(known) = self.names.get(&address) {
            return Rc::clone(known);
        }
        let found: Rc<[Frame]> = self.look_up(address, modules).into();
        self.names.insert(address, Rc::clone(&found));
        found
    }

    fn look_up(&mut self, address: u64, modules: &[Loaded]) -> Vec<Frame> {
        let Some(at) = modules.iter().position(|module| module.addresses.contains(&address)) else {
            return vec![Frame { name: "[no file]".into(), origin: Origin::Other }];
        };
        let module = &modules[at];
        while self.files.len() <= at {
            self.files.push(Loader::new(&modules[self.files.len()].path).ok());
        }
        let file = file_name(&module.path);
        let is_tensor = TENSOR_LIBRARIES.iter().any(|library| file.starts_with(library));
        let named = |name: String| {
            let origin = match (is_tensor, is_ours(&name)) {
                (true, _) => Origin::Tensors,
                (false, true) => Origin::Ours,
                (false, false) => Origin::Other,
            };
            Frame { name: name.into(), origin }
        };
        let names = match &self.files[at] {
            Some(loader) => functions(loader, address - module.bias),
            None => Vec::new(),
        };
        if names.is_empty() {
            return vec![named(format!("[{file}]"))];
        }
        names.into_iter().map(named).collect()
    }
}

/// The functions at an address of a file, the one that contains the others first.
fn functions(loader: &Loader, address: u64) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            if let Some(name) = frame.function
                && let Ok(name) = name.demangle()
            {
                names.push(tidied(&name));
            }
        }
    }
    // The symbol names the whole of it with its path, where the debug information may have its last part only.
    if let Some(symbol) = loader.find_symbol(address) {
        let symbol = tidied(&addr2line::demangle_auto(symbol.into(), None));
        names.pop();
        names.push(symbol);
    }
    names.reverse();
    names
}

/// Without the hash that ends names of Rust's older mangling, and not too long.
fn tidied(name: &str) -> String {
    let bare = match name.rsplit_once("::h") {
        Some((bare, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => bare,
        _ => name,
    };
    match bare.char_indices().nth(NAME_CHARS) {
        Some((end, _)) => format!("{}...", &bare[..end]),
        None => bare.to_owned(),
    }
}

/// Whether a function is of this workspace: `clawrl_torch::…`, `<clawrl_core::… as …>::…`, `_<clawrl…`.
fn is_ours(name: &str) -> bool {
    name.trim_start_matches(['<', '_', '&', ' ']).starts_with("clawrl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_hashes_alone() {
        let check = |name: &str, expected: &str| assert_eq!(tidied(name), expected);
        check("a::b::h0123456789abcdef", "a::b");
        check("a::hash", "a::hash");
        check("at::native::add(at::Tensor)", "at::native::add(at::Tensor)");
        assert_eq!(tidied(&"x".repeat(1_000)).len(), NAME_CHARS + 3);
    }

    #[test]
    fn our_functions_are_known_by_their_crates() {
        let check = |name: &str, expected: bool| assert_eq!(is_ours(name), expected, "{name}");
        check("clawrl_torch::engine::worker::Worker::run", true);
        check("<clawrl_core::action::Action as core::clone::Clone>::clone", true);
        check("clawrl::wiring::execution::run", true);
        check("tokio::runtime::task::raw::poll", false);
    }
}
