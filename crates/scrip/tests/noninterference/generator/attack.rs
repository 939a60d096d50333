//! Requests of callers without a reveal right on the hidden data.

use serde_json::{Value, json};

use super::{CreatedEntity, EntityKind, SequenceGenerator};
use crate::{
    grammar::{self, SEARCH_TERMS, TokenKind},
    step::Actor,
};

#[derive(Debug, Clone, Copy)]
pub(super) enum Attack {
    Create,
    Convert,
    Patch,
    Search,
    Read,
    List,
    Tokenize,
    Detokenize,
    Intent,
    ThreeDs,
    Delete,
    Repeat,
    Call,
    Guess,
    Encrypted,
    Manage,
    Proxy,
    Session,
    FieldCall,
}

/// The main topic of a sequence. Other requests are rare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceFocus {
    /// Attackers plant tokens and convert hidden intents.
    Conversion,
    /// Attackers plant tokens, and honest creates deduplicate.
    Deduplication,
    /// Attackers change hidden tokens and compare them with their own.
    Patch,
    /// All kinds of requests.
    Mixture,
    /// Attackers call proxies with hidden tokens, and read the configuration of proxies.
    Proxy,
    /// Attackers guess hidden numbers after the guessing budget is exhausted.
    Guessing,
    /// Attackers send data that a browser encrypted.
    Encryption,
    /// Management of the tenant.
    Management,
    /// A page sends what a payer types, and repeats its requests.
    FieldCalls,
}

impl SequenceFocus {
    pub(super) const WEIGHTS: [(usize, Self); 9] = [
        (15, Self::Conversion),
        (15, Self::Deduplication),
        (15, Self::Patch),
        (15, Self::Mixture),
        (22, Self::Proxy),
        (9, Self::Guessing),
        (4, Self::Encryption),
        (5, Self::Management),
        (6, Self::FieldCalls),
    ];

    /// How often a step is honest, in percent, by its position in the sequence.
    pub(super) fn honest_percent(self, index: usize) -> usize {
        match (self, index) {
            (Self::Conversion, 0) => 95,
            (Self::Deduplication, 0) => 15,
            (Self::Patch, 0) => 60,
            (Self::Deduplication, _) => 45,
            (Self::Conversion | Self::Patch, _) => 15,
            (Self::Mixture, _) => 30,
            (Self::Proxy | Self::Encryption | Self::Management, _) => 12,
            (Self::Guessing, _) => 3,
            (Self::FieldCalls, _) => 0,
        }
    }

    /// How often an attacker starts by creating a token, in percent.
    pub(super) fn planting_percent(self) -> usize {
        match self {
            Self::Conversion | Self::Deduplication => 80,
            Self::Patch => 40,
            Self::Mixture => 20,
            Self::Proxy | Self::Guessing | Self::Encryption | Self::Management => 5,
            Self::FieldCalls => 0,
        }
    }

    /// The weights of the attack requests.
    pub(super) fn attacks(self) -> Vec<(usize, Attack)> {
        let [create, convert, patch, search, read] = match self {
            Self::Conversion => [30, 40, 8, 12, 4],
            Self::Deduplication => [40, 4, 6, 30, 14],
            Self::Patch => [36, 2, 44, 6, 4],
            Self::Mixture => [14, 10, 10, 10, 8],
            Self::Proxy | Self::Encryption => [4, 4, 4, 2, 6],
            Self::Guessing | Self::FieldCalls => [2, 0, 0, 0, 4],
            Self::Management => [6, 2, 2, 2, 4],
        };
        let rare_weight = if self == Self::Mixture { 4 } else { 1 };
        let mut attacks = vec![
            (create, Attack::Create),
            (convert, Attack::Convert),
            (patch, Attack::Patch),
            (search, Attack::Search),
            (read, Attack::Read),
            (rare_weight, Attack::List),
            (2 * rare_weight, Attack::Tokenize),
            (2 * rare_weight, Attack::Detokenize),
            (rare_weight, Attack::Intent),
            (2 * rare_weight, Attack::ThreeDs),
            (rare_weight, Attack::Delete),
            (2 * rare_weight, Attack::Repeat),
            (1, Attack::Session),
        ];
        attacks.extend_from_slice(match self {
            Self::Conversion | Self::Deduplication | Self::Patch => &[],
            Self::Mixture => &[(4, Attack::Call), (4, Attack::Manage)],
            Self::Proxy => &[(60, Attack::Call), (8, Attack::Proxy), (4, Attack::Manage)],
            Self::Guessing => &[(60, Attack::Guess)],
            Self::FieldCalls => &[(60, Attack::FieldCall)],
            Self::Encryption => &[(50, Attack::Encrypted), (20, Attack::Call)],
            Self::Management => &[(70, Attack::Manage), (6, Attack::Proxy), (6, Attack::Call)],
        });
        attacks
    }
}

