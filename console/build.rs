//! Generates the table of the page's files, so that every file in `assets` is served without a list in the code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    // Cargo reads this from the standard output of a build script.
    #[allow(clippy::print_stdout)]
    {
        println!("cargo:rerun-if-changed={}", assets.display());
    }
    let mut files = fs::read_dir(&assets)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.is_file());
    files.sort();
    let mut table = String::from("const EMBEDDED: &[(&str, &[u8])] = &[\n");
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Writing into a String cannot fail.
        let _ = writeln!(
            table,
            "    ({name:?}, include_bytes!({:?})),",
            path.display().to_string()
        );
    }
    table.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("embedded.rs"), table)
}
