//! Random sequences of requests: honest traffic with hidden data, and attackers around it.
//!
//! A sequence has few expressions, users and types of its own, so that its steps meet.

use scrip_testing::random::SeededRandom;
mod attack;
mod honest;

use attack::Focus;
use serde_json::{Value, json};

use crate::{
    grammar::{self, Kind, YEARS},
    secrets::{CODE, OWNER, ROUTING_NUMBER, Secrets},
    step::{Actor, Sequence, Step},
};

/// Something that a step made, if it succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Made {
    serial: usize,
    kind: Kind,
    what: What,
    hidden: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Token,
    Intent,
    Session,
    Page,
}

struct Generator {
    random: SeededRandom,
    secrets: Secrets,
    /// The types that most steps of this sequence use.
    kinds: Vec<Kind>,
    /// How often requests of attackers carry each attribute, in percent.
    habits: Habits,
    honest_fingerprint: Option<String>,
    fingerprints: Vec<String>,
    indexes: Vec<String>,
    masks: Vec<Value>,
    made: Vec<Made>,
    steps: Vec<Step>,
    attackers: Vec<(usize, Actor)>,
    focus: Focus,
    attacks: Vec<(usize, attack::Attack)>,
}

#[derive(Debug, Clone, Copy)]
struct Habits {
    fingerprint: usize,
    index: usize,
    mask: usize,
    deduplicate: usize,
    id: usize,
}

