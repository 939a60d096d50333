//! The card ranges of each directory server. Every card of the table has its own range; other
//! ranges cover the remaining numbers of a brand.

use std::fmt;

use scrip_threeds::{
    code::{AcsInformation, RangeAction, Scheme},
    format::{Digits, List, Text, Url, Version, VersionNumber},
    message::{CardRange, RANGES_MAX},
};

use crate::{
    behavior::RangeEdition,
    card::{CARDS, Card, CardScenario, ChallengeScenario, MethodPage},
    settings::StartError,
};

/// First and last number of each brand, one entry per number length.
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

/// The changes from the first to the second edition, for Visa.
const ADDED: &str = "4100000000000003";
const CHANGED: &str = "4242424242424242";
const REMOVED: &str = "4111111111111111";

/// A version that neither Scrip nor the simulator supports.
const UNSUPPORTED_VERSION: &str = "2.3.1";

/// One range before it is written into a message. Must not be printed: most ranges are a single
/// card.
#[derive(Clone, PartialEq, Eq)]
struct SimulatedRange {
    digits: usize,
    start: u64,
    end: u64,
    variant: RangeVariant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeVariant {
    Standard,
    WithoutMethod,
    UnsupportedVersion,
}

/// The ranges of one scheme in both editions.
pub(crate) struct SchemeRangeEditions {
    first_edition: Vec<SimulatedRange>,
    second_edition: Vec<SimulatedRange>,
    method_url: Url<256>,
    unsupported_version: VersionNumber,
    /// The serial numbers of both editions.
    serials: [Text<1, 20>; 2],
}

impl fmt::Debug for SchemeRangeEditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SchemeRangeEditions({})", self.first_edition.len())
    }
}

/// The content of a `PRes`.
#[derive(Debug)]
pub(crate) struct RangeUpdate {
    pub(crate) serial_number: Text<1, 20>,
    pub(crate) ranges: Option<List<CardRange, RANGES_MAX>>,
}

impl SchemeRangeEditions {
    pub(crate) fn for_scheme(scheme: Scheme, method_url: Url<256>) -> Result<Self, StartError> {
        let table = |name| move |_| StartError::Table(name);
        let serial = |text| Text::parse(text).map_err(table("serials"));
        Ok(Self {
            first_edition: build_ranges(scheme, RangeEdition::First)
                .ok_or(StartError::Table("ranges"))?,
            second_edition: build_ranges(scheme, RangeEdition::Second)
                .ok_or(StartError::Table("ranges"))?,
            method_url,
            unsupported_version: VersionNumber::parse(UNSUPPORTED_VERSION)
                .ok_or(StartError::Table("versions"))?,
            serials: [serial("1")?, serial("2")?],
        })
    }

    /// All ranges, or the changes since a serial number. `None` if the serial number is unknown.
    pub(crate) fn update_since(
        &self,
        edition: RangeEdition,
        since: Option<&Text<1, 20>>,
    ) -> Option<RangeUpdate> {
        let current = self.ranges_in(edition);
        let changes = match since {
            None => diff_ranges(&[], current),
            Some(serial) => diff_ranges(self.ranges_in(self.edition_with_serial(serial)?), current),
        };
        let ranges = changes.iter().map(|(action, row)| self.to_card_range(*action, row));
        let ranges = ranges.collect::<Option<Vec<_>>>()?;
        let [first, second] = &self.serials;
        let serial_number = if edition == RangeEdition::First { first } else { second }.clone();
        Some(RangeUpdate { serial_number, ranges: List::new(ranges) })
    }

    fn ranges_in(&self, edition: RangeEdition) -> &[SimulatedRange] {
        match edition {
            RangeEdition::First => &self.first_edition,
            RangeEdition::Second => &self.second_edition,
        }
    }

    fn edition_with_serial(&self, serial: &Text<1, 20>) -> Option<RangeEdition> {
        let [first, second] = &self.serials;
        let second = (serial == second).then_some(RangeEdition::Second);
        (serial == first).then_some(RangeEdition::First).or(second)
    }

    /// Whether this directory server accepts an `AReq` for this card.
    pub(crate) fn contains_card(&self, edition: RangeEdition, number: &str) -> bool {
        let Some(CardNumberValue { digits, value: number }) = parse_number(number) else {
            return false;
        };
        let is_in_range =
            |it: &SimulatedRange| it.digits == digits && (it.start..=it.end).contains(&number);
        self.ranges_in(edition)
            .iter()
            .any(|it| is_in_range(it) && it.variant != RangeVariant::UnsupportedVersion)
    }

