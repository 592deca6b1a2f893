//! The slots that one step took, by principal.

use std::sync::Arc;

use service_kit::Place;

use super::Share;

/// The result of a step.
pub(super) struct StepOutcome {
    pub(super) leased: usize,
    /// Whether there were too few slots. Then the next freed slot is worth another step.
    pub(super) is_short: bool,
}

/// Slots of one step. Dropping them frees those that no row took.
#[derive(Default)]
pub(super) struct Slots {
    /// In the order in which the principals got them.
    pub(super) by_principal: Vec<(Arc<str>, Vec<Place>)>,
    pub(super) is_short: bool,
    is_shared: bool,
}

impl Slots {
    pub(super) fn unshared(places: Vec<Place>) -> Self {
        Self {
            is_short: places.is_empty(),
            by_principal: vec![("".into(), places)],
            is_shared: false,
        }
    }

    pub(super) fn for_principals(principals: Vec<Arc<str>>) -> Self {
        Self {
            by_principal: principals.into_iter().map(|it| (it, Vec::new())).collect(),
            is_short: false,
            is_shared: true,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.by_principal.iter().map(|(_, it)| it.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub(super) fn shares(&self) -> Vec<Share> {
        if !self.is_shared {
            return Vec::new();
        }
        let shares = self.by_principal.iter().map(|(principal, places)| Share {
            principal: principal.clone(),
            limit: places.len() as i64,
        });
        shares.collect()
    }

    /// Takes a slot of this principal for a row.
    pub(super) fn take(&mut self, principal: &str) -> Option<Place> {
        let mut all = self.by_principal.iter_mut();
        let (_, places) = all.find(|(it, _)| **it == *principal)?;
        places.pop()
    }

    /// The principals that used all their slots. They may have more due rows.
    pub(super) fn used_up(&self) -> impl Iterator<Item = &Arc<str>> {
        let used_up = self.by_principal.iter().filter(|(_, it)| it.is_empty());
        used_up.map(|(principal, _)| principal)
    }

    /// The principals that did not need all their slots: they have no more due rows.
    pub(super) fn left_over(&self) -> impl Iterator<Item = &Arc<str>> {
        let left_over = self.by_principal.iter().filter(|(_, it)| !it.is_empty());
        left_over.map(|(principal, _)| principal)
    }

    pub(super) fn outcome(&self, leased: usize) -> StepOutcome {
        StepOutcome {
            leased,
            is_short: self.is_short,
        }
    }
}
