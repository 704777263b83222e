//! The times that schedules have issued, so that a restart neither loses one nor issues it twice.
//!
//! A time counts as issued when nodes that have it come into force, and its record is written then. The log has that record before the
//! completion of any task on those nodes, and before anything else that follows from them. So a crash has two outcomes:
//!
//! * The record is on disk. The nodes were in force, and are issued again only for the rest of their lives.
//! * The record is not on disk. Then no completion on those nodes is on disk either, and the times are issued again as missed ones. The
//!   workers know what their tasks did meanwhile, and report it to the next scheduler before it starts anything.
//!
//! An earlier record could lose a time: a crash before the nodes are in force, followed by a downtime longer than their lives.

use std::collections::BTreeMap;

use brasserie_common::cluster_view::ScheduleView;
use brasserie_common_config::{
    ItemKey, ItemMemory, LevelId, ScheduleChanges, ScheduleMemory, Stretch, Zone,
};
use brasserie_scheduler_engine::NodeTable;

use crate::record::{Durable, GivenStretch, GivenTimes, ItemName, Record};

impl GivenTimes {
    fn of(memory: &ItemMemory) -> GivenTimes {
        let stretches = memory.stretches().iter().map(|stretch| GivenStretch {
            after: stretch.after,
            up_to: stretch.up_to,
            seen: stretch.seen,
            zone: stretch.zone.name().to_owned(),
        });
        GivenTimes {
            stretches: stretches.collect(),
            absent_since: memory.absent_since(),
        }
    }

    fn memory(&self) -> ItemMemory {
        let stretches = self.stretches.iter().map(|stretch| {
            let zone = Zone::named(&stretch.zone);
            Stretch {
                // If the zone is no longer in the list, the exact times are unknown, and only the fact that they were issued is known.
                after: match zone {
                    Some(_) => stretch.after,
                    None => stretch.up_to,
                },
                up_to: stretch.up_to,
                seen: stretch.seen,
                zone: zone.unwrap_or_else(Zone::utc),
            }
        });
        ItemMemory::restore(stretches.collect(), self.absent_since)
    }
}

impl Durable {
    /// Returns the issued times of schedules, in the form that continues them.
    pub fn schedule_memory(&self) -> ScheduleMemory {
        let items = self.times.iter();
        let items = items.map(|(item, given)| (ItemKey(item.0.clone()), given.memory()));
        ScheduleMemory(items.collect::<BTreeMap<_, _>>())
    }
}

/// Returns the record of changes of the issued times.
pub(crate) fn record_of(changes: ScheduleChanges) -> Record {
    let ScheduleChanges { changed, forgotten } = changes;
    let changed = changed.iter();
    let changed = changed.map(|(key, item)| (ItemName(key.0.clone()), GivenTimes::of(item)));
    Record::TimesGiven {
        changed: changed.collect(),
        forgotten: forgotten.into_iter().map(|key| ItemName(key.0)).collect(),
    }
}

/// Returns the next times of the `add_time` sources that gave a table, each with the level of its nodes.
pub(crate) fn schedules(table: &NodeTable) -> impl Iterator<Item = (LevelId, ScheduleView)> {
    table.times().next.iter().map(|of| {
        let name = table.level_names().get(of.level.index());
        let view = ScheduleView {
            source: of.source as u64,
            level: name.cloned().unwrap_or_default(),
            next_ms: of.next.as_ref().map(|next| next.at.as_millis()),
            next: of.next.as_ref().map(ToString::to_string),
        };
        (of.level, view)
    })
}
