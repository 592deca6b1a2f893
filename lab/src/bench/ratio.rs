//! The ratios: what the system does, relative to a limit of the same machine in the same run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::spread::Spread;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ratio {
    Intake,
    Relay,
    EndToEnd,
    Latency,
    Price,
    CatchUp,
}

/// Which direction is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// One ratio of a run, with the figures behind each pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RatioResult {
    #[serde(flatten)]
    pub(crate) spread: Spread,
    /// What the system did, and the limit: one figure per pair.
    pub(crate) measured: Vec<f64>,
    pub(crate) limit: Vec<f64>,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) wanted: f64,
}

impl Ratio {
    pub(crate) const ALL: [Ratio; 6] = [
        Ratio::Intake,
        Ratio::Relay,
        Ratio::EndToEnd,
        Ratio::Latency,
        Ratio::Price,
        Ratio::CatchUp,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Ratio::Intake => "intake",
            Ratio::Relay => "relay",
            Ratio::EndToEnd => "end_to_end",
            Ratio::Latency => "latency",
            Ratio::Price => "price",
            Ratio::CatchUp => "catch_up",
        }
    }

    /// What is divided by what.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Ratio::Intake => "accepted, other services stopped ÷ pgbench of the intake SQL",
            Ratio::Relay => "relay drain ÷ the slower of SQL drain and raw produce",
            Ratio::EndToEnd => "shipped with receipt ÷ pgbench of the intake SQL",
            Ratio::Latency => "p50 request → shipped, half of saturation ÷ idle",
            Ratio::Price => "the whole ÷ built without key, outbox, processed messages and lease",
            Ratio::CatchUp => "catch-up after a kill ÷ backlog at drain rate",
        }
    }

    /// The unit of the measured figure and of the limit.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Ratio::Intake | Ratio::EndToEnd | Ratio::Price => "orders/s",
            Ratio::Relay => "events/s",
            Ratio::Latency => "ms",
            Ratio::CatchUp => "s",
        }
    }

    pub(crate) fn better(self) -> Better {
        match self {
            Ratio::Latency | Ratio::CatchUp => Better::Lower,
            _ => Better::Higher,
        }
    }

    /// The goal of the project.
    pub(crate) fn wanted(self) -> f64 {
        match self {
            Ratio::Intake => 2.0,
            Ratio::Relay | Ratio::Price => 0.7,
            Ratio::EndToEnd => 0.8,
            Ratio::Latency => 4.0,
            Ratio::CatchUp => 1.2,
        }
    }

    /// From pairs of a measured figure and its limit. `None` without a pair.
    pub(crate) fn result(self, pairs: &[(f64, f64)]) -> Option<RatioResult> {
        let ratios = pairs
            .iter()
            .map(|(measured, limit)| measured / limit.max(f64::EPSILON));
        Some(RatioResult {
            spread: Spread::of(ratios)?,
            measured: pairs.iter().map(|(measured, _)| *measured).collect(),
            limit: pairs.iter().map(|(_, limit)| *limit).collect(),
            unit: self.unit().to_owned(),
            better: self.better(),
            wanted: self.wanted(),
        })
    }
}

impl RatioResult {
    /// Whether the median reaches the goal.
    pub(crate) fn is_reached(&self) -> bool {
        match self.better {
            Better::Higher => self.spread.median >= self.wanted,
            Better::Lower => self.spread.median <= self.wanted,
        }
    }

    /// The goal as text: `≥ 2`.
    pub(crate) fn goal(&self) -> String {
        let sign = match self.better {
            Better::Higher => '≥',
            Better::Lower => '≤',
        };
        format!("{sign} {}", self.wanted)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Ratio::ALL.into_iter().find(|ratio| ratio.name() == text);
        found.ok_or_else(|| {
            let names = Ratio::ALL.map(Ratio::name).join(", ");
            format!("expected one of: {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_that_of_the_json_and_of_the_command_line() {
        for ratio in Ratio::ALL {
            assert_eq!(
                serde_json::to_value(ratio).unwrap(),
                serde_json::Value::from(ratio.name())
            );
            assert_eq!(ratio.name().parse(), Ok(ratio));
        }
        "speed".parse::<Ratio>().unwrap_err();
    }

    #[test]
    fn ratio_is_reached_on_the_right_side_of_its_goal() {
        let reached =
            |ratio: Ratio, measured| ratio.result(&[(measured, 1.0)]).unwrap().is_reached();
        assert!(reached(Ratio::Intake, 2.0) && !reached(Ratio::Intake, 1.9));
        assert!(reached(Ratio::Latency, 4.0) && !reached(Ratio::Latency, 4.1));
        assert!(Ratio::Intake.result(&[]).is_none());
    }
}
