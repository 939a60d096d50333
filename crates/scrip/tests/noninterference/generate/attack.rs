//! Requests of callers without a reveal right on the hidden data.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use super::{Generator, Made, What};
use crate::{
    grammar::{self, Kind, TERMS},
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
}

/// What a sequence is mostly about. The rest happens too, but rarely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Focus {
    /// Tokens are planted, hidden intents are converted.
    Conversion,
    /// Tokens are planted, honest creates deduplicate.
    Deduplication,
    /// Hidden tokens are changed and compared with own ones.
    Patch,
    /// A bit of everything.
    Mixture,
}

impl Focus {
    pub(super) const ALL: [Self; 4] =
        [Self::Conversion, Self::Deduplication, Self::Patch, Self::Mixture];

    /// How often a step is honest, by its place in the sequence.
    pub(super) fn honest_percent(self, at: usize) -> usize {
        match (self, at) {
            (Self::Conversion, 0) => 95,
            (Self::Deduplication, 0) => 15,
            (Self::Patch, 0) => 60,
            (Self::Deduplication, _) => 45,
            (Self::Conversion | Self::Patch, _) => 15,
            (Self::Mixture, _) => 30,
        }
    }

    /// How often an attacker begins by creating a token.
    pub(super) fn planting_percent(self) -> usize {
        match self {
            Self::Conversion | Self::Deduplication => 80,
            Self::Patch => 40,
            Self::Mixture => 20,
        }
    }

    /// Weights of the requests of attackers.
    pub(super) fn attacks(self) -> Vec<(usize, Attack)> {
        let [create, convert, patch, search, read] = match self {
            Self::Conversion => [30, 40, 8, 12, 4],
            Self::Deduplication => [40, 4, 6, 30, 14],
            Self::Patch => [36, 2, 44, 6, 4],
            Self::Mixture => [14, 10, 10, 10, 8],
        };
        let rare = if self == Self::Mixture { 4 } else { 1 };
        vec![
            (create, Attack::Create),
            (convert, Attack::Convert),
            (patch, Attack::Patch),
            (search, Attack::Search),
            (read, Attack::Read),
            (rare, Attack::List),
            (2 * rare, Attack::Tokenize),
            (2 * rare, Attack::Detokenize),
            (rare, Attack::Intent),
            (2 * rare, Attack::ThreeDs),
            (rare, Attack::Delete),
            (2 * rare, Attack::Repeat),
        ]
    }
}

/// Where an attacker puts tokens. `/own/` is where the rules of [`Actor::Ruled`] allow it to reveal:
/// another application that moves a token there, and may, shares the token with it.
fn target_container(actor: Actor) -> &'static str {
    if actor == Actor::Ruled { "/own/" } else { "/other/" }
}

impl Generator {
    pub(super) fn plant(&mut self) {
        let actor = self.random.weighted(&self.attackers);
        self.create(actor);
    }

    pub(super) fn attack(&mut self) {
        let attack = self.random.weighted(&self.attacks);
        let mut actor = self.random.weighted(&self.attackers);
        // A public key may not read: nearly always the masked key does.
        let reads = matches!(
            attack,
            Attack::Search | Attack::Read | Attack::List | Attack::Detokenize | Attack::Delete
        );
        if reads && actor == Actor::Public && self.random.percent(95) {
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
            Attack::Repeat => self.repeat(),
        }
    }

    fn expressions(&mut self, kind: Kind, body: &mut Value) {
        let (same, habits) = (kind == self.kinds[0], self.habits);
        let random = &mut self.random;
        if random.percent(habits.fingerprint) {
            let chosen = random.pick(&self.fingerprints).clone();
            let chosen = if same { chosen } else { grammar::fingerprint(random, kind) };
            body["fingerprint_expression"] = chosen.into();
        }
        if random.percent(habits.index) {
            let chosen = random.pick(&self.indexes).clone();
            let chosen = if same { chosen } else { grammar::index(random, kind) };
            body["search_indexes"] = json!([chosen]);
        }
        if random.percent(habits.mask) {
            let chosen = random.pick(&self.masks).clone();
            body["mask"] = if same { chosen } else { grammar::mask(random, kind) };
        }
        if random.percent(habits.deduplicate) {
            body["deduplicate_token"] = random.percent(95).into();
        }
    }

