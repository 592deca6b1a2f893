//! Prints the table for ARCHITECTURE.md: `cargo run -p crash-windows --example table`.

#![allow(clippy::print_stdout)]

fn main() {
    print!("{}", crash_windows::table());
}
