//! Random sequences of requests: honest traffic with hidden data, and attackers.
//!
//! A sequence has few expressions, users and types, so that its steps interact.

mod attack;
mod calls;
mod encryption;
mod field_calls;
mod guesses;
mod honest;
mod management;
mod proxies;
mod threeds;

use attack::SequenceFocus;
use scrip_testing::random::SeededRandom;
use serde_json::{Value, json};

use self::{
    field_calls::FieldCallPlan, guesses::GuessPlan, management::ManagedEntity, proxies::ProxyShape,
};
use crate::{
    grammar::{self, EXPIRATION_YEARS, TokenKind},
    in_process_vault::TenantPlan,
    secrets::{CODE, OWNER, ROUTING_NUMBER, Secrets},
    step::{Actor, Sequence, Step},
};

/// The entity that a step creates if the step succeeds.
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
    /// The token types that most steps of this sequence use.
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
    proxies: Vec<ProxyShape>,
    managed: Vec<ManagedEntity>,
    guess_plan: Option<GuessPlan>,
    field_calls: Option<FieldCallPlan>,
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
    /// The rates differ between sequences: an attribute that is always present hides the effects of
    /// its absence.
    fn draw(random: &mut SeededRandom, focus: SequenceFocus) -> Self {
        let (fingerprint, index, deduplicate): (&[usize], &[usize], &[usize]) = match focus {
            SequenceFocus::Conversion => (&[90, 90, 50], &[90, 90, 90, 0], &[95, 95, 95, 0]),
            SequenceFocus::Deduplication => (&[90, 90, 50], &[90, 90, 0], &[95, 0]),
            SequenceFocus::Patch
            | SequenceFocus::Mixture
            | SequenceFocus::Proxy
            | SequenceFocus::Guessing
            | SequenceFocus::Encryption
            | SequenceFocus::FieldCalls
            | SequenceFocus::Management => (&[0, 0, 50, 90], &[0, 60, 90], &[95, 0]),
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

/// The number of steps before the final reads.
const STEPS_MAX: usize = 6;

pub(crate) fn generate(seed: u64, tenants: &[TenantPlan]) -> Sequence {
    let mut random = SeededRandom::new(seed);
    let secrets = Secrets::draw(&mut random);
    let focus = random.pick_weighted(&SequenceFocus::WEIGHTS);
    let tenant = pick_tenant(&mut random, focus, tenants);
    let mut generator = SequenceGenerator::new(random, secrets, focus);
    generator.push_prelude(tenants[tenant].guesses_max());
    let count = 3 + generator.random.below(STEPS_MAX - 2);
    for step_index in 0..count {
        let honest_percent = focus.honest_percent(step_index);
        if generator.random.chance_in_percent(honest_percent) {
            generator.push_honest();
        } else if step_index < 2 && generator.random.chance_in_percent(focus.planting_percent()) {
            generator.plant_token();
        } else {
            generator.push_attack();
        }
    }
    generator.push_final_reads();
    let SequenceGenerator { secrets, steps, .. } = generator;
    Sequence { seed, tenant, secrets, steps }
}

/// Picks the index of the tenant.
fn pick_tenant(random: &mut SeededRandom, focus: SequenceFocus, tenants: &[TenantPlan]) -> usize {
    // The second half of the tenants updates duplicates.
    let updates_duplicates = focus == SequenceFocus::Deduplication && random.chance_in_percent(60);
    if updates_duplicates {
        return tenants.len() / 2 + random.below(tenants.len() / 2);
    }
    let has_budget = |it: &usize| tenants[*it].guesses_max().is_some();
    let with_budgets: Vec<_> = (0..tenants.len()).filter(has_budget).collect();
    if focus == SequenceFocus::Guessing {
        return *random.pick(&with_budgets);
    }
    if focus == SequenceFocus::FieldCalls {
        let counting: Vec<_> =
            (0..tenants.len()).filter(|it| tenants[*it].counts_guesses()).collect();
        return *random.pick(&counting);
    }
    random.below(tenants.len())
}

/// Picks the token type of a sequence.
fn pick_sequence_kind(random: &mut SeededRandom, focus: SequenceFocus) -> TokenKind {
    let preferred_kind = match focus {
        // Only an object has several hidden attributes.
        SequenceFocus::Patch => Some(TokenKind::Object).filter(|_| random.chance_in_percent(70)),
        SequenceFocus::Conversion => Some(TokenKind::Card).filter(|_| random.chance_in_percent(50)),
        SequenceFocus::Proxy => Some(TokenKind::Card).filter(|_| random.chance_in_percent(60)),
        SequenceFocus::Guessing | SequenceFocus::Encryption => Some(TokenKind::Card),
        // A number that an honest application stores in a card has a fingerprint.
        SequenceFocus::FieldCalls => Some(TokenKind::Object),
        SequenceFocus::Deduplication | SequenceFocus::Mixture | SequenceFocus::Management => None,
    };
    preferred_kind.unwrap_or_else(|| random.pick_weighted(&TokenKind::WEIGHTS))
}

impl SequenceGenerator {
    fn new(mut random: SeededRandom, secrets: Secrets, focus: SequenceFocus) -> Self {
        let kind = pick_sequence_kind(&mut random, focus);
        let honest_fingerprint = honest::pick_fingerprint(&mut random, kind, focus);
        let uses_plain_fingerprint =
            focus == SequenceFocus::Conversion && random.chance_in_percent(80);
        let generate_fingerprint = if uses_plain_fingerprint {
            grammar::plain_fingerprint_expression
        } else {
            grammar::fingerprint_expression
        };
        let mut fingerprints = vec![generate_fingerprint(&mut random, kind)];
        let imitation_percent = if focus == SequenceFocus::Conversion { 20 } else { 80 };
        let imitates_honest = |_: &String| random.chance_in_percent(imitation_percent);
        if let Some(it) = honest_fingerprint.clone().filter(imitates_honest) {
            fingerprints = vec![it];
        }
        let attribute_rates = AttributeRates::draw(&mut random, focus);
        let indexes = (0..2).map(|_| grammar::index_expression(&mut random, kind)).collect();
        let masks = (0..2).map(|_| grammar::mask_expression(&mut random, kind)).collect();
        let attackers = vec![
            (2 + random.below(6), Actor::Public),
            (2 + random.below(6), Actor::Masked),
            (random.below(4), Actor::Ruled),
            (random.below(2), Actor::Session),
        ];
        Self {
            random,
            secrets,
            kinds: vec![kind],
            attribute_rates,
            honest_fingerprint,
            fingerprints,
            indexes,
            masks,
            created: Vec::new(),
            steps: Vec::new(),
            attackers,
            focus,
            attacks: focus.attacks(),
            proxies: Vec::new(),
            managed: Vec::new(),
            guess_plan: None,
            field_calls: None,
        }
    }

    /// Adds the steps that the focus of the sequence needs.
    fn push_prelude(&mut self, guesses_max: Option<usize>) {
        if self.random.chance_in_percent(6) {
            self.ensure_webhook();
        }
        match self.focus {
            SequenceFocus::Proxy => {
                self.push_honest_token(self.kinds[0]);
                if self.random.chance_in_percent(15) {
                    self.ensure_client_key();
                }
                self.push_proxy();
            }
            SequenceFocus::Guessing => self.push_exhausted_budget(guesses_max.unwrap_or(1)),
            SequenceFocus::Encryption => self.push_encrypted_data(),
            SequenceFocus::FieldCalls => self.push_field_page(guesses_max),
            SequenceFocus::Conversion
            | SequenceFocus::Deduplication
            | SequenceFocus::Patch
            | SequenceFocus::Mixture
            | SequenceFocus::Management => {}
        }
    }

    fn pick_kind(&mut self) -> TokenKind {
        if self.random.chance_in_percent(92) {
            self.kinds[0]
        } else {
            self.random.pick_weighted(&TokenKind::WEIGHTS)
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
        let pause = if self.random.chance_in_percent(3) { 90_000 } else { 1 };
        self.steps.push(Step {
            serial,
            actor,
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: body.map(ToString::to_string),
            content_type: match method {
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            },
            idempotency_key: None,
            pause_seconds: pause,
            is_required: false,
            uses_hidden_tokens: false,
        });
        serial
    }

    fn record_created(&mut self, serial: usize, kind: TokenKind, entity: EntityKind, hidden: bool) {
        self.created.push(CreatedEntity { serial, kind, entity, hidden });
    }

    /// Picks an entity of an earlier step that matches the filter.
    fn pick_earlier(&mut self, filter: impl Fn(&CreatedEntity) -> bool) -> Option<CreatedEntity> {
        let candidates: Vec<_> = self.created.iter().copied().filter(|it| filter(it)).collect();
        (!candidates.is_empty()).then(|| *self.random.pick(&candidates))
    }

    fn pick_user(&mut self) -> &'static str {
        if self.random.chance_in_percent(90) { "ada" } else { "bob" }
    }

    fn pick_month(&mut self) -> usize {
        if self.random.chance_in_percent(90) { 1 } else { 2 }
    }

    fn pick_year(&mut self) -> i32 {
        *self.random.pick(&EXPIRATION_YEARS)
    }

    /// Builds data that the attackers must not learn. The secret values are placeholders.
    fn hidden_data(&mut self, kind: TokenKind) -> Value {
        let secret_index = self.random.below(10) / 8;
        let build_placeholder = |name: &str| format!("<<{name}:{secret_index}>>");
        match kind {
            TokenKind::Card | TokenKind::NetworkToken => {
                let mut card = json!({
                    "number": build_placeholder("card"),
                    "expiration_month": self.pick_month(),
                    "expiration_year": self.pick_year(),
                });
                if kind == TokenKind::Card && self.random.chance_in_percent(20) {
                    card["cvc"] = "<<cvc:0>>".into();
                }
                card
            }
            TokenKind::CardNumber => json!(build_placeholder("card")),
            TokenKind::Bank => {
                let account_number = build_placeholder("account");
                json!({"routing_number": ROUTING_NUMBER, "account_number": account_number})
            }
            TokenKind::Account => json!(build_placeholder("account")),
            TokenKind::Identity => json!(build_placeholder("identity")),
            TokenKind::Object => {
                json!({"pin": build_placeholder("pin"), "owner": OWNER, "code": CODE})
            }
        }
    }

    /// Builds data that an attacker knows.
    fn attacker_data(&mut self, kind: TokenKind) -> Value {
        let card_number = self.random.pick(&self.secrets.own_cards).clone();
        let account = self.random.pick(&self.secrets.own_accounts).clone();
        let identity = self.random.pick(&self.secrets.own_identities).clone();
        match kind {
            TokenKind::Card | TokenKind::NetworkToken => json!({
                "number": card_number,
                "expiration_month": self.pick_month(),
                "expiration_year": self.pick_year(),
            }),
            TokenKind::CardNumber => json!(card_number),
            TokenKind::Bank => json!({"routing_number": ROUTING_NUMBER, "account_number": account}),
            TokenKind::Account => json!(account),
            TokenKind::Identity => json!(identity),
            TokenKind::Object => self.attacker_object(),
        }
    }

    /// Builds an object with a guess for the hidden attribute and values that the attacker chose.
    fn attacker_object(&mut self) -> Value {
        let pin = self.guess_pin();
        let (owner, code) = (self.pick_attacker_word(), self.pick_attacker_word());
        let mut object = json!({"pin": pin, "owner": owner, "code": code});
        // Merged into a hidden object, these values leave the hidden attribute unchanged.
        if self.random.chance_in_percent(12)
            && let Some(object) = object.as_object_mut()
        {
            object.remove("pin");
        }
        object
    }

    fn guess_pin(&mut self) -> String {
        let pair = &self.secrets.pins[self.random.below(10) / 8];
        if self.random.chance_in_percent(50) { pair.left.clone() } else { pair.right.clone() }
    }

    fn pick_attacker_word(&mut self) -> &'static str {
        if self.random.chance_in_percent(80) { "x" } else { "y" }
    }
}