/// Returns the container where an attacker stores tokens. The rules of [`Actor::Ruled`] include a
/// reveal right on `/own/`. If another application may move a token there and does so, the token is
/// not hidden from [`Actor::Ruled`]. Other attackers therefore use a different container.
fn target_container(actor: Actor) -> &'static str {
    if actor == Actor::Ruled { "/own/" } else { "/other/" }
}

impl SequenceGenerator {
    pub(super) fn plant_token(&mut self) {
        let actor = self.random.pick_weighted(&self.attackers);
        self.create(actor);
    }

    pub(super) fn push_attack(&mut self) {
        let attack = self.random.pick_weighted(&self.attacks);
        let mut actor = self.random.pick_weighted(&self.attackers);
        // A public key has no read permission, so nearly always the masked key reads.
        let needs_read_permission = matches!(
            attack,
            Attack::Search | Attack::Read | Attack::List | Attack::Detokenize | Attack::Delete
        );
        if needs_read_permission && actor == Actor::Public && self.random.chance_in_percent(95) {
            actor = Actor::Masked;
        }
        match attack {
            Attack::Create => self.create(actor),
            Attack::Convert => self.convert(actor),
            Attack::Patch => self.patch(actor),
            Attack::Search => self.search(actor),
            Attack::Read => self.read(actor),
            Attack::List => self.list(actor),
            Attack::Tokenize => self.tokenize(actor),
            Attack::Detokenize => self.detokenize(actor),
            Attack::Intent => self.intent(actor),
            Attack::ThreeDs => self.threeds(actor),
            Attack::Delete => self.delete(actor),
            Attack::Repeat => self.repeat_keyed_step(),
            Attack::Call => self.call(),
            Attack::Guess => self.guess(),
            Attack::Encrypted => self.send_encrypted(actor),
            Attack::Manage => self.manage(),
            Attack::Proxy => self.change_proxy(),
            Attack::Session => self.authorize_session(),
            Attack::FieldCall => self.send_field_values(),
        }
    }

    pub(super) fn add_expressions(&mut self, kind: TokenKind, body: &mut Value) {
        let (is_usual_kind, rates) = (kind == self.kinds[0], self.attribute_rates);
        let random = &mut self.random;
        if random.chance_in_percent(rates.fingerprint) {
            let expression = random.pick(&self.fingerprints).clone();
            let expression = if is_usual_kind {
                expression
            } else {
                grammar::fingerprint_expression(random, kind)
            };
            body["fingerprint_expression"] = expression.into();
        }
        if random.chance_in_percent(rates.index) {
            let expression = random.pick(&self.indexes).clone();
            let expression =
                if is_usual_kind { expression } else { grammar::index_expression(random, kind) };
            body["search_indexes"] = json!([expression]);
        }
        if random.chance_in_percent(rates.mask) {
            let expression = random.pick(&self.masks).clone();
            body["mask"] =
                if is_usual_kind { expression } else { grammar::mask_expression(random, kind) };
        }
        if random.chance_in_percent(rates.deduplicate) {
            body["deduplicate_token"] = random.chance_in_percent(95).into();
        }
    }

    pub(super) fn add_attributes(&mut self, actor: Actor, kind: TokenKind, body: &mut Value) {
        if self.random.chance_in_percent(85) {
            body["metadata"] = json!({"user": self.pick_user()});
        }
        if self.random.chance_in_percent(self.attribute_rates.id) {
            body["id"] = grammar::id_expression(&mut self.random, kind).into();
        }
        if self.random.chance_in_percent(if actor == Actor::Ruled { 60 } else { 4 }) {
            body["containers"] = json!([target_container(actor)]);
            // A backend that uses this id would store data where the attacker may reveal it.
            let is_honest_id = body["id"].as_str().is_some_and(|it| it.starts_with("user-"));
            if actor == Actor::Ruled && is_honest_id {
                body["id"] = "own-1".into();
            }
        }
        if self.random.chance_in_percent(3) {
            body["expires_at"] = "2999-01-01T00:00:00Z".into();
        }
    }

    fn create(&mut self, actor: Actor) {
        let kind = self.pick_kind();
        let mut body = json!({"type": kind.type_name(), "data": self.attacker_data(kind)});
        self.add_expressions(kind, &mut body);
        self.add_attributes(actor, kind, &mut body);
        let serial = self.push_step(actor, "POST", "/tokens", Some(&body));
        self.maybe_set_idempotency_key(serial);
        self.record_created(serial, kind, EntityKind::Token, false);
    }

