//! One job's last statuses by node. A status takes six bytes if it is only bits and a time, as nearly all are. Nodes where the job never
//! ran take nothing.

use brasserie_common::collections::IdMap;
use brasserie_common::status::StoredStatus;
use brasserie_common::{NodeId, StatusBits, WallTime};

/// Statuses in one page. Few enough that a job that ran on a few nodes takes little memory, and many beside the pointer to the page.
const PAGE: usize = 64;

/// Bits of a short status for its time in milliseconds since the Unix epoch: enough until the year 2109.
const TIME_BITS: u32 = 42;
/// Bits of a short status for the code of its status bits.
const CODE_BITS: u32 = 6;
/// The code of no status.
const NONE: u64 = 0;
/// The code of a status that is in `Statuses::long`.
const LONG: u64 = (1 << CODE_BITS) - 1;

type Short = [u8; 6];
const _: () = assert!(TIME_BITS + CODE_BITS == 8 * size_of::<Short>() as u32);

type Page = Box<[Short; PAGE]>;

/// Invariant: a node's status is in a page, or in `long` if the page has the code `LONG`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statuses {
    pages: Vec<Option<Page>>,
    /// Number of pages that exist.
    present: usize,
    /// Status bits of the short codes, from code 1 on.
    codes: Vec<StatusBits>,
    /// Statuses that do not fit into a page: with a wait or data, an unusual time, or one code too many.
    long: IdMap<NodeId, StoredStatus>,
}

fn pack(code: u64, millis: u64) -> Short {
    let [a, b, c, d, e, f, _, _] = (code | (millis << CODE_BITS)).to_le_bytes();
    [a, b, c, d, e, f]
}

fn unpack(short: Short) -> (u64, u64) {
    let [a, b, c, d, e, f] = short;
    let word = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    (word & LONG, word >> CODE_BITS)
}

impl Statuses {
    fn short(&self, node: NodeId) -> (u64, u64) {
        let page = self.pages.get(node.index() / PAGE);
        page.and_then(Option::as_ref)
            .map_or((NONE, 0), |page| unpack(page[node.index() % PAGE]))
    }

    /// Returns the status bits of a code other than `NONE` and `LONG`.
    fn bits_of(&self, code: u64) -> StatusBits {
        self.codes[code as usize - 1]
    }

    pub(crate) fn bits(&self, node: NodeId) -> Option<StatusBits> {
        match self.short(node) {
            (NONE, _) => None,
            (LONG, _) => self.long.get(&node).map(|status| status.bits),
            (code, _) => Some(self.bits_of(code)),
        }
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<StoredStatus> {
        match self.short(node) {
            (NONE, _) => None,
            (LONG, _) => self.long.get(&node).cloned(),
            (code, millis) => Some(StoredStatus {
                bits: self.bits_of(code),
                time: WallTime::from_millis(millis.cast_signed()),
                backoff_seconds: 0,
                safety_seconds: 0,
                data: None,
            }),
        }
    }

    pub(crate) fn insert(&mut self, node: NodeId, status: StoredStatus) {
        let short = self.shorten(&status);
        let (page, place) = (node.index() / PAGE, node.index() % PAGE);
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        self.present += usize::from(self.pages[page].is_none());
        let page = self.pages[page].get_or_insert_with(|| Box::new([pack(NONE, 0); PAGE]));
        let was_long = unpack(page[place]).0 == LONG;
        page[place] = short.unwrap_or(pack(LONG, 0));
        if short.is_none() {
            self.long.insert(node, status);
        } else if was_long {
            self.long.remove(&node);
        }
    }

    /// Removes the status, as if the job had never run there.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let (page, place) = (node.index() / PAGE, node.index() % PAGE);
        let Some(slot) = self.pages.get_mut(page) else {
            return;
        };
        let Some(page) = slot else { return };
        if unpack(page[place]).0 == LONG {
            self.long.remove(&node);
        }
        page[place] = pack(NONE, 0);
        if page.iter().all(|short| unpack(*short).0 == NONE) {
            *slot = None;
            self.present -= 1;
            while self.pages.pop_if(|page| page.is_none()).is_some() {}
        }
    }

