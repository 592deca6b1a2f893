//! The scripts in `scripts/chaos` against the processes of a lab, and the check that they end with.

use std::path::Path;
use std::process::Output;

use anyhow::{Context as _, ensure};
use endpoints::PerService;
use testkit::binaries::Binaries;
use testkit::system::SystemOptions;
use tokio::process::Command;

use crate::harness::{Harness, options};

/// Runs a program that attaches to the harness's system.
async fn run(harness: &Harness, program: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    Command::new(program)
        .args(arguments)
        .env("LAB", Binaries::locate(None)?.path("lab")?)
        .env("CHARGEONCE_STATE_DIR", harness.system.state_dir())
        .env("HOLD_SECONDS", HOLD_SECONDS)
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("running {}", program.display()))
}

async fn lab(harness: &Harness, arguments: &[&str]) -> anyhow::Result<Output> {
    run(harness, &Binaries::locate(None)?.path("lab")?, arguments).await
}

async fn chargeonce(harness: &Harness, arguments: &[&str]) -> anyhow::Result<Output> {
    let program = Binaries::locate(None)?.path("chargeonce")?;
    run(harness, &program, arguments).await
}

fn output_text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// How long the provider holds a charge. Between the charge and the last check of the interrupted call a script
/// runs several programs, which takes long on a busy machine. Until then neither may the provider respond nor
/// payment repeat the call.
const HOLD_SECONDS: &str = "14";

fn script_options() -> SystemOptions {
    let mut options = options();
    for (name, value) in [("PSP_TIMEOUT_MS", "13000"), ("LEASE_MS", "15000")] {
        let setting = (name.to_owned(), value.to_owned());
        options.env.payment.push(setting);
    }
    options
}

async fn scripts_pass(harness: &Harness, names: &[&str]) -> anyhow::Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/chaos");
    for name in names {
        let script = dir.join(name).with_extension("sh");
        let output = run(harness, &script, &["--on", "local"]).await?;
        ensure!(output.status.success(), "{name}: {}", output_text(&output));
    }
    Ok(())
}

#[tokio::test]
async fn kill_scripts_end_with_one_charge() -> anyhow::Result<()> {
    let harness = Harness::start(script_options()).await?;
    let scripts = [
        "kill-payment-mid-charge",
        "kill-payment-after-charge",
        "kill-relay",
        "kill-fulfilment",
    ];
    scripts_pass(&harness, &scripts).await?;
    harness.stop().await
}

#[tokio::test]
async fn pause_and_cut_scripts_end_with_one_charge() -> anyhow::Result<()> {
    let mut options = script_options();
    options.replicas = PerService {
        payment: 2,
        ..PerService::from_fn(|_| 1)
    };
    let harness = Harness::start(options).await?;
    scripts_pass(&harness, &["pause-payment", "cut-network"]).await?;
    harness.stop().await
}

#[tokio::test]
async fn check_reports_second_charge_and_missing_order() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let placed = lab(&harness, &["chaos", "place", "--count", "2"]).await?;
    let placed = String::from_utf8(placed.stdout)?;
    let orders: Vec<&str> = placed.lines().collect();
    let good = chargeonce(&harness, &["check", orders[0], orders[1]]).await?;
    ensure!(good.status.success(), "{}", output_text(&good));

    let unknown = uuid::Uuid::new_v4().to_string();
    let missing = chargeonce(&harness, &["check", &unknown, "--seconds", "1"]).await?;
    assert_eq!(missing.status.code(), Some(1), "{}", output_text(&missing));
    assert!(
        output_text(&missing).contains("not found"),
        "{}",
        output_text(&missing)
    );

    sqlx::query(
        "insert into charges
         select gen_random_uuid(), 'another', reference, amount, currency, payment_method, status, now()
         from charges where reference = $1",
    )
    .bind(orders[0])
    .execute(&harness.databases.psp)
    .await?;
    let twice = chargeonce(&harness, &["check", orders[1]]).await?;
    assert_eq!(twice.status.code(), Some(1), "{}", output_text(&twice));
    let violation = format!("I1 one charge per order: {} has 2", orders[0]);
    assert!(
        output_text(&twice).contains(&violation),
        "{}",
        output_text(&twice)
    );
    harness.stop().await
}
