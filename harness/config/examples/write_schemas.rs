//! Writes the published schemas: `cargo run -p clawrl-config --example write_schemas`. `cargo xtask generate` runs it.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in clawrl_config::schema_files() {
        std::fs::write(root.join(path), text)?;
    }
    Ok(())
}
