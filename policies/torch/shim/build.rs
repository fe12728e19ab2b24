//! Compiles `cpp/` against the libtorch that torch-sys links, and passes its path on.

use std::path::PathBuf;

const SOURCES: [&str; 3] = ["cpp/adamw.cpp", "cpp/cuda.cpp", "cpp/library.cpp"];
const HEADER: &str = "cpp/shim.h";

fn main() {
    for file in SOURCES.into_iter().chain([HEADER, "build.rs"]) {
        println!("cargo::rerun-if-changed={file}");
    }
    // torch-sys has found libtorch before this runs, or has failed with a reason.
    let Some(library_folder) = std::env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else {
        println!("cargo::error=torch-sys did not say where libtorch is");
        return;
    };
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .pic(true)
        // Warnings in libtorch's headers are ignored.
        .flag("-isystem")
        .flag(library_folder.with_file_name("include"))
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .warnings_into_errors(true)
        .files(SOURCES)
        .compile("clawrl_torch_shim");
    println!("cargo::rustc-link-arg=-Wl,-rpath={}", library_folder.display());
    println!("cargo::metadata=libtorch_lib={}", library_folder.display());
}
