//! Random sequences of requests: honest traffic with hidden data, and attackers around it.
//!
//! A sequence has few expressions, users and types of its own, so that its steps meet.

mod attack;
mod honest;

use serde_json::{Value, json};

use crate::{
    grammar::{self, Kind, YEARS},
    random::Random,
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
    random: Random,
    secrets: Secrets,
    /// The types that most steps of this sequence use.
    kinds: Vec<Kind>,
    fingerprints: Vec<String>,
    indexes: Vec<String>,
    masks: Vec<Value>,
    made: Vec<Made>,
    steps: Vec<Step>,
    attackers: Vec<(usize, Actor)>,
    attacks: Vec<(usize, attack::Attack)>,
}

/// Steps of a sequence, besides those that begin it.
const STEPS_MAX: usize = 9;

pub(crate) fn generate(seed: u64, tenants: usize) -> Sequence {
    let mut random = Random::new(seed);
    let tenant = random.below(tenants);
    let secrets = Secrets::draw(&mut random);
    let kinds = vec![random.weighted(&Kind::WEIGHTS)];
    let kind = kinds[0];
    let fingerprints = (0..2).map(|_| grammar::fingerprint(&mut random, kind)).collect();
    let indexes = (0..2).map(|_| grammar::index(&mut random, kind)).collect();
    let masks = (0..2).map(|_| grammar::mask(&mut random, kind)).collect();
    let attackers = vec![
        (1 + random.below(6), Actor::Public),
        (1 + random.below(6), Actor::Masked),
        (1 + random.below(6), Actor::Ruled),
        (random.below(3), Actor::Session),
    ];
    let attacks = attack::Attack::weights(&mut random);
    let (made, steps) = (Vec::new(), Vec::new());
    let mut generator = Generator {
        random,
        secrets,
        kinds,
        fingerprints,
        indexes,
        masks,
        made,
        steps,
        attackers,
        attacks,
    };
    let honest = generator.random.percent(70);
    if honest {
        generator.honest();
    }
    let count = 4 + generator.random.below(STEPS_MAX - 3);
    for _ in 0..count {
        if generator.random.percent(25) {
            generator.honest();
        } else {
            generator.attack();
        }
    }
    let Generator { secrets, steps, .. } = generator;
    Sequence { seed, tenant, secrets, steps }
}

impl Generator {
    fn kind(&mut self) -> Kind {
        if self.random.percent(85) { self.kinds[0] } else { self.random.weighted(&Kind::WEIGHTS) }
    }

    fn push(&mut self, actor: Actor, method: &'static str, path: &str, body: Option<&Value>) -> usize {
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
        if self.random.percent(80) { "ada" } else { "bob" }
    }

    fn month(&mut self) -> usize {
        if self.random.percent(80) { 1 } else { 2 }
    }

    fn year(&mut self) -> i32 {
        *self.random.pick(&YEARS)
    }

    /// Data of somebody whose data the attackers must not learn. The values are placeholders.
    fn hidden_data(&mut self, kind: Kind) -> Value {
        let which = self.random.below(10) / 8;
        let hidden = |name: &str| format!("<<{name}:{which}>>");
        match kind {
            Kind::Card | Kind::NetworkToken => json!({
                "number": hidden("card"), "expiration_month": self.month(), "expiration_year": self.year(),
            }),
            Kind::CardNumber => json!(hidden("card")),
            Kind::Bank => json!({"routing_number": ROUTING_NUMBER, "account_number": hidden("account")}),
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
        json!({"pin": pin, "owner": self.own_word(), "code": self.own_word()})
    }

    fn guess(&mut self) -> String {
        let pair = &self.secrets.pins[self.random.below(10) / 8];
        if self.random.percent(50) { pair.left.clone() } else { pair.right.clone() }
    }

    fn own_word(&mut self) -> &'static str {
        if self.random.percent(80) { "x" } else { "y" }
    }
}
