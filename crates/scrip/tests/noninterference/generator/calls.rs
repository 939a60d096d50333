//! Proxied calls of attackers.
//!
//! A destination may see the data of the tokens that a caller may use. So a caller that may use a
//! hidden token sends it to destinations that do not repeat it, or whose answers are masked.

use serde_json::json;

use super::{CreatedEntity, EntityKind, SequenceGenerator, proxies::ProxyShape};
use crate::{destination::DestinationKind, grammar::TokenKind, step::Actor};

const CALLERS: [(usize, Actor); 6] = [
    (7, Actor::Invoker),
    (6, Actor::Session),
    (3, Actor::Masked),
    (3, Actor::Keyless),
    (2, Actor::Public),
    (1, Actor::Ruled),
];

/// Header values of browsers, which try to read the configuration.
const BROWSER_EXPRESSIONS: [&str; 8] = [
    "{{ proxy.request.headers.X-Provider-Key }}",
    "{{ proxy.request.headers.X-Provider-Key | slice: 3, 1 | to_number }}",
    "{{ proxy.request.headers | stringify }}",
    "{{ proxy.request.body }}",
    "{{ proxy.request.body | json: '$.provider' | slice: 3, 1 | to_number }}",
    "{{ proxy.config.secret }}",
    "{{ config: secret }}",
    "{{ proxy.request.headers.X-Order }}",
];

/// Header values of backends, which may read the configuration.
const BACKEND_EXPRESSIONS: [&str; 2] = [
    "{{ proxy.request.headers.X-Order }}",
    "{{ proxy.request.headers.X-Order | hmac: 'sha-256', 'k' | to_base16 }}",
];

/// Whether the actor may use hidden tokens in calls.
fn may_use_tokens(actor: Actor) -> bool {
    matches!(actor, Actor::Invoker | Actor::Session | Actor::Masked)
}

