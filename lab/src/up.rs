//! `lab up`: runs the whole system until Ctrl-C.

use std::path::PathBuf;
use std::sync::Arc;

use ::console::Console;
use clap::ValueEnum;

use endpoints::operator::DEMO_TOKEN;
use endpoints::topic::PARTITIONS_DEFAULT;
use endpoints::{Endpoints, Service};
use testkit::binaries;
use testkit::broker::Kafka;
use testkit::signals::StopSignals;
use testkit::smtp_sink::MAILBOX_NAME;
use testkit::system::{Ports, Postgres, System, SystemOptions};

use crate::console::{ConsoleArgs, stop_both};

/// Start the whole system and keep it running until Ctrl-C.
///
/// A process that dies is restarted: kill one and watch. Other commands find the running system by
/// its state directory.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kafka broker: `embedded` (in memory, nothing to install), `apache` (a real Apache Kafka; needs
    /// Java, and Maven the first time), `apache-3` (the same on three nodes, with three copies of every
    /// message), or HOST:PORT of a running one.
    #[arg(long, env = "KAFKA_BROKERS", default_value = "embedded")]
    kafka: Kafka,
    /// URL of a running Postgres, with a role that may create databases [default: a private server
    /// that is removed at the end].
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<String>,
    /// Where the services listen.
    #[arg(long, value_enum, default_value = "fixed")]
    ports: PortsChoice,
    /// Number of processes of a service. Those after the first listen on free ports.
    #[arg(long, value_name = "SERVICE=N", value_parser = parse_scale)]
    scale: Vec<(Service, u32)>,
    /// Partitions of the Kafka topic.
    #[arg(long, default_value_t = PARTITIONS_DEFAULT, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Directory for logs, mails and system.json.
    #[arg(long, default_value_os_t = Endpoints::default_state_dir(), value_name = "DIR")]
    state_dir: PathBuf,
    /// Put proxies on connections, so that the console can cut them. They cost some throughput.
    #[arg(long)]
    network_cuts: bool,
    #[command(flatten)]
    console: ConsoleArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PortsChoice {
    /// order 8081, payment 8082, fulfilment 8083, receipt 8084, psp 8090, mail 8025; for operators
    /// 9081 to 9085.
    Fixed,
    /// Any free ports.
    Free,
}

impl Args {
    fn options(self) -> SystemOptions {
        let mut options = SystemOptions::default();
        for (service, count) in self.scale {
            *options.replicas.get_mut(service) = count;
        }
        SystemOptions {
            postgres: self
                .database_url
                .map_or(Postgres::Private, Postgres::Existing),
            kafka: self.kafka,
            ports: match self.ports {
                PortsChoice::Fixed => Ports::Fixed,
                PortsChoice::Free => Ports::Free,
            },
            partitions: self.partitions,
            state_dir: Some(self.state_dir),
            network_cuts: self.network_cuts,
            ..options
        }
    }
}

/// For clap: `payment=3`.
fn parse_scale(text: &str) -> Result<(Service, u32), String> {
    let (name, count) = text.split_once('=').ok_or("expected SERVICE=N")?;
    let service = Service::ALL.into_iter().find(|it| it.name() == name);
    let service = service.ok_or_else(|| format!("no service is named {name:?}"))?;
    match count.parse() {
        Ok(count @ 1..) => Ok((service, count)),
        _ => Err(format!("{count:?} is not a number of processes")),
    }
}

/// Runs the system until a stop signal.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let is_free = matches!(args.ports, PortsChoice::Free);
    let console = args.console.clone();
    let mut options = args.options();
    let prepared = console.prepare(is_free, &mut options).await?;
    let system = tokio::select! {
        system = System::start(options) => Arc::new(system?),
        _ = signals.next() => {
            eprintln!("Stopped before the system was up.");
            return Ok(());
        }
    };
    let console = prepared
        .map(|prepared| prepared.start(&system))
        .transpose()?;
    print_guide(&system.endpoints(), console.as_ref());
    signals.next().await;
    eprintln!("Stopping …");
    tokio::select! {
        stopped = stop_both(console, system) => stopped,
        // A second signal drops the system, which ends it immediately.
        _ = signals.next() => Ok(()),
    }
}

fn print_guide(endpoints: &Endpoints, console: Option<&Console>) {
    println!("\nThe system is up.\n");
    if let Some(console) = console {
        println!("Watch it and break it in the browser: {}\n", console.link());
    }
    for service in Service::ALL.iter().rev() {
        println!(
            "  {:<11}{}   operators: {}",
            service.name(),
            endpoints.url(*service),
            endpoints.operator_url(*service)
        );
    }
    println!("  {:<11}{}", "kafka", endpoints.brokers);
    println!(
        "  {:<11}{}",
        "postgres",
        endpoints.database_url(Service::Order)
    );
    println!("  {:<11}{}", "logs", endpoints.state_dir.display());
    println!("  {:<11}{}", "smtp", endpoints.smtp);
    let order = endpoints.url(Service::Order);
    let chargeonce = binaries::command("chargeonce");
    println!(
        "\nPlace an order. Send it twice: it is placed once.\n
  curl -i {order}/orders \\
    -H 'Authorization: Bearer demo-key-acme' \\
    -H 'Idempotency-Key: my-first-order' \\
    -H 'Content-Type: application/json' \\
    -d '{{\"customer_id\":\"cust-88\",\"currency\":\"USD\",\"payment_method\":\"pm_card_ok\",\
\"items\":[{{\"sku\":\"SKU-99\",\"quantity\":2,\"unit_price\":2500}}]}}'\n
See its status:         curl -H 'Authorization: Bearer demo-key-acme' {order}/orders/ORDER_ID
Kill payment any time:  kill -9 {}   (the lab restarts it)
Test the promises:      {chargeonce} verify
Check the invariants:   {chargeonce} check
Read the receipts:      less {}
Arm a provider fault:   curl {}/admin/faults -H 'Authorization: Bearer {DEMO_TOKEN}' \\
                          -H 'X-Reason: trying it' -d '{{\"point\":\"after_charge\",\"action\":\"drop\",\"times\":1}}'
Stop:                   Ctrl-C",
        endpoints.pids.get(Service::Payment.name()).unwrap_or(&0),
        endpoints.mails_dir.join(MAILBOX_NAME).display(),
        endpoints.operator_url(Service::Psp)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_is_at_least_one_process() {
        assert_eq!(parse_scale("payment=3"), Ok((Service::Payment, 3)));
        for bad in ["payment", "payment=0", "payment=x", "kafka=2"] {
            parse_scale(bad).unwrap_err();
        }
    }
}
