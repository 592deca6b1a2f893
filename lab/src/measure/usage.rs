//! CPU time and memory of every process, read from /proc once a second, so that a process that dies
//! during the run is still counted.

use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

/// Linux reports process times in hundredths of a second, on every architecture (USER_HZ).
const TICKS_PER_S: f64 = 100.0;
/// Its child processes are included: Postgres runs one process per connection.
pub(crate) const POSTGRES: &str = "postgres";
/// The line of the lab that runs the system, which serves its console.
pub(crate) const CONSOLE: &str = "console";
/// The part of Postgres that answers the console's queries.
pub(crate) const CONSOLE_QUERIES: &str = "of it: console";
/// The name of the load generator's own line.
pub(crate) const LAB: &str = "lab (generator)";

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Usage {
    pub(crate) name: String,
    pub(crate) cpu_s: f64,
    pub(crate) peak_rss_mib: f64,
}

/// CPU ticks of one process at its first and last sample, and its peak memory.
struct Meter {
    first_ticks: u64,
    last_ticks: u64,
    peak_kib: u64,
}

#[derive(Default)]
pub(crate) struct Meters {
    meters: BTreeMap<(String, u32), Meter>,
    /// Whether the first sample is taken. A process that appears later was started during the run, so
    /// its CPU time counts from zero.
    started: bool,
}

impl Meters {
    /// Samples every process and returns its memory now, in MiB. `pids` may change between samples when
    /// services are restarted.
    pub(crate) fn sample(&mut self, pids: &[(String, u32)]) -> BTreeMap<String, f64> {
        let mut memory_mib = BTreeMap::new();
        for (name, pid) in pids {
            let sample = if name == POSTGRES {
                sample_postgres(*pid)
            } else {
                sample_process(*pid)
            };
            *memory_mib.entry(name.clone()).or_default() += self.add(name, *pid, sample);
        }
        let own = std::process::id();
        memory_mib.insert(LAB.to_owned(), self.add(LAB, own, sample_process(own)));
        self.started = true;
        memory_mib
    }

    /// Returns the memory of the process in MiB.
    fn add(&mut self, name: &str, pid: u32, sample: Option<Sampled>) -> f64 {
        let Some(Sampled {
            ticks,
            rss_kib,
            peak_kib,
        }) = sample
        else {
            return 0.0;
        };
        let first_ticks = if self.started { 0 } else { ticks };
        let meter = self.meters.entry((name.to_owned(), pid)).or_insert(Meter {
            first_ticks,
            last_ticks: ticks,
            peak_kib,
        });
        // A backend that just ended may be counted twice in one sample; the sum must not fall afterwards.
        meter.last_ticks = meter.last_ticks.max(ticks);
        meter.peak_kib = meter.peak_kib.max(peak_kib);
        rss_kib as f64 / 1024.0
    }

    /// One line per name. The CPU times of restarted processes are added; memory is the highest peak.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let mut lines: Vec<Usage> = Vec::new();
        for ((name, _), meter) in &self.meters {
            let cpu_s = (meter.last_ticks - meter.first_ticks) as f64 / TICKS_PER_S;
            let peak_rss_mib = meter.peak_kib as f64 / 1024.0;
            match lines.last_mut().filter(|line| line.name == *name) {
                Some(line) => {
                    line.cpu_s += cpu_s;
                    line.peak_rss_mib = line.peak_rss_mib.max(peak_rss_mib);
                }
                None => lines.push(Usage {
                    name: name.clone(),
                    cpu_s,
                    peak_rss_mib,
                }),
            }
        }
        lines
    }
}

/// The CPU time of every process since its start, in seconds, by name.
pub(crate) fn cpu_s(pids: &[(String, u32)]) -> BTreeMap<String, f64> {
    let mut meters = Meters {
        started: true,
        ..Meters::default()
    };
    meters.sample(pids);
    let usage = meters.usage().into_iter();
    usage.map(|usage| (usage.name, usage.cpu_s)).collect()
}

/// The name without the number of a replica: `payment` for `payment-2`.
pub(crate) fn base_name(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((base, number)) if number.parse::<u32>().is_ok() => base,
        _ => name,
    }
}

/// Sums of the processes that run more than once: name, number and CPU time.
pub(crate) fn replica_sums(usage: &[Usage]) -> Vec<(&str, usize, f64)> {
    let mut sums: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for it in usage {
        let (count, cpu_s) = sums.entry(base_name(&it.name)).or_default();
        *count += 1;
        *cpu_s += it.cpu_s;
    }
    let several = sums.into_iter().filter(|(_, (count, _))| *count > 1);
    several
        .map(|(name, (count, cpu_s))| (name, count, cpu_s))
        .collect()
}

/// The CPU time of all processes but the load generator, without counting a part twice.
pub(crate) fn system_cpu_s(usage: &[Usage]) -> f64 {
    let own = usage
        .iter()
        .filter(|it| it.name != LAB && it.name != CONSOLE_QUERIES);
    own.map(|it| it.cpu_s).sum()
}

