//! Tells the linker where libtorch lies, so that programs and tests find it without a variable.

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    if let Ok(libtorch) = std::env::var("LIBTORCH") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{libtorch}/lib");
        println!("cargo:rpath={libtorch}/lib");
    }
}
