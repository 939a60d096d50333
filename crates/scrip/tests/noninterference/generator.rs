//! Random sequences of requests: honest traffic with hidden data, and attackers around it.
//!
//! A sequence has few expressions, users and types of its own, so that its steps meet.

use scrip_testing::random::SeededRandom;
mod attack;
mod honest;

use attack::SequenceFocus;
use serde_json::{Value, json};

use crate::{
    grammar::{self, TokenKind, YEARS},
    secrets::{CODE, OWNER, ROUTING_NUMBER, Secrets},
    step::{Actor, Sequence, Step},
};

/// Something that a step made, if it succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CreatedEntity {
    serial: usize,
    kind: TokenKind,
    entity: EntityKind,
    hidden: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntityKind {
    Token,
    Intent,
    Session,
    Page,
}

struct SequenceGenerator {
    random: SeededRandom,
    secrets: Secrets,
    /// The types that most steps of this sequence use.
    kinds: Vec<TokenKind>,
    /// How often requests of attackers carry each attribute, in percent.
    attribute_rates: AttributeRates,
    honest_fingerprint: Option<String>,
    fingerprints: Vec<String>,
    indexes: Vec<String>,
    masks: Vec<Value>,
    created: Vec<CreatedEntity>,
    steps: Vec<Step>,
    attackers: Vec<(usize, Actor)>,
    focus: SequenceFocus,
    attacks: Vec<(usize, attack::Attack)>,
}

#[derive(Debug, Clone, Copy)]
struct AttributeRates {
    fingerprint: usize,
    index: usize,
    mask: usize,
    deduplicate: usize,
    id: usize,
}

impl AttributeRates {
    /// Each sequence has others: an attribute that is always there hides what its absence shows.
    fn draw(random: &mut SeededRandom, focus: SequenceFocus) -> Self {
        let (fingerprint, index, deduplicate): (&[usize], &[usize], &[usize]) = match focus {
            SequenceFocus::Conversion => (&[90, 90, 50], &[90, 90, 90, 0], &[95, 95, 95, 0]),
            SequenceFocus::Deduplication => (&[90, 90, 50], &[90, 90, 0], &[95, 0]),
            SequenceFocus::Patch | SequenceFocus::Mixture => {
                (&[0, 0, 50, 90], &[0, 60, 90], &[95, 0])
            }
        };
        Self {
            fingerprint: *random.pick(fingerprint),
            index: *random.pick(index),
            mask: *random.pick(&[0, 0, 60]),
            deduplicate: *random.pick(deduplicate),
            id: *random.pick(&[0, 0, 0, 50]),
        }
    }
}

/// Steps of a sequence before the look at the outcome.
const STEPS_MAX: usize = 6;

pub(crate) fn generate(seed: u64, tenants: usize) -> Sequence {
    let mut random = SeededRandom::new(seed);
    let secrets = Secrets::draw(&mut random);
    let focus = *random.pick(&SequenceFocus::ALL);
    let attacks = focus.attacks();
    // The later half of the tenants updates what a create finds.
    let updating = focus == SequenceFocus::Deduplication && random.is_within_percent(60);
    let tenant =
        if updating { tenants / 2 + random.below(tenants / 2) } else { random.below(tenants) };
    let usual = match focus {
        // Only an object has several hidden attributes.
        SequenceFocus::Patch => Some(TokenKind::Object).filter(|_| random.is_within_percent(70)),
        SequenceFocus::Conversion => Some(TokenKind::Card).filter(|_| random.is_within_percent(50)),
        SequenceFocus::Deduplication | SequenceFocus::Mixture => None,
    };
    let kind = usual.unwrap_or_else(|| random.weighted(&TokenKind::WEIGHTS));
    let kinds = vec![kind];
    let honest_fingerprint = honest::fingerprint(&mut random, kind, focus);
    let plain = focus == SequenceFocus::Conversion && random.is_within_percent(80);
    let draw = if plain { grammar::plain_fingerprint } else { grammar::fingerprint };
    let mut fingerprints = vec![draw(&mut random, kind)];
    let imitated = if focus == SequenceFocus::Conversion { 20 } else { 80 };
    if let Some(it) = honest_fingerprint.clone().filter(|_| random.is_within_percent(imitated)) {
        fingerprints = vec![it];
    }
    let habits = AttributeRates::draw(&mut random, focus);
    let indexes = (0..2).map(|_| grammar::index(&mut random, kind)).collect();
    let masks = (0..2).map(|_| grammar::mask(&mut random, kind)).collect();
    let attackers = vec![
        (2 + random.below(6), Actor::Public),
        (2 + random.below(6), Actor::Masked),
        (random.below(4), Actor::Ruled),
        (random.below(2), Actor::Session),
    ];
    let (created, steps) = (Vec::new(), Vec::new());
    let mut generator = SequenceGenerator {
        random,
        secrets,
        kinds,
        attribute_rates: habits,
        honest_fingerprint,
        fingerprints,
        indexes,
        masks,
        created,
        steps,
        attackers,
        focus,
        attacks,
    };
    let count = 3 + generator.random.below(STEPS_MAX - 2);
    for at in 0..count {
        let honest = focus.honest_percent(at);
        if generator.random.is_within_percent(honest) {
            generator.push_honest();
        } else if at < 2 && generator.random.is_within_percent(focus.planting_percent()) {
            generator.plant_token();
        } else {
            generator.push_attack();
        }
    }
    generator.push_final_reads();
    let SequenceGenerator { secrets, steps, .. } = generator;
    Sequence { seed, tenant, secrets, steps }
}

