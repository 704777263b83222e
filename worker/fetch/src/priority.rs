//! Orders schedulers by the work that they received recently, relative to their shares.
//!
//! `SP = -(REC / sum of REC) / (share / sum of shares)`, highest first: 0 for a scheduler that received nothing, -1 for one that received
//! its share, less for one that received more. The order is that of the debt, share / REC, but the priority is finite where the debt is
//! not.

use std::cmp::Ordering;

use super::amounts::amount;
use super::types::{AssociationIndex, Associations};

/// Priority of a scheduler without a share, which puts it below all others.
const NO_SHARE: f64 = -1000.0;
/// A planned task that fills the worker counts as one such part of all recent work, like an hour of a day.
const PLANNED_PART: f64 = 24.0;

/// The priorities of all associations, which change with each planned task.
#[derive(Clone, Debug, PartialEq)]
pub struct Priorities {
    places: Vec<AssociationPriority>,
    /// The sum over the counted associations; 1 if that is 0.
    rec_sum: f64,
}

/// The state of one association.
#[derive(Clone, Debug, PartialEq)]
struct AssociationPriority {
    has_share: bool,
    /// The fraction of the counted associations' shares.
    share_fraction: f64,
    /// Recent work, including planned tasks.
    rec: f64,
    priority: f64,
}

impl Priorities {
    /// Computes the priorities. `rec` and `counted` are by association. Fractions refer to the counted associations, so those of others may
    /// exceed 1. If no counted association has a share, all priorities are equal.
    pub fn new(associations: &Associations, rec: &[f64], counted: &[bool]) -> Self {
        let is_counted = |index: usize| counted.get(index).copied().unwrap_or(false);
        let rec_of = |index: usize| rec.get(index).copied().map_or(0.0, amount);
        let shares = associations.iter().map(|one| amount(one.share));
        let share_sum: f64 = shares
            .clone()
            .enumerate()
            .filter_map(|(index, share)| is_counted(index).then_some(share))
            .sum();
        let rec_sum = (0..associations.len()).filter(|index| is_counted(*index));
        let rec_sum: f64 = rec_sum.map(rec_of).sum();
        let rec_sum = if rec_sum > 0.0 { rec_sum } else { 1.0 };
        let place = |(index, share): (usize, f64)| {
            let mut place = AssociationPriority {
                has_share: share > 0.0,
                share_fraction: if share_sum > 0.0 {
                    share / share_sum
                } else {
                    0.0
                },
                rec: rec_of(index),
                priority: 0.0,
            };
            if share_sum > 0.0 {
                place.priority = place.computed(rec_sum);
            }
            place
        };
        let places = shares.enumerate().map(place).collect();
        Priorities { places, rec_sum }
    }

    /// Returns the priority, never above 0; negative infinity for an unknown association.
    pub fn of(&self, association: AssociationIndex) -> f64 {
        let place = self.places.get(association.0);
        place.map_or(f64::NEG_INFINITY, |place| place.priority)
    }

    /// Counts a planned task, which takes this fraction of the worker, as received at once, so that another scheduler is next.
    pub fn bump(&mut self, association: AssociationIndex, fraction_of_host: f64) {
        let more = amount(fraction_of_host) * self.rec_sum / PLANNED_PART;
        if let Some(place) = self.places.get_mut(association.0) {
            place.rec += more;
            place.priority = place.computed(self.rec_sum);
        }
    }

    /// Adds received work, in the unit of `rec`.
    pub fn count_as_got(&mut self, association: AssociationIndex, rec: f64) {
        if let Some(place) = self.places.get_mut(association.0) {
            place.rec = amount(place.rec + amount(rec));
            place.priority = place.computed(self.rec_sum);
        }
    }

    /// Returns the work due to the scheduler for each unit that it received; infinite if it received nothing, and 0 without a share.
    pub fn debt(&self, association: AssociationIndex) -> f64 {
        match self.places.get(association.0) {
            Some(place) if place.share_fraction > 0.0 => {
                place.share_fraction / (place.rec / self.rec_sum)
            }
            Some(_) | None => 0.0,
        }
    }

    /// Returns the associations by priority, highest first; equal ones in the order of their indexes.
    pub fn in_order(&self) -> Vec<AssociationIndex> {
        let mut all: Vec<_> = (0..self.places.len()).map(AssociationIndex).collect();
        all.sort_by(|one, other| self.before(*one, *other));
        all
    }

    /// Compares two associations in the order of [`in_order`](Self::in_order).
    pub(super) fn before(&self, one: AssociationIndex, other: AssociationIndex) -> Ordering {
        let by_priority = self.of(other).total_cmp(&self.of(one));
        by_priority.then(one.cmp(&other))
    }
}

impl AssociationPriority {
    fn computed(&self, rec_sum: f64) -> f64 {
        let got = self.rec / rec_sum;
        if !self.has_share {
            NO_SHARE - got
        } else if self.share_fraction > 0.0 {
            // `total_cmp` puts a negative zero before a positive one, so none must arise.
            0.0 - got / self.share_fraction
        } else {
            0.0 - got
        }
    }
}

#[cfg(test)]
mod tests;
