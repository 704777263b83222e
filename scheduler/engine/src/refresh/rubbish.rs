//! What was in force and is no longer: its memory is given back in slices.

use std::collections::hash_map::IntoIter;
use std::sync::Arc;

use crate::forest::NodeTable;
use crate::forest::index::Forest;
use crate::placement::wait_lists::{WaitKey, WaitLists, Waiters};
use crate::statuses::columns::Columns;
use crate::work::{PIECE_COST, Work};

/// One job's list of waiting tasks is freed.
const LIST_COST: u64 = 300;
/// A piece of memory that is large for the allocator: before it gives one out, it puts the small ones together that were freed.
const LARGE_BYTES: usize = 1 << 14;
/// One job's columns are freed, if they are small.
const COLUMNS_COST: u64 = 200;

/// What was in force, on its way to the allocator.
///
/// Each turn goes on with it before anything else, so how long it takes decides in which turn a table comes in force. That follows from
/// sizes alone, and not from who else still has what is thrown away: other threads let go of it when they like. A copy of an engine has
/// none of it, as the memory is not its own, and is ahead by as much.
#[derive(Debug, Default)]
pub(crate) struct Rubbish {
    lists: Vec<IntoIter<WaitKey, Waiters>>,
    columns: Vec<Columns>,
    forests: Vec<Forest>,
    tables: Vec<OldTable>,
}

#[derive(Debug)]
struct OldTable {
    /// Absent if others have it, too: whoever is the last lets go of it as a whole.
    own: Option<NodeTable>,
    /// Of the work of giving it back, whoever does it.
    left: u64,
}

impl OldTable {
    fn new(table: Arc<NodeTable>) -> Self {
        OldTable {
            left: table.cost_to_shed(),
            own: Arc::try_unwrap(table).ok(),
        }
    }

    /// Goes on; whether all is done.
    fn shed(&mut self, work: &mut Work) -> bool {
        while self.left > 0 {
            if !work.is_left() {
                return false;
            }
            let piece = self.left.min(PIECE_COST);
            work.spend(piece);
            self.left -= piece;
            if let Some(own) = &mut self.own {
                own.shed(&mut Work::new(piece));
            }
        }
        true
    }
}

impl Clone for Rubbish {
    fn clone(&self) -> Self {
        Rubbish::default()
    }
}

impl Rubbish {
    pub(crate) fn is_empty(&self) -> bool {
        let Rubbish {
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

    pub(crate) fn take_lists(&mut self, lists: &mut WaitLists) {
        self.lists.push(lists.take_all());
    }

    /// Goes on; whether all is gone.
    pub(crate) fn shed(&mut self, work: &mut Work) -> bool {
        while work.is_left() {
            if let Some(places) = self.lists.last_mut() {
                while work.is_left() {
                    work.spend(LIST_COST);
                    if places.next().is_none() {
                        self.lists.pop();
                        break;
                    }
                }
                // Now, and not after millions of them.
                std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BYTES));
            } else if let Some(columns) = self.columns.last_mut() {
                work.spend(COLUMNS_COST);
                if columns.shed(work) {
                    self.columns.pop();
                }
            } else if let Some(forest) = self.forests.last_mut() {
                if let Some(table) = forest.shed(work) {
                    // Before it is asked whether somebody else has the table.
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
