//! Takes the pictures of the console from a real system, for scripts/screenshots.sh.
//!
//! Writes PNG files to the directory that the first argument names, and `kill.args`: the arguments with
//! which `img2webp` makes the animation.

#![allow(clippy::print_stdout, reason = "a program that people run")]

#[allow(dead_code, reason = "shared with the tests, which use the rest")]
#[path = "../end_to_end/browser/driver.rs"]
mod driver;
#[allow(dead_code, reason = "shared with the tests, which use the rest")]
#[path = "../end_to_end/browser/stage.rs"]
mod stage;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use stage::Stage;
use testkit::system::SystemOptions;

/// Wide enough for two columns, small enough for a README.
const ANIMATION: (u32, u32) = (1_200, 930);
const PAGE: (u32, u32) = (1_280, 900);
const NARROW: (u32, u32) = (400, 860);
/// The last frame of the animation stays this long.
const LAST_FRAME: Duration = Duration::from_secs(4);
const ANIMATION_MAX: Duration = Duration::from_secs(60);
/// The end of the kill: every step is done.
const KILL_IS_OVER: &str =
    "document.querySelector('#kill-steps li:last-child').dataset.state === 'done'";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = std::env::args()
        .nth(1)
        .context("name a directory for the pictures")?;
    let directory = PathBuf::from(directory);
    std::fs::create_dir_all(&directory)?;
    let stage = Stage::start(options()).await?;
    let result = take_all(&stage, &directory).await;
    stage.end(result).await
}

/// As in the demo: the lease is short, so that recovery takes seconds.
fn options() -> SystemOptions {
    let mut options = SystemOptions {
        quiet: true,
        ..SystemOptions::default()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    options.env.payment = vec![pair("LEASE_MS", "3000"), pair("PSP_TIMEOUT_MS", "2500")];
    options.env.psp = vec![pair("PSP_SLOW_MS", "10000")];
    options
}

async fn take_all(stage: &Stage, directory: &Path) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.prefer("light", false).await?;
    stage.open().await?;
    for mode in ["once", "twice", "twenty", "once"] {
        stage.place_and_ship(mode).await?;
    }
    browser.run("scrollTo(0, 0)").await?;
    film_kill(stage, directory).await?;
    browser.resize(PAGE.0, PAGE.1).await?;
    settle(stage).await?;
    shot(stage, directory, "console").await?;
    browser.prefer("dark", false).await?;
    shot(stage, directory, "console-dark").await?;
    // The page scrolls at once, so that no picture shows it on its way.
    browser.prefer("light", true).await?;
    take_timeline(stage, directory).await?;
    take_controls(stage, directory).await?;
    take_proof(stage, directory).await
}

async fn shot(stage: &Stage, directory: &Path, name: &str) -> anyhow::Result<()> {
    println!("{name}");
    let picture = stage.browser.screenshot().await?;
    Ok(std::fs::write(
        directory.join(format!("{name}.png")),
        picture,
    )?)
}

/// The timeline of the order whose charge was interrupted.
async fn take_timeline(stage: &Stage, directory: &Path) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.click("#kill-steps a").await?;
    browser
        .wait_for("document.querySelector('.waterfall li[data-service=receipt]') !== null")
        .await?;
    browser.run("scrollTo(0, 0)").await?;
    shot(stage, directory, "console-timeline").await?;
    browser
        .run("document.querySelector('.waterfall').previousElementSibling.scrollIntoView()")
        .await?;
    shot(stage, directory, "console-waterfall").await?;
    browser.click("#timeline-close").await
}