/// The client chooses the boundary.
fn multipart_body(number: &str, order: &str) -> String {
    let part = |name: &str, value: &str| {
        format!("--4\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    format!("{}{}--4--\r\n", part("number", &format!("--{number}")), part("order", order))
}

impl SequenceGenerator {
    pub(super) fn call(&mut self) {
        let actor = self.random.pick_weighted(&CALLERS);
        let proxy = (!self.proxies.is_empty()).then(|| *self.random.pick(&self.proxies));
        let entry = self.random.below(100);
        match (proxy, entry) {
            (_, 0..=4) => self.call_host(actor),
            (None, _) | (_, 5..=9) => self.call_ephemeral(actor),
            (Some(ProxyShape { serial, destination }), _) => {
                let (path, header) = match self.random.below(10) {
                    0 => (format!("/proxy/charges?bt-proxy-key=<<key:{serial}>>"), None),
                    1 => ("/proxy".to_owned(), Some(serial)),
                    _ => ("/proxy/charges".to_owned(), Some(serial)),
                };
                let step = self.push_call(actor, destination, &path);
                let header = header.map(|it| ("bt-proxy-key", format!("<<key:{it}>>")));
                self.steps[step].headers.extend(header);
            }
        }
    }

    fn call_host(&mut self, actor: Actor) {
        let step = self.push_call(actor, DestinationKind::Echo, "/charges");
        self.steps[step].headers.push(("host", "<<host:0>>".to_owned()));
    }

    fn call_ephemeral(&mut self, actor: Actor) {
        let destination = match self.random.below(2) {
            0 => DestinationKind::Echo,
            _ => DestinationKind::Provider,
        };
        let step = self.push_call(actor, destination, "/proxy/charges");
        let url = format!("<<destination:0>>/{}", destination.path());
        self.steps[step].headers.push(("bt-proxy-url", url));
    }

    /// Adds a call without the header that names its proxy.
    fn push_call(&mut self, actor: Actor, destination: DestinationKind, path: &str) -> usize {
        let shows_data = destination == DestinationKind::Echo;
        let source = if may_use_tokens(actor) && shows_data {
            None
        } else {
            self.pick_earlier(|it| matches!(it.entity, EntityKind::Token | EntityKind::Intent))
        };
        let client_key = self.client_key().filter(|_| self.random.chance_in_percent(60));
        let encrypted = client_key.filter(|_| actor != Actor::Masked || !shows_data);
        let source = source.filter(|_| self.random.chance_in_percent(85));
        let is_repeated = destination == DestinationKind::Repeat;
        let next_value = |generator: &mut Self| match (source, encrypted) {
            (_, Some(_)) if generator.random.chance_in_percent(60) => {
                "{{ encrypted | json: '$.data.number' }}".to_owned()
            }
            (Some(entity), _) if generator.random.chance_in_percent(85) => {
                generator.use_expression(entity, is_repeated)
            }
            _ => generator.random.pick(&generator.secrets.own_cards).clone(),
        };
        let (number, order) = (next_value(self), next_value(self));
        let method = match self.random.below(20) {
            0 => "GET",
            1 => "PUT",
            2 => "PATCH",
            3 => "DELETE",
            _ => "POST",
        };
        let body = json!({"number": number, "order": order, "amount": 7});
        let step = self.push_step(actor, method, path, Some(&body));
        self.set_content(step, &number, &order, is_repeated);
        self.add_call_headers(step, actor);
        if let Some(key) = encrypted {
            let value = format!("<<encrypted_header:{key}>>");
            self.steps[step].headers.push(("bt-encrypted", value));
        }
        self.steps[step].uses_hidden_tokens =
            may_use_tokens(actor) && (source.is_some() || encrypted.is_some());
        self.maybe_set_idempotency_key(step);
        step
    }

    /// Uses another content type in some calls. A destination that repeats its request as JSON compares
    /// names with each other, so it gets no guess as a name.
    fn set_content(&mut self, step: usize, number: &str, order: &str, is_repeated: bool) {
        let (content_type, body) = match self.random.below(20) {
            0 => (
                "application/x-www-form-urlencoded",
                Some(format!("number={number}&order={order}")),
            ),
            1 => ("application/xml", Some(format!("<a><n>{number}</n><o>{order}</o></a>"))),
            2 => ("text/plain", Some(format!("{number} {order}"))),
            // Two equal names are an error of `append_json`.
            3 if !is_repeated => {
                let guess = self.secrets.cards[0].left.clone();
                ("text/plain", Some(format!("{{\"{number}\":1,\"{guess}\":1}}")))
            }
            4 => ("multipart/form-data; boundary=4", Some(multipart_body(number, order))),
            _ => ("application/json", None),
        };
        self.steps[step].content_type = content_type;
        if body.is_some() {
            self.steps[step].body = body;
        }
    }

    fn add_call_headers(&mut self, step: usize, actor: Actor) {
        let headers = &mut self.steps[step].headers;
        if self.random.chance_in_percent(60) {
            headers.push(("x-order", "order-1".to_owned()));
        }
        let is_added = self.random.chance_in_percent(if actor.is_browser() { 60 } else { 20 });
        if is_added {
            let expressions: &[&str] =
                if actor.is_browser() { &BROWSER_EXPRESSIONS } else { &BACKEND_EXPRESSIONS };
            headers.push(("x-trace", (*self.random.pick(expressions)).to_owned()));
        }
    }

    /// An expression that uses the data of a token or intent. It never fails. A destination that
    /// repeats its request gets whole values, because a mask does not recognize parts.
    fn use_expression(&mut self, entity: CreatedEntity, is_repeated: bool) -> String {
        let CreatedEntity { serial, kind, entity, .. } = entity;
        let reference = match entity {
            EntityKind::Intent => format!("token_intent: <<id:{serial}>>"),
            EntityKind::Token | EntityKind::Session | EntityKind::Page => {
                format!("<<id:{serial}>>")
            }
        };
        let path = match kind {
            TokenKind::Card if self.random.chance_in_percent(8) => " | json: '$.cvc'",
            TokenKind::Card | TokenKind::NetworkToken => " | json: '$.number'",
            TokenKind::Bank => " | json: '$.account_number'",
            TokenKind::Object => " | json: '$.pin'",
            TokenKind::CardNumber | TokenKind::Account | TokenKind::Identity => "",
        };
        let has_card_number =
            matches!(kind, TokenKind::Card | TokenKind::NetworkToken | TokenKind::CardNumber);
        match self.random.below(4) {
            0 if !is_repeated => format!("{{{{ {reference}{path} | slice: 0, 4 }}}}"),
            1 | 2 if has_card_number && !is_repeated => format!(
                "{{{{ {reference}{path} | slice: 8, 8 }}}}\
                 {{{{ {reference}{path} | slice: 0, 8 }}}}"
            ),
            _ => format!("{{{{ {reference}{path} }}}}"),
        }
    }

    /// Posts a number to a collecting proxy.
    pub(super) fn call_collector(&mut self, actor: Actor, proxy: usize, number: &str) {
        let body = json!({"number": number, "order": "x"});
        let step = self.push_step(actor, "POST", "/proxy/cards", Some(&body));
        self.steps[step].headers.push(("bt-proxy-key", format!("<<key:{proxy}>>")));
    }

    /// Adds an access session. Its own key is not used.
    pub(super) fn authorize_session(&mut self) {
        let serial = self.push_step(Actor::Public, "POST", "/sessions", None);
        let permissions: &[&str] = match self.random.below(3) {
            0 => &["token:read", "token:search"],
            1 => &["token:create", "proxy:invoke"],
            _ => &["token:read", "token:delete"],
        };
        let grant = json!({"nonce": format!("<<nonce:{serial}>>"), "permissions": permissions});
        let actor = match self.random.below(3) {
            0 => Actor::Invoker,
            1 => Actor::Ruled,
            _ => Actor::Masked,
        };
        let serial = self.push_step(actor, "POST", "/sessions/authorize", Some(&grant));
        self.maybe_set_idempotency_key(serial);
    }
}