impl SequenceGenerator {
    fn pick_kind(&mut self) -> TokenKind {
        if self.random.is_within_percent(92) {
            self.kinds[0]
        } else {
            self.random.weighted(&TokenKind::WEIGHTS)
        }
    }

    fn push_step(
        &mut self,
        actor: Actor,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> usize {
        let serial = self.steps.len();
        let pause = if self.random.is_within_percent(3) { 90_000 } else { 1 };
        self.steps.push(Step {
            serial,
            actor,
            method,
            path: path.to_owned(),
            body: body.map(ToString::to_string),
            idempotency_key: None,
            pause_seconds: pause,
        });
        serial
    }

    fn record_created(&mut self, serial: usize, kind: TokenKind, entity: EntityKind, hidden: bool) {
        self.created.push(CreatedEntity { serial, kind, entity, hidden });
    }

    /// Something made before, of this sort.
    fn pick_earlier(&mut self, filter: impl Fn(&CreatedEntity) -> bool) -> Option<CreatedEntity> {
        let found: Vec<_> = self.created.iter().copied().filter(|it| filter(it)).collect();
        (!found.is_empty()).then(|| *self.random.pick(&found))
    }

    fn pick_user(&mut self) -> &'static str {
        if self.random.is_within_percent(90) { "ada" } else { "bob" }
    }

    fn pick_month(&mut self) -> usize {
        if self.random.is_within_percent(90) { 1 } else { 2 }
    }

    fn pick_year(&mut self) -> i32 {
        *self.random.pick(&YEARS)
    }

    /// Data that the attackers must not learn. The values are placeholders.
    fn hidden_data(&mut self, kind: TokenKind) -> Value {
        let which = self.random.below(10) / 8;
        let hidden = |name: &str| format!("<<{name}:{which}>>");
        match kind {
            TokenKind::Card | TokenKind::NetworkToken => json!({
                "number": hidden("card"), "expiration_month": self.pick_month(), "expiration_year": self.pick_year(),
            }),
            TokenKind::CardNumber => json!(hidden("card")),
            TokenKind::Bank => {
                json!({"routing_number": ROUTING_NUMBER, "account_number": hidden("account")})
            }
            TokenKind::Account => json!(hidden("account")),
            TokenKind::Identity => json!(hidden("identity")),
            TokenKind::Object => json!({"pin": hidden("pin"), "owner": OWNER, "code": CODE}),
        }
    }

    /// Data of an attacker.
    fn own_data(&mut self, kind: TokenKind) -> Value {
        let number = self.random.pick(&self.secrets.own_cards).clone();
        let account = self.random.pick(&self.secrets.own_accounts).clone();
        let identity = self.random.pick(&self.secrets.own_identities).clone();
        match kind {
            TokenKind::Card | TokenKind::NetworkToken => json!({
                "number": number, "expiration_month": self.pick_month(), "expiration_year": self.pick_year(),
            }),
            TokenKind::CardNumber => json!(number),
            TokenKind::Bank => json!({"routing_number": ROUTING_NUMBER, "account_number": account}),
            TokenKind::Account => json!(account),
            TokenKind::Identity => json!(identity),
            TokenKind::Object => self.own_object(),
        }
    }

    /// An object with a guess at the attribute that differs, and values of the attacker's own.
    fn own_object(&mut self) -> Value {
        let pin = self.guess();
        let mut object =
            json!({"pin": pin, "owner": self.attacker_word(), "code": self.attacker_word()});
        // Merged into a hidden object, it leaves the hidden attribute there.
        if self.random.is_within_percent(12)
            && let Some(object) = object.as_object_mut()
        {
            object.remove("pin");
        }
        object
    }

    fn guess(&mut self) -> String {
        let pair = &self.secrets.pins[self.random.below(10) / 8];
        if self.random.is_within_percent(50) { pair.left.clone() } else { pair.right.clone() }
    }

    fn attacker_word(&mut self) -> &'static str {
        if self.random.is_within_percent(80) { "x" } else { "y" }
    }
}