impl Habits {
    /// Each sequence has others: an attribute that is always there hides what its absence shows.
    fn draw(random: &mut SeededRandom, focus: Focus) -> Self {
        let (fingerprint, index, deduplicate): (&[usize], &[usize], &[usize]) = match focus {
            Focus::Conversion => (&[90, 90, 50], &[90, 90, 90, 0], &[95, 95, 95, 0]),
            Focus::Deduplication => (&[90, 90, 50], &[90, 90, 0], &[95, 0]),
            Focus::Patch | Focus::Mixture => (&[0, 0, 50, 90], &[0, 60, 90], &[95, 0]),
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
    let focus = *random.pick(&Focus::ALL);
    let attacks = focus.attacks();
    // The later half of the tenants updates what a create finds.
    let updating = focus == Focus::Deduplication && random.percent(60);
    let tenant =
        if updating { tenants / 2 + random.below(tenants / 2) } else { random.below(tenants) };
    let usual = match focus {
        // Only an object has several hidden attributes.
        Focus::Patch => Some(Kind::Object).filter(|_| random.percent(70)),
        Focus::Conversion => Some(Kind::Card).filter(|_| random.percent(50)),
        Focus::Deduplication | Focus::Mixture => None,
    };
    let kind = usual.unwrap_or_else(|| random.weighted(&Kind::WEIGHTS));
    let kinds = vec![kind];
    let honest_fingerprint = honest::fingerprint(&mut random, kind, focus);
    let plain = focus == Focus::Conversion && random.percent(80);
    let draw = if plain { grammar::plain_fingerprint } else { grammar::fingerprint };
    let mut fingerprints = vec![draw(&mut random, kind)];
    let imitated = if focus == Focus::Conversion { 20 } else { 80 };
    if let Some(it) = honest_fingerprint.clone().filter(|_| random.percent(imitated)) {
        fingerprints = vec![it];
    }
    let habits = Habits::draw(&mut random, focus);
    let indexes = (0..2).map(|_| grammar::index(&mut random, kind)).collect();
    let masks = (0..2).map(|_| grammar::mask(&mut random, kind)).collect();
    let attackers = vec![
        (2 + random.below(6), Actor::Public),
        (2 + random.below(6), Actor::Masked),
        (random.below(4), Actor::Ruled),
        (random.below(2), Actor::Session),
    ];
    let (made, steps) = (Vec::new(), Vec::new());
    let mut generator = Generator {
        random,
        secrets,
        kinds,
        habits,
        honest_fingerprint,
        fingerprints,
        indexes,
        masks,
        made,
        steps,
        attackers,
        focus,
        attacks,
    };
    let count = 3 + generator.random.below(STEPS_MAX - 2);
    for at in 0..count {
        let honest = focus.honest_percent(at);
        if generator.random.percent(honest) {
            generator.honest();
        } else if at < 2 && generator.random.percent(focus.planting_percent()) {
            generator.plant();
        } else {
            generator.attack();
        }
    }
    generator.look_around();
    let Generator { secrets, steps, .. } = generator;
    Sequence { seed, tenant, secrets, steps }
}

impl Generator {
    fn kind(&mut self) -> Kind {
        if self.random.percent(92) { self.kinds[0] } else { self.random.weighted(&Kind::WEIGHTS) }
    }

    fn push(
        &mut self,
        actor: Actor,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> usize {
        let serial = self.steps.len();
        let pause = if self.random.percent(3) { 90_000 } else { 1 };
        self.steps.push(Step {
            serial,
            actor,
            method,
            path: path.to_owned(),
            body: body.map(ToString::to_string),
            idempotency_key: None,
            pause,
        });
        serial
    }

    fn made(&mut self, serial: usize, kind: Kind, what: What, hidden: bool) {
        self.made.push(Made { serial, kind, what, hidden });
    }

    /// Something made before, of this sort.
    fn earlier(&mut self, wanted: impl Fn(&Made) -> bool) -> Option<Made> {
        let found: Vec<_> = self.made.iter().copied().filter(|it| wanted(it)).collect();
        (!found.is_empty()).then(|| *self.random.pick(&found))
    }

    fn user(&mut self) -> &'static str {
        if self.random.percent(90) { "ada" } else { "bob" }
    }

    fn month(&mut self) -> usize {
        if self.random.percent(90) { 1 } else { 2 }
    }

    fn year(&mut self) -> i32 {
        *self.random.pick(&YEARS)
    }

    /// Data that the attackers must not learn. The values are placeholders.
    fn hidden_data(&mut self, kind: Kind) -> Value {
        let which = self.random.below(10) / 8;
        let hidden = |name: &str| format!("<<{name}:{which}>>");
        match kind {
            Kind::Card | Kind::NetworkToken => json!({
                "number": hidden("card"), "expiration_month": self.month(), "expiration_year": self.year(),
            }),
            Kind::CardNumber => json!(hidden("card")),
            Kind::Bank => {
                json!({"routing_number": ROUTING_NUMBER, "account_number": hidden("account")})
            }
            Kind::Account => json!(hidden("account")),
            Kind::Identity => json!(hidden("identity")),
            Kind::Object => json!({"pin": hidden("pin"), "owner": OWNER, "code": CODE}),
        }
    }

    /// Data of an attacker.
    fn own_data(&mut self, kind: Kind) -> Value {
        let number = self.random.pick(&self.secrets.own_cards).clone();
        let account = self.random.pick(&self.secrets.own_accounts).clone();
        let identity = self.random.pick(&self.secrets.own_identities).clone();
        match kind {
            Kind::Card | Kind::NetworkToken => json!({
                "number": number, "expiration_month": self.month(), "expiration_year": self.year(),
            }),
            Kind::CardNumber => json!(number),
            Kind::Bank => json!({"routing_number": ROUTING_NUMBER, "account_number": account}),
            Kind::Account => json!(account),
            Kind::Identity => json!(identity),
            Kind::Object => self.own_object(),
        }
    }

    /// An object with a guess at the attribute that differs, and values of the attacker's own.
    fn own_object(&mut self) -> Value {
        let pin = self.guess();
        let mut object = json!({"pin": pin, "owner": self.own_word(), "code": self.own_word()});
        // Merged into a hidden object, it leaves the hidden attribute there.
        if self.random.percent(12)
            && let Some(object) = object.as_object_mut()
        {
            object.remove("pin");
        }
        object
    }

    fn guess(&mut self) -> String {
        let pair = &self.secrets.pins[self.random.below(10) / 8];
        if self.random.percent(50) { pair.left.clone() } else { pair.right.clone() }
    }

    fn own_word(&mut self) -> &'static str {
        if self.random.percent(80) { "x" } else { "y" }
    }
}
