//! Finds the installed Postgres.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::binaries;

/// The oldest major version that is supported.
const VERSION_MIN: u32 = 15;
/// Where Debian-based systems install the server's programs, one directory per version.
const PACKAGE_DIR: &str = "/usr/lib/postgresql";

/// A directory with `initdb` and `postgres`.
#[derive(Debug)]
pub(super) struct Install {
    dir: PathBuf,
}

impl Install {
    /// Searches `PATH` first, then the newest package.
    pub(super) fn find() -> anyhow::Result<Self> {
        let in_path = binaries::in_path("initdb")
            .and_then(|initdb| initdb.canonicalize().ok())
            .and_then(|initdb| Some(initdb.parent()?.to_owned()));
        let Some(dir) = in_path
            .filter(|dir| is_complete(dir))
            .or_else(newest_package)
        else {
            bail!(
                "no Postgres server found: install it, for example with `apt-get install postgresql`"
            );
        };
        let install = Install { dir };
        let version = install.version()?;
        ensure!(
            version >= VERSION_MIN,
            "the Postgres in {} is version {version}; {VERSION_MIN} or later is needed",
            install.dir.display()
        );
        Ok(install)
    }

    /// The path of one of its programs.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Whether the server can load this module. Some systems package the contrib modules separately.
    pub(super) fn has_library(&self, name: &str) -> bool {
        let libraries = Command::new(self.program("pg_config"))
            .arg("--pkglibdir")
            .output();
        let reported = libraries
            .ok()
            .filter(|output| output.status.success())
            .and_then(|output| String::from_utf8(output.stdout).ok());
        // Debian installs `pg_config` separately, and the libraries beside the programs.
        let dir = reported.map_or_else(|| self.dir.join("../lib"), |dir| PathBuf::from(dir.trim()));
        dir.join(format!("{name}.so")).is_file()
    }

    fn version(&self) -> anyhow::Result<u32> {
        let output = Command::new(self.program("postgres"))
            .arg("--version")
            .output()
            .context("cannot run `postgres --version`")?;
        let text = String::from_utf8_lossy(&output.stdout);
        major(&text).with_context(|| format!("cannot read a version from {text:?}"))
    }
}

fn newest_package() -> Option<PathBuf> {
    let versions = std::fs::read_dir(PACKAGE_DIR).ok()?;
    versions
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse::<u32>().ok()?,
                entry.path(),
            ))
        })
        .map(|(version, path)| (version, path.join("bin")))
        .filter(|(_, bin)| is_complete(bin))
        .max()
        .map(|(_, bin)| bin)
}

fn is_complete(dir: &Path) -> bool {
    dir.join("initdb").is_file() && dir.join("postgres").is_file()
}

/// The major version in `postgres (PostgreSQL) 15.13 (Debian …)` or `… 18beta1`.
fn major(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("(PostgreSQL) ")?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn major_version_is_read_from_releases_and_betas() {
        assert_eq!(
            major("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n"),
            Some(15)
        );
        assert_eq!(major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major("mysqld 9"), None);
    }
}