    fn attributes(&mut self, actor: Actor, kind: Kind, body: &mut Value) {
        if self.random.percent(85) {
            body["metadata"] = json!({"user": self.user()});
        }
        if self.random.percent(self.habits.id) {
            body["id"] = grammar::id(&mut self.random, kind).into();
        }
        if self.random.percent(if actor == Actor::Ruled { 60 } else { 4 }) {
            body["containers"] = json!([target_container(actor)]);
            // A backend that expects this id would put data where the attacker may reveal it.
            let is_expected = body["id"].as_str().is_some_and(|it| it.starts_with("user-"));
            if actor == Actor::Ruled && is_expected {
                body["id"] = "own-1".into();
            }
        }
        if self.random.percent(3) {
            body["expires_at"] = "2999-01-01T00:00:00Z".into();
        }
    }

    fn create(&mut self, actor: Actor) {
        let kind = self.kind();
        let mut body = json!({"type": kind.text(), "data": self.own_data(kind)});
        self.expressions(kind, &mut body);
        self.attributes(actor, kind, &mut body);
        let serial = self.push(actor, "POST", "/tokens", Some(&body));
        self.remember_key(serial);
        self.made(serial, kind, What::Token, false);
    }

    /// Few keys, so that they meet.
    pub(super) fn remember_key(&mut self, serial: usize) {
        if self.random.percent(15) {
            self.steps[serial].idempotency_key = Some(format!("key-{}", self.random.below(2)));
        }
    }

    fn convert(&mut self, actor: Actor) {
        let Some(Made { serial, kind, hidden, .. }) = self.earlier(|it| it.what == What::Intent)
        else {
            return self.create(actor);
        };
        let mut body = json!({"token_intent_id": format!("<<id:{serial}>>")});
        if self.random.percent(90) {
            self.expressions(kind, &mut body);
        }
        // What the planted token has need not be repeated.
        if self.random.percent(70)
            && let Some(object) = body.as_object_mut()
        {
            object.remove("search_indexes");
            object.remove("mask");
        }
        self.attributes(actor, kind, &mut body);
        let path = if self.random.percent(90) { "/tokens" } else { "/tokenize" };
        let serial = self.push(actor, "POST", path, Some(&body));
        self.remember_key(serial);
        self.made(serial, kind, What::Token, hidden);
    }

    fn patch(&mut self, actor: Actor) {
        let Some(Made { serial, kind, .. }) = self.earlier(|it| it.what == What::Token) else {
            return self.create(actor);
        };
        let mut body = json!({});
        match self.random.below(10) {
            0 => body["metadata"] = json!({"user": self.user()}),
            1 => body["data"] = self.own_data(kind),
            2 => self.expressions(kind, &mut body),
            3 => body["containers"] = json!([target_container(actor)]),
            _ => body["data"] = self.partial_data(kind),
        }
        if self.random.percent(15) {
            body["deduplicate_token"] = true.into();
        }
        self.push(actor, "PATCH", &format!("/tokens/<<id:{serial}>>"), Some(&body));
    }