    /// Returns about how many bytes a copy takes; data is shared.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() * size_of::<Option<Page>>()
            + self.present * size_of::<[Short; PAGE]>()
            + self.long.capacity() * (size_of::<(NodeId, StoredStatus)>() + 1)
    }

    fn shorten(&mut self, status: &StoredStatus) -> Option<Short> {
        let is_plain =
            status.backoff_seconds == 0 && status.safety_seconds == 0 && status.data.is_none();
        let millis = u64::try_from(status.time.as_millis()).ok()?;
        if !is_plain || millis >> TIME_BITS != 0 {
            return None;
        }
        let known = self.codes.iter().position(|bits| *bits == status.bits);
        let index = match known {
            Some(index) => index,
            None if self.codes.len() as u64 + 1 < LONG => {
                self.codes.push(status.bits);
                self.codes.len() - 1
            }
            None => return None,
        };
        Some(pack(index as u64 + 1, millis))
    }

    /// Iterates over the nodes with a status of one page; `None` behind the last page.
    pub(crate) fn page(&self, page: usize) -> Option<impl Iterator<Item = NodeId> + '_> {
        let shorts = self.pages.get(page)?.as_deref().into_iter().flatten();
        let present = shorts
            .enumerate()
            .filter(|(_, short)| unpack(**short).0 != NONE);
        Some(present.map(move |(place, _)| NodeId((page * PAGE + place) as u32)))
    }

    /// Iterates over all statuses, by node.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, StoredStatus)> + '_ {
        let pages = self.pages.iter().enumerate();
        let present = pages.filter(|(_, page)| page.is_some());
        let nodes = present.flat_map(|(page, _)| page * PAGE..(page + 1) * PAGE);
        nodes.filter_map(|node| {
            let node = NodeId(node as u32);
            Some((node, self.get(node)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn status(kind: u8, bits: u16, millis: i64) -> StoredStatus {
        StoredStatus {
            bits: StatusBits(bits),
            time: WallTime::from_millis(millis),
            backoff_seconds: u32::from(kind == 1),
            safety_seconds: u32::from(kind == 2),
            data: (kind == 3).then(Default::default),
        }
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn gives_back_what_was_put_in(
            steps in proptest::collection::vec(
                (0u32..300, 0u8..8, 0u16..100, prop_oneof![-5i64..1 << 41, (1i64 << 42) - 2..(1 << 42) + 2]),
                1..200,
            ),
        ) {
            let mut statuses = Statuses::default();
            let mut model = BTreeMap::new();
            for (node, kind, bits, millis) in steps {
                if kind > 5 {
                    statuses.remove(NodeId(node));
                    model.remove(&NodeId(node));
                    continue;
                }
                let status = status(kind, bits, millis);
                statuses.insert(NodeId(node), status.clone());
                model.insert(NodeId(node), status);
            }
            for node in (0..400).map(NodeId) {
                prop_assert_eq!(statuses.get(node), model.get(&node).cloned());
                prop_assert_eq!(statuses.bits(node), model.get(&node).map(|s| s.bits));
            }
            prop_assert_eq!(statuses.present, statuses.pages.iter().flatten().count());
            prop_assert_eq!(statuses.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_plain_status_is_short_and_a_far_node_costs_a_pointer() {
        let mut statuses = Statuses::default();
        statuses.insert(NodeId(1000), status(0, 4, 1_800_000_000_123));
        assert!(statuses.long.is_empty());
        assert_eq!(statuses.pages.iter().flatten().count(), 1);
        statuses.insert(NodeId(1000), status(3, 4, 5));
        assert_eq!(statuses.long.len(), 1);
        assert!(statuses.bytes() < 1000, "{}", statuses.bytes());
        statuses.insert(NodeId(1000), status(0, 4, 5));
        assert!(statuses.long.is_empty());
        statuses.remove(NodeId(1000));
        statuses.remove(NodeId(5000));
        assert_eq!(statuses.pages.iter().flatten().count(), 0);
    }
}
