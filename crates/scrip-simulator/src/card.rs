//! The test cards and their scenarios. Only the card number decides.

use std::fmt;

use scrip_threeds::code::Scheme::{
    self, AmericanExpress, CartesBancaires, Discover, Jcb, Mastercard, Visa,
};
use scrip_threeds::code::{Status, StatusReason};

/// The behavior of a card's issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardScenario {
    /// This status, without a challenge.
    Frictionless(ScenarioOutcome),
    /// A challenge.
    Challenge(ChallengeScenario),
    /// The directory server returns an error.
    DirectoryError,
    /// The range supports no version that the 3DS server supports.
    NoCommonVersion,
    /// The card is in no range.
    NotEnrolled,
}

/// The form of a challenge and its outcome, which does not depend on the cardholder's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChallengeScenario {
    pub kind: ChallengeKind,
    pub mandate: ChallengeMandate,
    pub method_page: MethodPage,
    pub outcome: ScenarioOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeKind {
    /// The cardholder enters a code.
    Code,
    /// The cardholder approves in the bank's app.
    OutOfBand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeMandate {
    Mandated,
    NotMandated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodPage {
    Offered,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenarioOutcome {
    Successful,
    Attempted,
    Failed,
    Unavailable,
    Rejected,
}

impl ScenarioOutcome {
    pub fn status(self) -> Status {
        match self {
            Self::Successful => Status::Successful,
            Self::Attempted => Status::Attempted,
            Self::Failed => Status::Failed,
            Self::Unavailable => Status::Unavailable,
            Self::Rejected => Status::Rejected,
        }
    }

    pub fn reason(self) -> Option<StatusReason> {
        match self {
            Self::Successful | Self::Attempted => None,
            Self::Failed => Some(StatusReason::CardAuthenticationFailed),
            Self::Unavailable => Some(StatusReason::NotEnrolled),
            Self::Rejected => Some(StatusReason::SuspectedFraud),
        }
    }
}

/// One card of the table. The number is not secret, but it is not printed, like any other card
/// number.
#[derive(Clone, Copy)]
pub struct Card {
    pub number: &'static str,
    /// Several for a co-badged card.
    pub schemes: &'static [Scheme],
    pub scenario: CardScenario,
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Card").field(&self.scenario).finish()
    }
}

const fn frictionless(outcome: ScenarioOutcome) -> CardScenario {
    CardScenario::Frictionless(outcome)
}

const fn challenge(kind: ChallengeKind, outcome: ScenarioOutcome) -> CardScenario {
    let (mandate, method) = (ChallengeMandate::NotMandated, MethodPage::Offered);
    CardScenario::Challenge(ChallengeScenario { kind, mandate, method_page: method, outcome })
}

const FS: CardScenario = frictionless(ScenarioOutcome::Successful);
const A: CardScenario = frictionless(ScenarioOutcome::Attempted);
const F: CardScenario = frictionless(ScenarioOutcome::Failed);
const U: CardScenario = frictionless(ScenarioOutcome::Unavailable);
const R: CardScenario = frictionless(ScenarioOutcome::Rejected);
const CS: CardScenario = challenge(ChallengeKind::Code, ScenarioOutcome::Successful);
const CM: CardScenario = CardScenario::Challenge(ChallengeScenario {
    kind: ChallengeKind::Code,
    mandate: ChallengeMandate::NotMandated,
    method_page: MethodPage::None,
    outcome: ScenarioOutcome::Successful,
});
const CX: CardScenario = CardScenario::Challenge(ChallengeScenario {
    kind: ChallengeKind::Code,
    mandate: ChallengeMandate::Mandated,
    method_page: MethodPage::Offered,
    outcome: ScenarioOutcome::Successful,
});
const CO: CardScenario = challenge(ChallengeKind::OutOfBand, ScenarioOutcome::Successful);
const CA: CardScenario = challenge(ChallengeKind::Code, ScenarioOutcome::Attempted);
const CF: CardScenario = challenge(ChallengeKind::Code, ScenarioOutcome::Failed);
const CFO: CardScenario = challenge(ChallengeKind::OutOfBand, ScenarioOutcome::Failed);
const CU: CardScenario = challenge(ChallengeKind::Code, ScenarioOutcome::Unavailable);
const CR: CardScenario = challenge(ChallengeKind::Code, ScenarioOutcome::Rejected);
const DE: CardScenario = CardScenario::DirectoryError;
const SE: CardScenario = CardScenario::NoCommonVersion;
const NO: CardScenario = CardScenario::NotEnrolled;

const fn card(number: &'static str, schemes: &'static [Scheme], scenario: CardScenario) -> Card {
    Card { number, schemes, scenario }
}

/// Every card with a specific scenario. All other cards of a known brand succeed without a
/// challenge.
pub const CARDS: &[Card] = &[
    card("5204247750001471", &[Mastercard], FS),
    card("6011601160116011", &[Discover], FS),
    card("340000000004001", &[AmericanExpress], FS),
    card("4000020000000000", &[Visa], CS),
    card("370000000000002", &[AmericanExpress], CS),
    card("3566002020360505", &[Jcb], CS),
    card("3566006663297692", &[Jcb], CS),
    card("4005562231212123", &[Visa], CM),
    card("4761369980320253", &[Visa], CX),
    card("5200000000001104", &[Mastercard], CX),
    card("4000000000000341", &[Visa], CO),
    card("4005571701111111", &[Visa], CA),
    card("4111111111111111", &[Visa], A),
    card("5424180011113336", &[Mastercard], A),
    card("4264281511112228", &[Visa], F),
    card("5424180000000171", &[Mastercard], F),
    card("5405001111111165", &[Mastercard], U),
    card("5405001111111116", &[Mastercard], R),
    card("4055011111111111", &[Visa], CF),
    card("5427660064241339", &[Mastercard], CF),
    card("6011361011110004", &[Discover], CFO),
    card("6011361000008888", &[Discover], CU),
    card("6011361000001115", &[Discover], CR),
    card("4264281500003339", &[Visa], DE),
    card("5424180011110001", &[Mastercard], DE),
    card("4264281500001119", &[Visa], SE),
    card("4150580996517927", &[Visa, CartesBancaires], CS),
    card("4200000000000002", &[Visa], FS),
    card("4200000000000003", &[Visa], A),
    card("4200000000000004", &[Visa], CS),
    card("4200000000000005", &[Visa], F),
    card("4200000000000006", &[Visa], U),
    card("4200000000000007", &[Visa], R),
    card("4200000000000008", &[Visa], CA),
    card("4200000000000009", &[Visa], CF),
    card("4200000000000010", &[Visa], CU),
    card("4200000000000011", &[Visa], CR),
    card("4200000000000012", &[Visa], DE),
    card("4200000000000013", &[Visa], SE),
    card("4200000000000014", &[Visa], CM),
    card("4200000000000015", &[Visa], CX),
    card("4200000000000016", &[Visa], CO),
    card("4200000000000017", &[Visa], CFO),
    card("4917610000000000", &[Visa], CS),
    card("5555555555554444", &[Mastercard], FS),
    // One digit shorter than usual; a valid sandbox card.
    card("34343434343434", &[AmericanExpress], FS),
    card("4242424242424242", &[Visa], FS),
    card("5454545454545454", &[Mastercard], A),
    card("4462030000000000", &[Visa], F),
    card("36148900647913", &[Discover], U),
    card("6759649826438453", &[Mastercard], R),
    card("36700102000000", &[Discover], CF),
    card("6011000400000000", &[Discover], CU),
    card("3528000700000000", &[Jcb], CA),
    // An airline card (UATP) without a brand here: Discover accepts these.
    card("122000000000003", &[Discover], DE),
    card("5019717010103742", &[Mastercard], SE),
    card("4100000000000003", &[Visa], NO),
];

/// The scenario of a card number: from the table, or the default of all other cards.
pub fn scenario_for_number(number: &str) -> CardScenario {
    CARDS.iter().find(|it| it.number == number).map_or(FS, |it| it.scenario)
}
