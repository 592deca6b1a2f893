//! Finds the programs to start.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use endpoints::{PerService, Service};

/// Overrides the directory of the services' binaries, which is by default that of this program.
const BIN_DIR_VAR: &str = "CHARGEONCE_BIN_DIR";

/// The directory that holds `lab` and the services.
#[derive(Debug, Clone)]
pub struct Binaries {
    dir: PathBuf,
    /// Where a service runs from, if not from `dir`.
    service_dirs: PerService<Option<PathBuf>>,
}

impl Binaries {
    /// Uses the given directory, the one in `CHARGEONCE_BIN_DIR`, or that of this program.
    pub fn locate(dir: Option<&Path>) -> anyhow::Result<Self> {
        let in_dir = |dir: PathBuf| Binaries {
            dir,
            service_dirs: PerService::default(),
        };
        if let Some(dir) = dir {
            return Ok(in_dir(dir.into()));
        }
        if let Some(dir) = std::env::var_os(BIN_DIR_VAR).filter(|dir| !dir.is_empty()) {
            return Ok(in_dir(dir.into()));
        }
        let exe = std::env::current_exe().context("cannot find the path of this program")?;
        let dir = exe.parent().context("this program has no directory")?;
        // A test binary is in `deps`, one level below the other binaries.
        let dir = match dir.parent() {
            Some(above) if dir.ends_with("deps") => above,
            _ => dir,
        };
        Ok(in_dir(dir.into()))
    }

    /// Runs services from other directories.
    #[must_use]
    pub fn with_service_dirs(self, service_dirs: PerService<Option<PathBuf>>) -> Self {
        Binaries {
            service_dirs,
            ..self
        }
    }

    /// The path of a binary, which must exist.
    pub fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        existing(self.dir.join(name))
    }

    /// The path of the binary that a service runs from, which must exist.
    pub fn service(&self, service: Service) -> anyhow::Result<PathBuf> {
        let dir = self.service_dirs.get(service).as_ref();
        existing(dir.unwrap_or(&self.dir).join(service.name()))
    }

    /// The directory of the other binaries.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

fn existing(path: PathBuf) -> anyhow::Result<PathBuf> {
    ensure!(
        path.is_file(),
        "the binary {} is missing: run `cargo build --workspace --bins` (with `--release` for the \
             release build), or name the directory of the binaries in {BIN_DIR_VAR}",
        path.display()
    );
    Ok(path)
}

/// How to call one of our binaries in a shell: its path relative to the current directory, or its name
/// if it is not built.
pub fn command(name: &str) -> String {
    let path = Binaries::locate(None).and_then(|binaries| binaries.path(name));
    let Ok(path) = path else {
        return name.to_owned();
    };
    let current = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(current).unwrap_or(&path);
    path.display().to_string()
}

/// Finds a program in `PATH`.
pub fn in_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}
