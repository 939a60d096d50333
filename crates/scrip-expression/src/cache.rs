//! Compiled expressions, kept for the next time.
//!
//! A tenant has a handful of masks and indexes and uses them on every request. A hit takes a read
//! lock of one shard and sets a flag; only a miss writes. What was not used since the hand last
//! passed goes first (the clock algorithm). Errors are not kept: a wrong expression is the rare
//! case, and keeping it would let one caller push out what others use.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{Expression, ExpressionError};

const SHARDS: usize = 16;
/// What a compiled expression takes, about: its tree is some times its source.
const TREE_PER_SOURCE_BYTE: usize = 16;
const TREE_BYTES: usize = 512;

/// Shared by all threads.
pub struct ExpressionCache {
    shards: Vec<RwLock<Shard>>,
    hasher: RandomState,
    count_max: usize,
    bytes_max: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Arc<str>, Entry>,
    /// In the order in which the hand passes.
    hand: VecDeque<Arc<str>>,
    bytes: usize,
}

struct Entry {
    expression: Arc<Expression>,
    used: AtomicBool,
}

impl std::fmt::Debug for ExpressionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExpressionCache({} expressions)", self.len())
    }
}

impl ExpressionCache {
    /// At most so many expressions of about so many bytes together.
    #[must_use]
    pub fn new(count_max: usize, bytes_max: usize) -> Self {
        Self {
            shards: std::iter::repeat_with(RwLock::default).take(SHARDS).collect(),
            hasher: RandomState::new(),
            count_max: count_max.div_ceil(SHARDS),
            bytes_max: bytes_max.div_ceil(SHARDS),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// # Errors
    /// As [`Expression::parse`].
    pub fn parse(&self, source: &str) -> Result<Arc<Expression>, ExpressionError> {
        let Some(shard) = self.shard(source) else {
            return Expression::parse(source).map(Arc::new);
        };
        {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = shard.entries.get(source) {
                // Written only when it changes, so that threads do not fight over the line.
                if !entry.used.load(Ordering::Relaxed) {
                    entry.used.store(true, Ordering::Relaxed);
                }
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(Arc::clone(&entry.expression));
            }
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let expression = Arc::new(Expression::parse(source)?);
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        Ok(shard.insert(source, expression, (self.count_max, self.bytes_max)))
    }

    /// How often one was found, and how often not, so far.
    #[must_use]
    pub fn looked_up(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        let count =
            |it: &RwLock<Shard>| it.read().unwrap_or_else(PoisonError::into_inner).entries.len();
        self.shards.iter().map(count).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, source: &str) -> Option<&RwLock<Shard>> {
        let hash = usize::try_from(self.hasher.hash_one(source) >> 32).unwrap_or_default();
        self.shards.get(hash % SHARDS)
    }
}

fn bytes_of(source: &str) -> usize {
    source.len().saturating_mul(TREE_PER_SOURCE_BYTE).saturating_add(TREE_BYTES)
}

impl Shard {
    fn insert(
        &mut self,
        source: &str,
        expression: Arc<Expression>,
        (count_max, bytes_max): (usize, usize),
    ) -> Arc<Expression> {
        // Another thread may have been first.
        if let Some(entry) = self.entries.get(source) {
            return Arc::clone(&entry.expression);
        }
        let bytes = bytes_of(source);
        if count_max == 0 || bytes > bytes_max {
            return expression;
        }
        while self.entries.len() >= count_max || self.bytes.saturating_add(bytes) > bytes_max {
            self.evict();
        }
        let source: Arc<str> = source.into();
        let entry = Entry { expression: Arc::clone(&expression), used: AtomicBool::new(false) };
        self.hand.push_back(Arc::clone(&source));
        self.entries.insert(source, entry);
        self.bytes = self.bytes.saturating_add(bytes);
        expression
    }

    /// Passes over what was used, once, and takes the next.
    fn evict(&mut self) {
        while let Some(source) = self.hand.pop_front() {
            let was_used =
                self.entries.get(&source).map(|it| it.used.swap(false, Ordering::Relaxed));
            if was_used == Some(true) {
                self.hand.push_back(source);
                continue;
            }
            self.entries.remove(&source);
            self.bytes = self.bytes.saturating_sub(bytes_of(&source));
            return;
        }
    }
}
