//! Scheduled steps in order of true time. A seeded draw orders steps of the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use brasserie_common::Time;

use crate::dice::Dice;

/// The queue of scheduled steps.
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<(Time, u32, u32)>>,
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    order: Dice,
}

impl<T> Queue<T> {
    pub fn new(order: Dice) -> Self {
        Queue {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            order,
        }
    }

    pub fn push(&mut self, at: Time, what: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(what);
                slot
            }
            None => {
                self.slots.push(Some(what));
                // Invariant: 2^32 scheduled steps do not fit in memory.
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 things to come")
            }
        };
        let order = (self.order.next_u64() >> 32) as u32;
        self.heap.push(Reverse((at, order, slot)));
    }

    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    pub fn pop(&mut self) -> Option<(Time, T)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        let what = self.slots[slot as usize]
            .take()
            .expect("Invariant: a heap entry owns its slot");
        self.free.push(slot);
        Some((at, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::RandomStream;

    #[test]
    fn time_orders_and_slots_are_used_again() {
        let mut queue = Queue::new(Dice::new(1, RandomStream::Order));
        for at in [3_u64, 1, 2] {
            queue.push(Time::from_nanos(at), at);
        }
        assert_eq!(queue.pop().map(|(_, what)| what), Some(1));
        queue.push(Time::from_nanos(0), 0);
        let rest: Vec<u64> = std::iter::from_fn(|| queue.pop().map(|(_, what)| what)).collect();
        assert_eq!(rest, [0, 2, 3]);
        assert_eq!(queue.slots.len(), 3);
    }
}
