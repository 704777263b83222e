//! Gives back the memory of data that is no longer in force, in slices.

use std::collections::hash_map::IntoIter;
use std::sync::Arc;

use crate::forest::{Forest, NodeTable};
use crate::queues::columns::Columns;
use crate::queues::wait_lists::{WaitKey, Waiters};
use crate::work::{PIECE_COST, WorkBudget};

/// Nanoseconds to free the wait list of one place.
const LIST_COST: u64 = 300;
/// An allocation that is large for the allocator: before it serves one, it merges freed small chunks.
const LARGE_BYTES: usize = 1 << 14;
/// Nanoseconds to free one job's columns, if they are small.
const COLUMNS_COST: u64 = 200;

/// Data that was in force and is being freed.
///
/// Each turn frees some of it before other work, so its cost decides in which turn a table comes into force. The cost follows from sizes
/// alone, and not from other owners of the same data: other threads drop it at any time. A copy of an engine has none of it, because the
/// memory is not its own, so its refresh is ahead by as much.
#[derive(Debug, Default)]
pub(crate) struct Disposal {
    lists: Vec<IntoIter<WaitKey, Waiters>>,
    columns: Vec<Columns>,
    forests: Vec<Forest>,
    tables: Vec<OldTable>,
}

#[derive(Debug)]
struct OldTable {
    /// Absent if others own the table, too. The last owner frees it as a whole.
    own: Option<NodeTable>,
    /// Nanoseconds of freeing that are left, by this owner or another one.
    left: u64,
}

impl OldTable {
    fn new(table: Arc<NodeTable>) -> Self {
        OldTable {
            left: table.cost_to_shed(),
            own: Arc::try_unwrap(table).ok(),
        }
    }

    /// Frees a part. Returns whether all is done.
    fn shed(&mut self, work: &mut WorkBudget) -> bool {
        while self.left > 0 {
            if !work.is_left() {
                return false;
            }
            let piece = self.left.min(PIECE_COST);
            work.spend(piece);
            self.left -= piece;
            if let Some(own) = &mut self.own {
                own.shed(&mut WorkBudget::new(piece));
            }
        }
        true
    }
}

impl Clone for Disposal {
    fn clone(&self) -> Self {
        Disposal::default()
    }
}

impl Disposal {
    pub(crate) fn is_empty(&self) -> bool {
        let Disposal {
            lists,
            columns,
            forests,
            tables,
        } = self;
        lists.is_empty() && columns.is_empty() && forests.is_empty() && tables.is_empty()
    }

    pub(crate) fn take_table(&mut self, table: Option<Arc<NodeTable>>) {
        self.tables.extend(table.map(OldTable::new));
    }

    pub(crate) fn take_forest(&mut self, forest: Option<Box<Forest>>) {
        self.forests.extend(forest.map(|forest| *forest));
    }

    pub(crate) fn take_columns(&mut self, columns: Vec<Columns>) {
        if self.columns.is_empty() {
            self.columns = columns;
        } else {
            self.columns.extend(columns);
        }
    }

    pub(crate) fn take_lists(&mut self, lists: IntoIter<WaitKey, Waiters>) {
        self.lists.push(lists);
    }

    /// Frees a part. Returns whether all is gone.
    pub(crate) fn shed(&mut self, work: &mut WorkBudget) -> bool {
        while work.is_left() {
            if let Some(places) = self.lists.last_mut() {
                while work.is_left() {
                    work.spend(LIST_COST);
                    if places.next().is_none() {
                        self.lists.pop();
                        break;
                    }
                }
                // Lets the allocator merge chunks now, and not after millions of them.
                std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BYTES));
            } else if let Some(columns) = self.columns.last_mut() {
                work.spend(COLUMNS_COST);
                if columns.shed(work) {
                    self.columns.pop();
                }
            } else if let Some(forest) = self.forests.last_mut() {
                if let Some(table) = forest.shed(work) {
                    // The forest's reference goes first, because `OldTable::new` checks for other owners.
                    self.forests.pop();
                    self.tables.push(OldTable::new(table));
                }
            } else if let Some(table) = self.tables.last_mut() {
                if table.shed(work) {
                    self.tables.pop();
                }
            } else {
                self.columns = Vec::new();
                return true;
            }
        }
        self.is_empty()
    }
}
