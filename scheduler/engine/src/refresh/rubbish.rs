//! What was in force and is no longer: its memory is given back in slices.

use std::collections::hash_map::IntoIter;
use std::sync::Arc;

use crate::forest::NodeTable;
use crate::forest::index::Forest;
use crate::placement::wait_lists::{WaitKey, WaitLists, Waiters};
use crate::statuses::columns::Columns;
use crate::work::Work;

/// One job's list of waiting tasks is freed.
const LIST_COST: u64 = 300;
/// A piece of memory that is large for the allocator: before it gives one out, it puts the small ones together that were freed.
const LARGE_BYTES: usize = 1 << 14;
/// One job's columns are freed, if they are small.
const COLUMNS_COST: u64 = 200;

/// No part of the state: a copy of an engine has none.
#[derive(Debug, Default)]
pub(crate) struct Rubbish {
    lists: Vec<IntoIter<WaitKey, Waiters>>,
    columns: Vec<Columns>,
    forests: Vec<Forest>,
    /// Others may still have them.
    shared: Vec<Arc<NodeTable>>,
    tables: Vec<NodeTable>,
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
            shared,
            tables,
        } = self;
        lists.is_empty()
            && columns.is_empty()
            && forests.is_empty()
            && shared.is_empty()
            && tables.is_empty()
    }

    pub(crate) fn take_table(&mut self, table: Option<Arc<NodeTable>>) {
        self.shared.extend(table);
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
                    self.shared.push(table);
                    self.forests.pop();
                }
            } else if let Some(table) = self.shared.pop() {
                // Whoever has it otherwise lets go of it as a whole.
                self.tables.extend(Arc::try_unwrap(table).ok());
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
