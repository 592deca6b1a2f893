//! The commands of a document, run as they are written there. A test that runs them one by one proves that
//! the document is right, and that the test follows it.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use endpoints::Service;
use testkit::binaries::Binaries;
use tokio::process::Command;

use crate::harness::{Harness, SETTLE_TIMEOUT};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The commands of one section that were not run yet, and the shell that runs them.
pub(crate) struct Runbook<'a> {
    harness: &'a Harness,
    service: Service,
    commands: VecDeque<String>,
    /// The commands that were run.
    done: Vec<String>,
    env: BTreeMap<String, String>,
    folder: tempfile::TempDir,
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl<'a> Runbook<'a> {
    /// The commands of this section of the document, for this service.
    pub(crate) fn read(
        harness: &'a Harness,
        document: &str,
        section: &str,
        service: Service,
    ) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(Path::new(ROOT).join(document))?;
        let commands = commands(&text, section);
        ensure!(
            !commands.is_empty(),
            "{document} has no commands in {section:?}"
        );
        let binaries = Binaries::locate(None)?;
        let programs = binaries.path("chargeonce")?;
        let programs = programs.parent().context("no folder of programs")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let system = &harness.system;
        let env = [
            ("PATH", format!("{}:{path}", programs.display())),
            ("DATABASE_URL", system.database_url(service).to_owned()),
            ("KAFKA_BROKERS", system.brokers().to_owned()),
            ("KAFKA_TOPIC", system.topic().to_owned()),
            (
                "CHARGEONCE_STATE_DIR",
                system.state_dir().display().to_string(),
            ),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value));
        Ok(Self {
            harness,
            service,
            commands,
            done: Vec::new(),
            env: BTreeMap::from(env),
            folder: tempfile::tempdir()?,
        })
    }

    /// Continues with another section.
    pub(crate) fn then(mut self, document: &str, section: &str) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(Path::new(ROOT).join(document))?;
        self.commands.extend(commands(&text, section));
        Ok(self)
    }

    /// A variable that the document leaves to its reader.
    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.env.insert(name.to_owned(), value.to_string());
    }

    /// A file in the folder where the commands run.
    pub(crate) fn write(&self, name: &str, content: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(self.folder.path().join(name), content)?)
    }

    /// Goes back by so many commands.
    pub(crate) fn repeat(&mut self, count: usize) {
        for command in self.done.iter().rev().take(count) {
            self.commands.push_front(command.clone());
        }
    }

    /// Runs the next command of the document, which must begin like this, and must succeed.
    pub(crate) async fn run(&mut self, expected: &str) -> anyhow::Result<String> {
        let ran = self.run_to(expected, 0).await?;
        Ok(ran.text)
    }

    /// The same for another exit code.
    pub(crate) async fn run_to(&mut self, expected: &str, code: i32) -> anyhow::Result<Ran> {
        let command = self.commands.pop_front();
        let command = command.with_context(|| format!("the document ends before {expected:?}"))?;
        ensure!(
            command.starts_with(expected),
            "the next command is {command:?}, not {expected:?}"
        );
        self.done.push(command.clone());
        let ran = self.execute(&command).await;
        let ran = ran.with_context(|| format!("running {command:?}"))?;
        ensure!(
            ran.code == code,
            "{command:?} did not exit with {code}: {ran:?}"
        );
        Ok(ran)
    }

    /// Every command of the document was run.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        ensure!(self.commands.is_empty(), "not run: {:#?}", self.commands);
        Ok(())
    }

    async fn execute(&mut self, command: &str) -> anyhow::Result<Ran> {
        let name = self.service.name();
        let system = &self.harness.system;
        let done = Ran {
            code: 0,
            text: String::new(),
        };
        if let Some(assignment) = command.strip_prefix("export ") {
            let (variable, value) = assignment.split_once('=').context("no value")?;
            let shown = self.shell(&format!("printf %s \"{value}\"")).await?;
            self.env.insert(variable.to_owned(), shown.text.clone());
            // The service gets its environment from the shell that starts it.
            system.set_env(name, variable, &shown.text)?;
            return Ok(done);
        }
        if let Some(variable) = command.strip_prefix("unset ") {
            self.env.remove(variable);
            system.remove_env(name, variable)?;
            return Ok(done);
        }
        let Some(compose) = command.strip_prefix("docker compose ") else {
            return self.shell(command).await;
        };
        if compose == format!("stop {name}") {
            system.stop_service(name).await?;
        } else if compose == format!("up -d {name}") {
            // Compose replaces a container whose environment has changed.
            system.stop_service(name).await?;
            system.start_service(name).await?;
            system.wait_ready(name, SETTLE_TIMEOUT).await?;
        } else if let Some(program) = compose.strip_prefix(&format!("run --rm {name} ")) {
            return self.shell(program).await;
        } else {
            anyhow::bail!("this test does not know `docker compose {compose}`");
        }
        Ok(done)
    }

    async fn shell(&self, command: &str) -> anyhow::Result<Ran> {
        let output = Command::new("bash")
            .args(["-c", command])
            .current_dir(self.folder.path())
            .envs(&self.env)
            .env_remove("CHARGEONCE_OPERATOR_TOKEN")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let text = [output.stdout, output.stderr].concat();
        Ok(Ran {
            code: output.status.code().context("the command was killed")?,
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }
}

/// The lines after `$ ` in the section's console blocks. A line that ends with a backslash continues.
fn commands(document: &str, section: &str) -> VecDeque<String> {
    let heading = format!("## {section}");
    let lines = document.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("## "));
    let (mut commands, mut in_block, mut continues) = (VecDeque::<String>::new(), false, false);
    for line in lines.map(str::trim) {
        if line.starts_with("```") {
            in_block = line == "```console";
            continue;
        }
        match (line.strip_prefix("$ "), commands.back_mut()) {
            _ if !in_block => {}
            (Some(command), _) => commands.push_back(command.to_owned()),
            (None, Some(last)) if continues => {
                last.truncate(last.len() - 1);
                last.push_str(line);
            }
            _ => {}
        }
        continues = in_block && line.ends_with('\\');
    }
    commands
}

#[test]
fn commands_of_a_section_are_read() {
    let document = "## A\n```console\n$ a\n```\n## B\n$ not\n   ```console\n   $ b \\\n       -c\n   out\n   $ d\n   ```\n## C\n";
    assert_eq!(commands(document, "B"), ["b -c", "d"]);
    assert!(commands(document, "D").is_empty());
}
