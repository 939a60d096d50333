//! Which cards each directory server knows: every card of the table has a range of its own, and what
//! is left of a brand lies around them.

use std::fmt;

use scrip_threeds::{
    code::{AcsInformation, Action, Scheme},
    format::{Digits, List, Text, Url, Version, VersionNumber},
    message::{CardRange, RANGES_MAX},
};

use crate::{
    card::{CARDS, Card, Challenge, MethodPage, Script},
    knob::Edition,
    settings::Unusable,
};

/// What belongs to a brand, from and to, in one length each.
const BRANDS: &[(Scheme, &str, &str)] = &[
    (Scheme::Visa, "4000000000000", "4999999999999"),
    (Scheme::Visa, "4000000000000000", "4999999999999999"),
    (Scheme::Visa, "4000000000000000000", "4999999999999999999"),
    (Scheme::Mastercard, "2221000000000000", "2720999999999999"),
    (Scheme::Mastercard, "5100000000000000", "5599999999999999"),
    (Scheme::Mastercard, "6700000000000000", "6799999999999999"),
    (Scheme::AmericanExpress, "340000000000000", "349999999999999"),
    (Scheme::AmericanExpress, "370000000000000", "379999999999999"),
    (Scheme::Discover, "30000000000000", "30599999999999"),
    (Scheme::Discover, "36000000000000", "36999999999999"),
    (Scheme::Discover, "38000000000000", "39999999999999"),
    (Scheme::Discover, "6011000000000000", "6011999999999999"),
    (Scheme::Discover, "6440000000000000", "6599999999999999"),
    (Scheme::Jcb, "3528000000000000", "3589999999999999"),
    (Scheme::UnionPay, "6200000000000000", "6299999999999999"),
    (Scheme::UnionPay, "62000000000000000", "62999999999999999"),
    (Scheme::UnionPay, "620000000000000000", "629999999999999999"),
    (Scheme::UnionPay, "6200000000000000000", "6299999999999999999"),
];

/// What the second edition does to the first, of Visa.
const ADDED: &str = "4100000000000003";
const CHANGED: &str = "4242424242424242";
const GONE: &str = "4111111111111111";

/// A version that nobody here speaks.
const FOREIGN: &str = "2.3.1";

/// One range, before it is written into a message. Not to be printed: most are one card.
#[derive(Clone, PartialEq, Eq)]
struct Row {
    digits: usize,
    start: u64,
    end: u64,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Common,
    WithoutMethod,
    Foreign,
}

/// The ranges of one scheme in both editions.
pub(crate) struct Ranges {
    first: Vec<Row>,
    second: Vec<Row>,
    method_url: Url<256>,
    foreign: VersionNumber,
    /// The serial numbers of both.
    serials: [Text<1, 20>; 2],
}

impl fmt::Debug for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ranges({})", self.first.len())
    }
}

/// What a question is answered with.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) serial_number: Text<1, 20>,
    pub(crate) ranges: Option<List<CardRange, RANGES_MAX>>,
}

impl Ranges {
    pub(crate) fn of(scheme: Scheme, method_url: Url<256>) -> Result<Self, Unusable> {
        let table = |name| move |_| Unusable::Table(name);
        let serial = |text| Text::parse(text).map_err(table("serials"));
        Ok(Self {
            first: rows(scheme, Edition::First).ok_or(Unusable::Table("ranges"))?,
            second: rows(scheme, Edition::Second).ok_or(Unusable::Table("ranges"))?,
            method_url,
            foreign: VersionNumber::parse(FOREIGN).ok_or(Unusable::Table("versions"))?,
            serials: [serial("1")?, serial("2")?],
        })
    }

    /// Everything, or what changed since a serial number; none if that was never one.
    pub(crate) fn tell(&self, now: Edition, since: Option<&Text<1, 20>>) -> Option<Told> {
        let current = self.rows(now);
        let changes = match since {
            None => changes(&[], current),
            Some(serial) => changes(self.rows(self.edition(serial)?), current),
        };
        let ranges = changes.iter().map(|(action, row)| self.write(*action, row));
        let ranges = ranges.collect::<Option<Vec<_>>>()?;
        let [first, second] = &self.serials;
        let serial_number = if now == Edition::First { first } else { second }.clone();
        Some(Told { serial_number, ranges: List::new(ranges) })
    }

    fn rows(&self, edition: Edition) -> &[Row] {
        match edition {
            Edition::First => &self.first,
            Edition::Second => &self.second,
        }
    }

