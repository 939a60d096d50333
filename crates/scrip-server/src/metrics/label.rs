//! Labels are words of ours: enums, each with its own counters. There is no way to make one of text
//! that came from outside.

use std::marker::PhantomData;

use scrip_core::measure::{Counter, Level};

/// A closed set of words.
pub(crate) trait Label: Copy + 'static {
    const ALL: &'static [Self];

    fn as_str(self) -> &'static str;

    /// Its place in [`Label::ALL`].
    fn index(self) -> usize;
}

macro_rules! labels {
    ($($(#[$about:meta])* $visibility:vis enum $Name:ident {
        $($(#[$of:meta])* $variant:ident $text:literal,)+
    })+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $Name { $($(#[$of])* $variant),+ }

        impl Label for $Name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            #[expect(clippy::as_conversions, reason = "a unit variant is its own place")]
            fn index(self) -> usize {
                self as usize
            }
        }
    )+};
}

pub(crate) use labels;

/// One number for each word.
#[derive(Debug)]
pub(crate) struct PerLabel<L, N> {
    numbers: Vec<N>,
    of: PhantomData<L>,
}

pub(crate) type Counters<L> = PerLabel<L, Counter>;
pub(crate) type Levels<L> = PerLabel<L, Level>;

impl<L: Label, N: Default> Default for PerLabel<L, N> {
    fn default() -> Self {
        Self { numbers: L::ALL.iter().map(|_| N::default()).collect(), of: PhantomData }
    }
}

impl<L: Label, N> PerLabel<L, N> {
    fn get(&self, label: L) -> Option<&N> {
        self.numbers.get(label.index())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &N)> {
        L::ALL.iter().map(|it| it.as_str()).zip(&self.numbers)
    }
}

impl<L: Label> Counters<L> {
    pub(crate) fn one(&self, label: L) {
        self.add(label, 1);
    }

    pub(crate) fn add(&self, label: L, count: u64) {
        if let Some(counter) = self.get(label) {
            counter.add(count);
        }
    }
}

impl<L: Label> Levels<L> {
    pub(crate) fn set(&self, label: L, level: u64) {
        if let Some(it) = self.get(label) {
            it.set(level);
        }
    }
}
