//! Whose turn it is: schedulers by what they got lately beside what they should have got.
//!
//! `SP = -(REC / sum of REC) / (share / sum of shares)`, highest first: 0 for one that got nothing, -1 for one that got its share, less
//! for one that got more. It orders as the debt, share / REC, does, and is finite where that is not.

use std::cmp::Ordering;

use super::amounts::amount;
use super::types::{AssociationIndex, Associations};

/// What one without a share of its own is below all others by.
const NO_SHARE: f64 = -1000.0;
/// A task that fills the worker counts, when it is planned, as one of so many parts of all that was got lately: as an hour of a day.
const PLANNED_PART: f64 = 24.0;

/// The priorities of all associations, as they change while it is planned what runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Priorities {
    places: Vec<Place>,
    /// Of those that are counted; 1 where that is 0.
    rec_sum: f64,
}

/// Of one association.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    has_share: bool,
    /// Of the shares of those that are counted.
    share_fraction: f64,
    /// With what is planned for it.
    rec: f64,
    priority: f64,
}

impl Priorities {
    /// `rec` and `counted` are by association. The fractions are of what those that are counted have, so that for others they may be
    /// above 1. Where nobody who is counted has a share, all are equal.
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
            let mut place = Place {
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

    /// Never above 0. One that is not there comes after all that are.
    pub fn of(&self, association: AssociationIndex) -> f64 {
        let place = self.places.get(association.0);
        place.map_or(f64::NEG_INFINITY, |place| place.priority)
    }

    /// A task of it is planned that takes this part of the worker. It counts as got at once, so that the next is another's.
    pub fn bump(&mut self, association: AssociationIndex, fraction_of_host: f64) {
        let more = amount(fraction_of_host) * self.rec_sum / PLANNED_PART;
        if let Some(place) = self.places.get_mut(association.0) {
            place.rec += more;
            place.priority = place.computed(self.rec_sum);
        }
    }

    /// So much more counts as got, in the unit of what was.
    pub fn count_as_got(&mut self, association: AssociationIndex, rec: f64) {
        if let Some(place) = self.places.get_mut(association.0) {
            place.rec = amount(place.rec + amount(rec));
            place.priority = place.computed(self.rec_sum);
        }
    }

    /// What it should have got for each unit that it got; infinite if it got nothing, and 0 without a share.
    pub fn debt(&self, association: AssociationIndex) -> f64 {
        match self.places.get(association.0) {
            Some(place) if place.share_fraction > 0.0 => {
                place.share_fraction / (place.rec / self.rec_sum)
            }
            Some(_) | None => 0.0,
        }
    }

    /// The highest first; of equal ones, the one that is listed first.
    pub fn in_order(&self) -> Vec<AssociationIndex> {
        let mut all: Vec<_> = (0..self.places.len()).map(AssociationIndex).collect();
        all.sort_by(|one, other| self.before(*one, *other));
        all
    }

    /// The order of [`in_order`](Self::in_order).
    pub(super) fn before(&self, one: AssociationIndex, other: AssociationIndex) -> Ordering {
        let by_priority = self.of(other).total_cmp(&self.of(one));
        by_priority.then(one.cmp(&other))
    }
}

impl Place {
    fn computed(&self, rec_sum: f64) -> f64 {
        let got = self.rec / rec_sum;
        if !self.has_share {
            NO_SHARE - got
        } else if self.share_fraction > 0.0 {
            // No negative zero, which would come after a positive one.
            0.0 - got / self.share_fraction
        } else {
            0.0 - got
        }
    }
}

#[cfg(test)]
mod tests;