    /// Some attributes of the data.
    fn partial_data(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Card | Kind::NetworkToken => {
                if self.random.percent(20) {
                    return json!({"expiration_month": self.month()});
                }
                json!({"expiration_year": self.year()})
            }
            Kind::Bank => json!({"routing_number": "011000015"}),
            Kind::CardNumber | Kind::Account | Kind::Identity => self.own_data(kind),
            Kind::Object => {
                let mut data = json!({});
                for name in ["owner", "code"] {
                    if self.random.percent(85) {
                        data[name] = match self.random.below(12) {
                            0 => Value::Null,
                            _ => self.own_word().into(),
                        };
                    }
                }
                data
            }
        }
    }

    fn search(&mut self, actor: Actor) {
        let known = self.earlier(|it| it.what == What::Token);
        let term = match self.random.below(10) {
            0 => format!("metadata.user:{}", self.user()),
            1 if known.is_some() => {
                format!(
                    "fingerprint:<<fingerprint:{}>>",
                    known.map(|it| it.serial).unwrap_or_default()
                )
            }
            2 if self.kinds[0] == Kind::Object => {
                format!("data:{}{}", self.guess(), self.own_word())
            }
            3 if self.kinds[0] == Kind::Object => format!("data:{}", self.guess()),
            4 => format!("data:{}", self.random.pick(&self.secrets.own_cards)),
            5 => format!("data:{:02}", self.random.below(100)),
            _ => format!("data:{}", self.random.pick(&TERMS)),
        };
        let path = *self.random.pick(&["/tokens/search", "/v2/tokens/search"]);
        self.push(actor, "POST", path, Some(&json!({"query": term})));
    }

    fn read(&mut self, actor: Actor) {
        let Some(Made { serial, what, .. }) = self.earlier(|it| it.what != What::Page) else {
            return self.list(actor);
        };
        let path = match what {
            What::Intent => "/token-intents",
            What::Session => "/3ds/sessions",
            What::Token | What::Page => "/tokens",
        };
        self.push(actor, "GET", &format!("{path}/<<id:{serial}>>"), None);
    }

    fn list(&mut self, actor: Actor) {
        let page = self.earlier(|it| it.what == What::Page);
        let path = match (self.random.below(5), page) {
            (0, Some(it)) => format!("/v2/tokens?size=2&start=<<next:{}>>", it.serial),
            (1, _) => format!("/v2/tokens?metadata.user={}", self.user()),
            (2, _) => "/tokens?size=3".to_owned(),
            (3, _) => format!("/tokens?type={}", self.kind().text()),
            _ => "/v2/tokens?size=2".to_owned(),
        };
        let paged = path == "/v2/tokens?size=2";
        let serial = self.push(actor, "GET", &path, None);
        if paged {
            self.made(serial, Kind::Card, What::Page, false);
        }
    }

    fn tokenize(&mut self, actor: Actor) {
        let mut items = Vec::new();
        for _ in 0..=self.random.below(2) {
            let kind = self.kind();
            let mut body = json!({"type": kind.text(), "data": self.own_data(kind)});
            self.expressions(kind, &mut body);
            self.attributes(actor, kind, &mut body);
            items.push(body);
        }
        let serial = self.push(actor, "POST", "/tokenize", Some(&json!({"items": items})));
        self.remember_key(serial);
    }

    fn detokenize(&mut self, actor: Actor) {
        let Some(Made { serial, what, .. }) =
            self.earlier(|it| matches!(it.what, What::Token | What::Intent))
        else {
            return self.list(actor);
        };
        let reference = format!("<<id:{serial}>>");
        let text = match what {
            What::Intent => format!("{{{{ token_intent: {reference} }}}}"),
            What::Token | What::Session | What::Page => {
                grammar::detokenization(&mut self.random, &reference)
            }
        };
        self.push(actor, "POST", "/detokenize", Some(&json!({"value": text})));
    }

    fn intent(&mut self, actor: Actor) {
        let kind = self.kind();
        let mut body = json!({"type": kind.text(), "data": self.own_data(kind)});
        if self.random.percent(15) {
            body["containers"] = json!([target_container(actor)]);
        }
        let serial = self.push(actor, "POST", "/token-intents", Some(&body));
        self.remember_key(serial);
        self.made(serial, kind, What::Intent, false);
    }

    fn threeds(&mut self, actor: Actor) {
        if let Some(Made { serial, kind, .. }) = self.earlier(|it| it.what == What::Session)
            && self.random.percent(50)
        {
            let path = format!("/3ds/sessions/<<id:{serial}>>/authenticate");
            let serial = self.push(actor, "POST", &path, Some(&payment("Ada")));
            return self.made(serial, kind, What::Session, true);
        }
        let found = self.earlier(|it| matches!(it.what, What::Token | What::Intent));
        let Some(Made { serial, kind, what, hidden }) = found else { return self.intent(actor) };
        let attribute = if what == What::Token { "token_id" } else { "token_intent_id" };
        let body = json!({attribute: format!("<<id:{serial}>>"), "device": "browser"});
        let serial = self.push(actor, "POST", "/3ds/sessions", Some(&body));
        self.made(serial, kind, What::Session, hidden);
    }

    fn delete(&mut self, actor: Actor) {
        let Some(Made { serial, what, .. }) =
            self.earlier(|it| matches!(it.what, What::Token | What::Intent))
        else {
            return;
        };
        let path = if what == What::Token { "/tokens" } else { "/token-intents" };
        self.push(actor, "DELETE", &format!("{path}/<<id:{serial}>>"), None);
    }

    /// The end of every sequence: a caller that sees masks lists all tokens, and searches for what an index may have.
    pub(super) fn look_around(&mut self) {
        self.push(Actor::Masked, "GET", "/v2/tokens?size=20", None);
        let found = self.indexes.iter().find(|it| it.contains("high"));
        if found.is_some() && self.habits.index > 0 {
            let term = if self.random.percent(70) { "data:high" } else { "data:low" };
            self.push(Actor::Masked, "POST", "/v2/tokens/search", Some(&json!({"query": term})));
        }
    }

    /// An earlier request with an idempotency key, sent again.
    fn repeat(&mut self) {
        let remembered: Vec<_> =
            self.steps.iter().filter(|it| it.idempotency_key.is_some()).cloned().collect();
        if remembered.is_empty() {
            return;
        }
        let mut step = self.random.pick(&remembered).clone();
        step.serial = self.steps.len();
        self.steps.push(step);
    }
}
