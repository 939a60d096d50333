//! Some of the counters: by name in an index, and in slots that can be walked a few at a time.

use std::collections::HashMap;

use super::Budget;
use crate::policy::rate_limit::{
    Demand, Row, Subject,
    log::{Log, ROOM_FIRST, ms},
};

#[derive(Debug, Default)]
pub(super) struct Shard {
    index: HashMap<(Row, Subject), u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// The slot to look at next.
    cursor: usize,
}

#[derive(Debug)]
pub(super) struct Slot {
    name: (Row, Subject),
    pub(super) log: Log,
    window_ms: i64,
    pub(super) elsewhere: Elsewhere,
}

/// Up to when admissions of a counter may stand at the overflow of its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elsewhere {
    /// Among those of newcomers, of which it was one.
    pub(super) shared_until_ms: i64,
    /// Among those for which logs had no room.
    pub(super) lent_until_ms: i64,
}

impl Elsewhere {
    pub(super) const NONE: Self = Self { shared_until_ms: i64::MIN, lent_until_ms: i64::MIN };
}

impl Slot {
    /// Whether a newcomer would be told the same. One that still shares would be, as a newcomer.
    fn is_over(&self, now_ms: i64) -> bool {
        let lent_since_ms = now_ms.saturating_sub(self.elsewhere.lent_until_ms);
        self.log.is_over(now_ms, self.window_ms) && lent_since_ms > self.window_ms
    }
}

impl Shard {
    pub(super) fn find(&self, demand: &Demand) -> Option<u32> {
        self.index.get(&(demand.row, demand.subject)).copied()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(place(slot))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(place(slot))?.as_mut()
    }

    /// A counter that was not there, with its first admission. Its price is paid.
    pub(super) fn insert(&mut self, demand: &Demand, elsewhere: Elsewhere, now_ms: i64) {
        let name = (demand.row, demand.subject);
        let mut log = Log::default();
        log.grow(ROOM_FIRST);
        log.admit(now_ms);
        let slot = Some(Slot { name, log, window_ms: ms(demand.rate.window), elsewhere });
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.slots.get_mut(place(number)) {
            *place = slot;
            self.index.insert(name, number);
        }
    }

    /// Looks at a few slots, and gives back what is over.
    pub(super) fn sweep(&mut self, now_ms: i64, most: usize, budget: &Budget) {
        for _ in 0..most.min(self.slots.len()) {
            let at = self.cursor;
            self.cursor = at.saturating_add(1);
            if self.cursor >= self.slots.len() {
                self.cursor = 0;
            }
            let Some(slot) = self.slots.get_mut(at) else { continue };
            let Some(ended) = slot.take_if(|it| it.is_over(now_ms)) else {
                continue;
            };
            self.index.remove(&ended.name);
            self.free.extend(u32::try_from(at));
            budget.give_places(ended.log.room().saturating_sub(ROOM_FIRST));
            budget.give_counter();
        }
    }
}

fn place(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
