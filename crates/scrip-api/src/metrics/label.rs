//! Metric labels: enums with a counter per variant. A label cannot be created from text of a
//! request.

use std::marker::PhantomData;

use scrip_core::types::metrics::{Counter, Gauge};

/// A closed set of label values.
pub trait Label: Copy + 'static {
    const ALL: &'static [Self];

    fn as_str(self) -> &'static str;

    /// The index in [`Label::ALL`].
    fn index(self) -> usize;
}

/// Declares enums that are metric labels. Each variant has the text of its label value.
#[macro_export]
macro_rules! labels {
    ($($(#[$about:meta])* $visibility:vis enum $Name:ident {
        $($(#[$of:meta])* $variant:ident $text:literal,)+
    })+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $Name { $($(#[$of])* $variant),+ }

        impl $crate::metrics::label::Label for $Name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            #[expect(clippy::as_conversions, reason = "a unit variant converts to its index")]
            fn index(self) -> usize {
                self as usize
            }
        }
    )+};
}

/// One number for each label value.
#[derive(Debug)]
pub struct PerLabel<L, N> {
    values: Vec<N>,
    label: PhantomData<L>,
}

pub type Counters<L> = PerLabel<L, Counter>;
pub type Gauges<L> = PerLabel<L, Gauge>;

impl<L: Label, N: Default> Default for PerLabel<L, N> {
    fn default() -> Self {
        Self { values: L::ALL.iter().map(|_| N::default()).collect(), label: PhantomData }
    }
}

impl<L: Label, N> PerLabel<L, N> {
    fn get(&self, label: L) -> Option<&N> {
        self.values.get(label.index())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &N)> {
        L::ALL.iter().map(|it| it.as_str()).zip(&self.values)
    }
}

impl<L: Label> Counters<L> {
    pub fn increment(&self, label: L) {
        self.add(label, 1);
    }

    pub fn add(&self, label: L, count: u64) {
        if let Some(counter) = self.get(label) {
            counter.add(count);
        }
    }
}

impl<L: Label> Gauges<L> {
    pub fn set(&self, label: L, level: u64) {
        if let Some(it) = self.get(label) {
            it.set(level);
        }
    }
}