    fn to_card_range(&self, action: RangeAction, range: &SimulatedRange) -> Option<CardRange> {
        let parse_digits =
            |number: u64| Digits::parse(&format!("{number:0width$}", width = range.digits));
        let is_present = action != RangeAction::Delete;
        let is_unsupported = range.variant == RangeVariant::UnsupportedVersion;
        let version =
            |it: Version| if is_unsupported { self.unsupported_version } else { it.number() };
        let information = vec![
            AcsInformation::Authentication,
            AcsInformation::Attempts,
            AcsInformation::Decoupled,
        ];
        Some(CardRange {
            start: parse_digits(range.start).ok()?,
            end: parse_digits(range.end).ok()?,
            action: Some(action),
            acs_start: is_present.then(|| version(Version::V210)),
            acs_end: is_present.then(|| version(Version::V220)),
            ds_start: None,
            ds_end: None,
            acs_information: List::new(information).filter(|_| is_present),
            method_url: (is_present && range.variant == RangeVariant::Standard)
                .then(|| self.method_url.clone()),
        })
    }
}

/// The deleted, changed and added ranges between two editions.
fn diff_ranges<'a>(
    old: &'a [SimulatedRange],
    new: &'a [SimulatedRange],
) -> Vec<(RangeAction, &'a SimulatedRange)> {
    let is_same_range = |left: &SimulatedRange, right: &SimulatedRange| {
        (left.digits, left.start, left.end) == (right.digits, right.start, right.end)
    };
    let removed = old.iter().filter(|it| !new.iter().any(|right| is_same_range(it, right)));
    let added_or_changed =
        new.iter().filter_map(|it| match old.iter().find(|right| is_same_range(it, right)) {
            None => Some((RangeAction::Add, it)),
            Some(old_range) if old_range.variant != it.variant => Some((RangeAction::Modify, it)),
            Some(_) => None,
        });
    removed.map(|it| (RangeAction::Delete, it)).chain(added_or_changed).collect()
}

fn build_ranges(scheme: Scheme, edition: RangeEdition) -> Option<Vec<SimulatedRange>> {
    let cards: Vec<_> = CARDS.iter().filter(|it| it.schemes.contains(&scheme)).collect();
    let mut ranges = Vec::new();
    for card in &cards {
        let CardNumberValue { digits, value: start } = parse_number(card.number)?;
        let variant = variant_for_card(card, edition);
        ranges.extend(variant.map(|variant| SimulatedRange { digits, start, end: start, variant }));
    }
    for (_, start, end) in BRANDS.iter().filter(|(brand_scheme, ..)| *brand_scheme == scheme) {
        ranges.extend(gaps_between_cards(&cards, parse_number(start)?, parse_number(end)?)?);
    }
    ranges.sort_unstable_by_key(|it| (it.digits, it.start));
    Some(ranges)
}

/// The variant of a card's own range. `None` if the card has no range.
fn variant_for_card(card: &Card, edition: RangeEdition) -> Option<RangeVariant> {
    let is_second_edition = edition == RangeEdition::Second;
    match card.scenario {
        _ if is_second_edition && card.number == ADDED => Some(RangeVariant::Standard),
        _ if is_second_edition && card.number == REMOVED => None,
        _ if is_second_edition && card.number == CHANGED => Some(RangeVariant::WithoutMethod),
        CardScenario::NotEnrolled => None,
        CardScenario::NoCommonVersion => Some(RangeVariant::UnsupportedVersion),
        CardScenario::Challenge(ChallengeScenario { method_page: MethodPage::None, .. }) => {
            Some(RangeVariant::WithoutMethod)
        }
        CardScenario::Challenge(_)
        | CardScenario::Frictionless(_)
        | CardScenario::DirectoryError => Some(RangeVariant::Standard),
    }
}

/// The ranges between the cards that have their own range or no range.
fn gaps_between_cards(
    cards: &[&Card],
    from: CardNumberValue,
    to: CardNumberValue,
) -> Option<Vec<SimulatedRange>> {
    let CardNumberValue { digits, value: end } = to;
    let mut card_numbers: Vec<_> = cards.iter().filter_map(|it| parse_number(it.number)).collect();
    card_numbers.sort_unstable();
    let mut gaps = Vec::new();
    let mut start = from.value;
    let numbers_in_range = card_numbers.into_iter().filter(|it| (from..=to).contains(it));
    for number in numbers_in_range.map(|it| it.value) {
        if start < number {
            let end = number.checked_sub(1)?;
            gaps.push(SimulatedRange { digits, start, end, variant: RangeVariant::Standard });
        }
        start = number.checked_add(1)?;
    }
    if start <= end {
        gaps.push(SimulatedRange { digits, start, end, variant: RangeVariant::Standard });
    }
    Some(gaps)
}

/// A card number. Orders by length first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CardNumberValue {
    digits: usize,
    value: u64,
}

fn parse_number(number: &str) -> Option<CardNumberValue> {
    number.parse().ok().map(|value| CardNumberValue { digits: number.len(), value })
}