    /// Sets one of two idempotency keys in some steps. With only two keys, steps share them.
    pub(super) fn maybe_set_idempotency_key(&mut self, serial: usize) {
        if self.random.chance_in_percent(15) {
            self.steps[serial].idempotency_key = Some(format!("key-{}", self.random.below(2)));
        }
    }

    fn convert(&mut self, actor: Actor) {
        let Some(CreatedEntity { serial, kind, hidden, .. }) =
            self.pick_earlier(|it| it.entity == EntityKind::Intent)
        else {
            return self.create(actor);
        };
        let mut body = json!({"token_intent_id": format!("<<id:{serial}>>")});
        if self.random.chance_in_percent(90) {
            self.add_expressions(kind, &mut body);
        }
        // Attributes of the planted token need not be repeated.
        if self.random.chance_in_percent(70)
            && let Some(object) = body.as_object_mut()
        {
            object.remove("search_indexes");
            object.remove("mask");
        }
        self.add_attributes(actor, kind, &mut body);
        let path = if self.random.chance_in_percent(90) { "/tokens" } else { "/tokenize" };
        let serial = self.push_step(actor, "POST", path, Some(&body));
        self.maybe_set_idempotency_key(serial);
        self.record_created(serial, kind, EntityKind::Token, hidden);
    }

    fn patch(&mut self, actor: Actor) {
        let Some(CreatedEntity { serial, kind, .. }) =
            self.pick_earlier(|it| it.entity == EntityKind::Token)
        else {
            return self.create(actor);
        };
        let mut body = json!({});
        match self.random.below(10) {
            0 => body["metadata"] = json!({"user": self.pick_user()}),
            1 => body["data"] = self.attacker_data(kind),
            2 => self.add_expressions(kind, &mut body),
            3 => body["containers"] = json!([target_container(actor)]),
            _ => body["data"] = self.partial_data(kind),
        }
        if self.random.chance_in_percent(15) {
            body["deduplicate_token"] = true.into();
        }
        self.push_step(actor, "PATCH", &format!("/tokens/<<id:{serial}>>"), Some(&body));
    }

    /// Builds a patch of only some attributes of the data.
    fn partial_data(&mut self, kind: TokenKind) -> Value {
        match kind {
            TokenKind::Card | TokenKind::NetworkToken => {
                if self.random.chance_in_percent(20) {
                    return json!({"expiration_month": self.pick_month()});
                }
                json!({"expiration_year": self.pick_year()})
            }
            TokenKind::Bank => json!({"routing_number": "011000015"}),
            TokenKind::CardNumber | TokenKind::Account | TokenKind::Identity => {
                self.attacker_data(kind)
            }
            TokenKind::Object => {
                let mut data = json!({});
                for name in ["owner", "code"] {
                    if self.random.chance_in_percent(85) {
                        data[name] = match self.random.below(12) {
                            0 => Value::Null,
                            _ => self.pick_attacker_word().into(),
                        };
                    }
                }
                data
            }
        }
    }

    fn search(&mut self, actor: Actor) {
        let earlier_token = self.pick_earlier(|it| it.entity == EntityKind::Token);
        let term = match self.random.below(10) {
            0 => format!("metadata.user:{}", self.pick_user()),
            1 if earlier_token.is_some() => {
                format!(
                    "fingerprint:<<fingerprint:{}>>",
                    earlier_token.map(|it| it.serial).unwrap_or_default()
                )
            }
            2 if self.kinds[0] == TokenKind::Object => {
                format!("data:{}{}", self.guess_pin(), self.pick_attacker_word())
            }
            3 if self.kinds[0] == TokenKind::Object => format!("data:{}", self.guess_pin()),
            4 => format!("data:{}", self.random.pick(&self.secrets.own_cards)),
            5 => format!("data:{:02}", self.random.below(100)),
            _ => format!("data:{}", self.random.pick(&SEARCH_TERMS)),
        };
        let path = *self.random.pick(&["/tokens/search", "/v2/tokens/search"]);
        self.push_step(actor, "POST", path, Some(&json!({"query": term})));
    }

    fn read(&mut self, actor: Actor) {
        let Some(CreatedEntity { serial, entity: entity_kind, .. }) =
            self.pick_earlier(|it| it.entity != EntityKind::Page)
        else {
            return self.list(actor);
        };
        let path = match entity_kind {
            EntityKind::Intent => "/token-intents",
            EntityKind::Session => "/3ds/sessions",
            EntityKind::Token | EntityKind::Page => "/tokens",
        };
        self.push_step(actor, "GET", &format!("{path}/<<id:{serial}>>"), None);
    }