/// What to press, the tour, and a narrow window.
async fn take_controls(stage: &Stage, directory: &Path) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.click("#tab-points").await?;
    browser
        .run("scrollTo(0, document.querySelector('#place').offsetTop - 80)")
        .await?;
    settle(stage).await?;
    shot(stage, directory, "console-break").await?;
    browser.click("#tour-start").await?;
    browser.click("#tour .primary").await?;
    browser.wait_for_text("#tour-text", "One request").await?;
    browser
        .run("document.querySelector('#place').scrollIntoView()")
        .await?;
    settle(stage).await?;
    shot(stage, directory, "console-tour").await?;
    browser.click("#tour .quiet").await?;
    browser.resize(NARROW.0, NARROW.1).await?;
    browser.run("scrollTo(0, 0)").await?;
    settle(stage).await?;
    shot(stage, directory, "console-narrow").await?;
    browser.resize(PAGE.0, PAGE.1).await
}

/// A second charge, and its refund.
async fn take_proof(stage: &Stage, directory: &Path) -> anyhow::Result<()> {
    let browser = &stage.browser;
    let finding = "document.querySelector('#proof').dataset.finding";
    let order = stage.place_and_ship("once").await?;
    let charge = stage.charge_again(order).await?;
    browser
        .wait_for(&format!("{finding} === 'violated'"))
        .await?;
    browser.click("#problems a").await?;
    browser.wait_for_text(".timeline-count", "2").await?;
    browser.run("scrollTo(0, 0)").await?;
    shot(stage, directory, "console-violated").await?;
    stage.refund(charge).await?;
    browser
        .wait_for(&format!("{finding} === 'repaired'"))
        .await?;
    browser.click("#timeline-close").await?;
    browser.run("scrollTo(0, 0)").await?;
    shot(stage, directory, "console-repaired").await
}

/// Waits until no dot moves and no message covers the page.
async fn settle(stage: &Stage) -> anyhow::Result<()> {
    let quiet = "document.querySelectorAll('.dot, .notice').length === 0";
    stage.browser.wait_for(quiet).await?;
    Ok(())
}

/// One picture after the other from the press of the button until the order has shipped.
async fn film_kill(stage: &Stage, directory: &Path) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.resize(ANIMATION.0, ANIMATION.1).await?;
    settle(stage).await?;
    let mut film = Film::default();
    film.add(browser.screenshot().await?, Instant::now());
    browser.click("#kill-button").await?;
    let deadline = Instant::now() + ANIMATION_MAX;
    loop {
        let is_over = browser.eval(KILL_IS_OVER).await? == true;
        film.add(browser.screenshot().await?, Instant::now());
        if is_over {
            break;
        }
        anyhow::ensure!(Instant::now() < deadline, "the killed order did not ship");
    }
    settle(stage).await?;
    film.add(browser.screenshot().await?, Instant::now());
    film.write(directory)
}

/// Frames and when each was taken. A frame that equals the one before it is dropped.
#[derive(Default)]
struct Film(Vec<(Vec<u8>, Instant)>);

impl Film {
    fn add(&mut self, picture: Vec<u8>, at: Instant) {
        if self.0.last().is_none_or(|(last, _)| *last != picture) {
            self.0.push((picture, at));
        }
    }

    fn write(self, directory: &Path) -> anyhow::Result<()> {
        println!("console-kill: {} frames", self.0.len());
        let ends = self.0.iter().skip(1).map(|(_, at)| *at).collect::<Vec<_>>();
        let mut arguments = String::from("-loop 0 -lossless -m 4\n");
        for (index, (picture, at)) in self.0.iter().enumerate() {
            let path = directory.join(format!("frame-{index:04}.png"));
            let shown = ends.get(index).map_or(LAST_FRAME, |end| *end - *at);
            std::fs::write(&path, picture)?;
            // The first frame is the page at rest: a second is enough to read the button.
            let shown = if index == 0 {
                Duration::from_secs(1)
            } else {
                shown
            };
            writeln!(
                arguments,
                "-d {} {}",
                shown.as_millis().max(20),
                path.display()
            )?;
        }
        writeln!(
            arguments,
            "-o {}",
            directory.join("console-kill.webp").display()
        )?;
        Ok(std::fs::write(directory.join("kill.args"), arguments)?)
    }
}
