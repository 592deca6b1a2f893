//! Apache Kafka's jars. Maven downloads them once into the user's cache.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::process::Command;

use crate::binaries;

/// The version of Apache Kafka that the kit runs.
pub const KAFKA_VERSION: &str = "4.1.0";
/// The version that Kafka's distribution contains.
const LOG4J_VERSION: &str = "2.25.1";

/// The directory with the jars. Downloads them the first time.
pub(super) async fn directory() -> anyhow::Result<PathBuf> {
    let cache = cache_dir()?;
    let jars = cache.join(format!("kafka-{KAFKA_VERSION}"));
    if !jars.is_dir() {
        std::fs::create_dir_all(&cache)
            .with_context(|| format!("cannot create {}", cache.display()))?;
        download(&cache, &jars).await?;
    }
    Ok(jars)
}

/// Outside the checkout, so that a clean checkout does not download again.
fn cache_dir() -> anyhow::Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = from("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| from("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("set XDG_CACHE_HOME or HOME: Kafka's jars are kept in the cache directory")?;
    Ok(cache.join("chargeonce"))
}

/// Downloads into a temporary directory and renames it, so that an incomplete download is never used.
async fn download(cache: &Path, jars: &Path) -> anyhow::Result<()> {
    if binaries::in_path("mvn").is_none() {
        bail!(
            "Maven is needed to download Apache Kafka: `apt-get install maven default-jdk-headless`"
        );
    }
    let draft = tempfile::Builder::new()
        .prefix("download-")
        .tempdir_in(cache)?;
    std::fs::write(draft.path().join("pom.xml"), pom())?;
    let libs = draft.path().join("libs");
    let output = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "dependency:copy-dependencies"])
        .arg("-DincludeScope=runtime")
        .arg(format!("-DoutputDirectory={}", libs.display()))
        .current_dir(draft.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run mvn")?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stdout);
        bail!("Maven could not download Apache Kafka:\n{output}");
    }
    match std::fs::rename(&libs, jars) {
        // Another process was faster; its jars are the same.
        Err(_) if jars.is_dir() => Ok(()),
        result => result.with_context(|| format!("cannot create {}", jars.display())),
    }
}

fn pom() -> String {
    format!(
        r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>chargeonce</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>{LOG4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"#
    )
}
