//! `lab infra`: runs a command with a private Postgres and broker.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use clap::ValueEnum;
use rustix::process::Signal;

use testkit::binaries::Binaries;
use testkit::broker::{Broker, Kafka};
use testkit::postgres::Cluster;
use testkit::process::{Process, Spec};
use testkit::progress::Progress;
use testkit::scratch::Scratch;
use testkit::signals::{Stop, StopSignals};
use testkit::supervisor::Supervisor;

/// Added to the signal number if a signal killed the command, as shells do.
const SIGNAL_EXIT_CODE: i32 = 128;

/// Run a command with a private Postgres and Kafka broker.
///
/// The command finds them in TEST_DATABASE_URL and KAFKA_BROKERS. Both are removed when it ends, and
/// its exit code is returned. Without a command, the variables are printed until Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which broker to start.
    #[arg(long, value_enum, default_value = "embedded")]
    kafka: KafkaChoice,
    /// Command to run, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KafkaChoice {
    /// A real Apache Kafka; needs Java, and Maven the first time.
    Apache,
    /// librdkafka's built-in broker, in memory.
    Embedded,
    /// No broker.
    None,
}

/// Runs the command and returns its exit code.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut signals = StopSignals::listen()?;
    let logs = Scratch::new()?;
    let supervisor = Supervisor::new(true, false);
    let started = tokio::select! {
        started = start(args.kafka, &supervisor, logs.path()) => started,
        _ = signals.next() => return Ok(ExitCode::FAILURE),
    };
    let infra = match started {
        Ok(infra) => infra,
        Err(error) => {
            eprintln!("Logs: {}", logs.keep().display());
            return Err(error);
        }
    };
    let code = match args.command.split_first() {
        Some((program, rest)) => {
            let mut spec = Spec::on_console(program).args(rest);
            spec.env = infra.env.clone();
            exit_code(wait_for(&Process::spawn(&spec, &[])?, &mut signals).await)
        }
        None => {
            for (name, value) in &infra.env {
                println!("export {name}={value}");
            }
            eprintln!("Running until Ctrl-C.");
            signals.next().await;
            ExitCode::SUCCESS
        }
    };
    infra.stop(&supervisor).await?;
    Ok(code)
}

/// The Postgres and broker of one command.
struct Infra {
    cluster: Cluster,
    broker: Option<Broker>,
    env: Vec<(String, String)>,
}

async fn start(
    choice: KafkaChoice,
    supervisor: &Supervisor,
    log_dir: &Path,
) -> anyhow::Result<Infra> {
    let kafka = match choice {
        KafkaChoice::Apache => Some(Kafka::Apache),
        KafkaChoice::Embedded => Some(Kafka::Embedded),
        KafkaChoice::None => None,
    };
    let progress = Progress::new(false);
    let broker = async {
        let Some(kafka) = kafka else { return Ok(None) };
        let binaries = Binaries::locate(None)?;
        let start = Broker::start(&kafka, supervisor, &binaries, log_dir, None);
        progress.step("kafka", start).await.map(Some)
    };
    let postgres = progress.step("postgres", Cluster::start(supervisor, log_dir, None));
    let (cluster, broker) = tokio::try_join!(postgres, broker)?;
    let mut env = vec![("TEST_DATABASE_URL".to_owned(), cluster.url("postgres"))];
    if let Some(broker) = &broker {
        env.push(("KAFKA_BROKERS".to_owned(), broker.brokers().to_owned()));
    }
    Ok(Infra {
        cluster,
        broker,
        env,
    })
}

impl Infra {
    async fn stop(self, supervisor: &Supervisor) -> anyhow::Result<()> {
        if let Some(broker) = self.broker {
            broker.stop(supervisor).await?;
        }
        self.cluster.stop(supervisor).await
    }
}

/// Waits for the command and forwards stop signals to it: its databases must outlive it.
async fn wait_for(command: &Process, signals: &mut StopSignals) -> ExitStatus {
    loop {
        tokio::select! {
            status = command.exited() => return status,
            stop = signals.next() => match stop {
                // The terminal also sends Ctrl-C to the command.
                Stop::Interrupt => {}
                Stop::Terminate => command.signal(Signal::TERM),
            },
        }
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let signal = || status.signal().map(|signal| SIGNAL_EXIT_CODE + signal);
    let code = status.code().or_else(signal);
    code.and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}