    fn list(&mut self, actor: Actor) {
        let page = self.pick_earlier(|it| it.entity == EntityKind::Page);
        let path = match (self.random.below(5), page) {
            (0, Some(it)) => format!("/v2/tokens?size=2&start=<<next:{}>>", it.serial),
            (1, _) => format!("/v2/tokens?metadata.user={}", self.pick_user()),
            (2, _) => "/tokens?size=3".to_owned(),
            (3, _) => format!("/tokens?type={}", self.pick_kind().type_name()),
            _ => "/v2/tokens?size=2".to_owned(),
        };
        let is_first_page = path == "/v2/tokens?size=2";
        let serial = self.push_step(actor, "GET", &path, None);
        if is_first_page {
            self.record_created(serial, TokenKind::Card, EntityKind::Page, false);
        }
    }

    fn tokenize(&mut self, actor: Actor) {
        let mut tokens = Vec::new();
        for _ in 0..=self.random.below(2) {
            let kind = self.pick_kind();
            let mut body = json!({"type": kind.type_name(), "data": self.attacker_data(kind)});
            self.add_expressions(kind, &mut body);
            self.add_attributes(actor, kind, &mut body);
            tokens.push(body);
        }
        let serial = self.push_step(actor, "POST", "/tokenize", Some(&json!({"items": tokens})));
        self.maybe_set_idempotency_key(serial);
    }

    fn detokenize(&mut self, actor: Actor) {
        let Some(CreatedEntity { serial, entity: entity_kind, .. }) =
            self.pick_earlier(|it| matches!(it.entity, EntityKind::Token | EntityKind::Intent))
        else {
            return self.list(actor);
        };
        let reference = format!("<<id:{serial}>>");
        let text = match entity_kind {
            EntityKind::Intent => format!("{{{{ token_intent: {reference} }}}}"),
            EntityKind::Token | EntityKind::Session | EntityKind::Page => {
                grammar::detokenization_expression(&mut self.random, &reference)
            }
        };
        // A caller with `token:use` may send all data to a destination of its own, so that nothing
        // is hidden from it: only callers without this right try.
        let is_proxied = actor != Actor::Masked && self.random.chance_in_percent(40);
        let path = if is_proxied { "/proxy/charges" } else { "/detokenize" };
        let serial = self.push_step(actor, "POST", path, Some(&json!({"value": text})));
        if is_proxied {
            let url = "<<destination:0>>/echo".to_owned();
            self.steps[serial].headers.push(("bt-proxy-url", url));
            self.maybe_set_idempotency_key(serial);
        }
    }

    pub(super) fn intent(&mut self, actor: Actor) {
        let kind = self.pick_kind();
        let mut body = json!({"type": kind.type_name(), "data": self.attacker_data(kind)});
        if self.random.chance_in_percent(15) {
            body["containers"] = json!([target_container(actor)]);
        }
        let serial = self.push_step(actor, "POST", "/token-intents", Some(&body));
        self.maybe_set_idempotency_key(serial);
        self.record_created(serial, kind, EntityKind::Intent, false);
    }

    fn delete(&mut self, actor: Actor) {
        let Some(CreatedEntity { serial, entity: entity_kind, .. }) =
            self.pick_earlier(|it| matches!(it.entity, EntityKind::Token | EntityKind::Intent))
        else {
            return;
        };
        let path = if entity_kind == EntityKind::Token { "/tokens" } else { "/token-intents" };
        self.push_step(actor, "DELETE", &format!("{path}/<<id:{serial}>>"), None);
    }

    /// Adds the end of every sequence: a caller that reads masks lists all tokens and searches for
    /// possible index terms.
    pub(super) fn push_final_reads(&mut self) {
        let reader = match self.random.below(4) {
            0 => Actor::Invoker,
            _ => Actor::Masked,
        };
        self.push_step(reader, "GET", "/v2/tokens?size=20", None);
        if self.random.chance_in_percent(5) {
            self.push_step(Actor::Auditor, "GET", "/logs?size=20", None);
        }
        let index_with_high = self.indexes.iter().find(|it| it.contains("high"));
        if index_with_high.is_some() && self.attribute_rates.index > 0 {
            let term = if self.random.chance_in_percent(70) { "data:high" } else { "data:low" };
            self.push_step(
                Actor::Masked,
                "POST",
                "/v2/tokens/search",
                Some(&json!({"query": term})),
            );
        }
    }

    /// Repeats an earlier request with its idempotency key.
    fn repeat_keyed_step(&mut self) {
        let keyed_steps: Vec<_> =
            self.steps.iter().filter(|it| it.idempotency_key.is_some()).cloned().collect();
        if keyed_steps.is_empty() {
            return;
        }
        let mut step = self.random.pick(&keyed_steps).clone();
        step.serial = self.steps.len();
        self.steps.push(step);
    }
}