    fn edition(&self, serial: &Text<1, 20>) -> Option<Edition> {
        let [first, second] = &self.serials;
        let second = (serial == second).then_some(Edition::Second);
        (serial == first).then_some(Edition::First).or(second)
    }

    /// Whether an authentication of this card can come here.
    pub(crate) fn has(&self, edition: Edition, number: &str) -> bool {
        let Some(Number { digits, value: number }) = point(number) else { return false };
        let within = |it: &Row| it.digits == digits && (it.start..=it.end).contains(&number);
        self.rows(edition).iter().any(|it| within(it) && it.shape != Shape::Foreign)
    }

    fn write(&self, action: Action, row: &Row) -> Option<CardRange> {
        let end = |number: u64| Digits::parse(&format!("{number:0width$}", width = row.digits));
        let kept = action != Action::Delete;
        let foreign = row.shape == Shape::Foreign;
        let version = |it: Version| if foreign { self.foreign } else { it.number() };
        let can = vec![
            AcsInformation::Authentication,
            AcsInformation::Attempts,
            AcsInformation::Decoupled,
        ];
        Some(CardRange {
            start: end(row.start).ok()?,
            end: end(row.end).ok()?,
            action: Some(action),
            acs_start: kept.then(|| version(Version::V210)),
            acs_end: kept.then(|| version(Version::V220)),
            ds_start: None,
            ds_end: None,
            acs_information: List::new(can).filter(|_| kept),
            method_url: (kept && row.shape == Shape::Common).then(|| self.method_url.clone()),
        })
    }
}

/// From some ranges to others: what goes, what is changed, what comes.
fn changes<'a>(old: &'a [Row], new: &'a [Row]) -> Vec<(Action, &'a Row)> {
    let same = |one: &Row, other: &Row| {
        (one.digits, one.start, one.end) == (other.digits, other.start, other.end)
    };
    let gone = old.iter().filter(|it| !new.iter().any(|other| same(it, other)));
    let kept = new.iter().filter_map(|it| match old.iter().find(|other| same(it, other)) {
        None => Some((Action::Add, it)),
        Some(before) if before.shape != it.shape => Some((Action::Modify, it)),
        Some(_) => None,
    });
    gone.map(|it| (Action::Delete, it)).chain(kept).collect()
}

fn rows(scheme: Scheme, edition: Edition) -> Option<Vec<Row>> {
    let cards: Vec<_> = CARDS.iter().filter(|it| it.schemes.contains(&scheme)).collect();
    let mut rows = Vec::new();
    for card in &cards {
        let Number { digits, value: start } = point(card.number)?;
        let shape = shape(card, edition);
        rows.extend(shape.map(|shape| Row { digits, start, end: start, shape }));
    }
    for (_, start, end) in BRANDS.iter().filter(|(of, ..)| *of == scheme) {
        rows.extend(around(&cards, point(start)?, point(end)?)?);
    }
    rows.sort_unstable_by_key(|it| (it.digits, it.start));
    Some(rows)
}

/// How a card's own range looks; none if it has none.
fn shape(card: &Card, edition: Edition) -> Option<Shape> {
    let second = edition == Edition::Second;
    match card.script {
        _ if second && card.number == ADDED => Some(Shape::Common),
        _ if second && card.number == GONE => None,
        _ if second && card.number == CHANGED => Some(Shape::WithoutMethod),
        Script::Unsupported => None,
        Script::NoCommonVersion => Some(Shape::Foreign),
        Script::Challenge(Challenge { method: MethodPage::None, .. }) => Some(Shape::WithoutMethod),
        Script::Challenge(_) | Script::Frictionless(_) | Script::DirectoryError => {
            Some(Shape::Common)
        }
    }
}

/// What is left between the cards that have ranges of their own, or are to have none.
fn around(cards: &[&Card], from: Number, to: Number) -> Option<Vec<Row>> {
    let Number { digits, value: end } = to;
    let mut own: Vec<_> = cards.iter().filter_map(|it| point(it.number)).collect();
    own.sort_unstable();
    let mut rows = Vec::new();
    let mut start = from.value;
    let within = own.into_iter().filter(|it| (from..=to).contains(it));
    for number in within.map(|it| it.value) {
        if start < number {
            let end = number.checked_sub(1)?;
            rows.push(Row { digits, start, end, shape: Shape::Common });
        }
        start = number.checked_add(1)?;
    }
    if start <= end {
        rows.push(Row { digits, start, end, shape: Shape::Common });
    }
    Some(rows)
}

/// A card number. Those of one length stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Number {
    digits: usize,
    value: u64,
}

fn point(number: &str) -> Option<Number> {
    number.parse().ok().map(|value| Number { digits: number.len(), value })
}