/// The share of the console and its queries in the CPU time of the system; none without a console.
pub(crate) fn console_share(usage: &[Usage]) -> Option<f64> {
    let of = |name: &str| usage.iter().find(|it| it.name == name).map(|it| it.cpu_s);
    let queries = of(CONSOLE_QUERIES).unwrap_or_default();
    Some((of(CONSOLE)? + queries) / system_cpu_s(usage).max(f64::EPSILON))
}

/// One process at one moment.
struct Sampled {
    ticks: u64,
    rss_kib: u64,
    /// The highest so far.
    peak_kib: u64,
}

/// The kernel keeps the peak of the resident size.
fn sample_process(pid: u32) -> Option<Sampled> {
    let times = Times::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Sampled {
        ticks: times.own,
        rss_kib: field_kib(&status, "VmRSS:"),
        peak_kib: field_kib(&status, "VmHWM:"),
    })
}

/// Postgres as a whole: the postmaster, its ended children and the running ones. Shared buffers are
/// mapped into each of them, so only the largest share of shared memory counts.
fn sample_postgres(postmaster: u32) -> Option<Sampled> {
    let times = Times::parse(&fs::read_to_string(format!("/proc/{postmaster}/stat")).ok()?)?;
    let mut ticks = times.own + times.ended_children;
    let (mut private_kib, mut shared_kib) = (0, 0);
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Some(stat) = fs::read_to_string(entry.path().join("stat"))
            .ok()
            .as_deref()
            .and_then(Times::parse)
        else {
            continue;
        };
        if pid != postmaster && stat.parent != postmaster {
            continue;
        }
        if pid != postmaster {
            ticks += stat.own;
        }
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        private_kib += field_kib(&status, "RssAnon:");
        shared_kib =
            shared_kib.max(field_kib(&status, "RssShmem:") + field_kib(&status, "RssFile:"));
    }
    Some(Sampled {
        ticks,
        rss_kib: private_kib + shared_kib,
        peak_kib: private_kib + shared_kib,
    })
}

struct Times {
    parent: u32,
    own: u64,
    ended_children: u64,
}

impl Times {
    /// The command in parentheses may contain spaces and parentheses, so fields are counted after the
    /// last parenthesis.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            own: ticks(11)? + ticks(12)?,
            ended_children: ticks(13)? + ticks(14)?,
        })
    }
}

fn field_kib(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|value| value.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_after_a_command_with_parentheses() {
        let times = Times::parse("7 (a b) c) S 3 7 7 0 -1 0 1 2 3 4 50 6 70 8 20 0").unwrap();
        assert_eq!((times.parent, times.own, times.ended_children), (3, 56, 78));
    }

    #[test]
    fn restarted_service_is_one_line_with_all_cpu_time() {
        let sampled = |ticks, kib| {
            Some(Sampled {
                ticks,
                rss_kib: kib,
                peak_kib: kib,
            })
        };
        let mut meters = Meters::default();
        meters.add("payment", 10, sampled(100, 2048));
        meters.started = true;
        meters.add("payment", 10, sampled(300, 4096));
        meters.add("payment", 11, sampled(105, 1024));
        let usage = meters.usage();
        assert_eq!(usage.len(), 1);
        assert_eq!((usage[0].cpu_s, usage[0].peak_rss_mib), (3.05, 4.0));
    }

    #[test]
    fn console_share_has_its_queries_and_not_the_generator() {
        let usage = |name: &str, cpu_s| Usage {
            name: name.to_owned(),
            cpu_s,
            peak_rss_mib: 0.0,
        };
        let all = [
            usage(CONSOLE, 1.0),
            usage(LAB, 50.0),
            usage(CONSOLE_QUERIES, 1.0),
            usage(POSTGRES, 59.0),
            usage("order", 40.0),
        ];
        assert_eq!(console_share(&all), Some(0.02));
        assert_eq!(console_share(&all[1..]), None);
    }

    #[test]
    fn replicas_are_summed_by_service() {
        let usage = |name: &str, cpu_s| Usage {
            name: name.to_owned(),
            cpu_s,
            peak_rss_mib: 0.0,
        };
        let all = [
            usage("kafka", 1.0),
            usage("kafka-2", 2.0),
            usage("kafka-3", 3.0),
            usage("smtp-sink", 4.0),
            usage(POSTGRES, 5.0),
        ];
        assert_eq!(replica_sums(&all), [("kafka", 3, 6.0)]);
        assert_eq!(base_name("smtp-sink"), "smtp-sink");
    }

    #[test]
    fn own_process_can_be_sampled() {
        let sampled = sample_process(std::process::id()).unwrap();
        assert!(sampled.rss_kib > 0 && sampled.peak_kib >= sampled.rss_kib);
    }
}
