//! What an operation is called and what it takes and gives, beyond what its row of the route table
//! says. The descriptions stand beside the wire code; `openapi.rs` makes a document of them.

use scrip_core::audit::Operation;

use crate::wire::schema::Schema;

#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) tag: Tag,
    pub(crate) summary: &'static str,
    pub(crate) about: &'static str,
    /// What stands in the path and behind the question mark.
    pub(crate) path: Vec<Parameter>,
    pub(crate) query: Vec<Parameter>,
    pub(crate) body: Option<Schema>,
    pub(crate) answers: Vec<Answer>,
    /// Statuses of problems beyond those that follow from the row.
    pub(crate) problems: Vec<u16>,
    pub(crate) links: Vec<Link>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Tokens,
    TokenIntents,
    Applications,
    ApiKeys,
    Sessions,
    Threeds,
    Tenant,
    Logs,
    Connections,
    Service,
}

impl Tag {
    pub(crate) const ALL: [Self; 10] = [
        Self::Tokens,
        Self::TokenIntents,
        Self::Applications,
        Self::ApiKeys,
        Self::Sessions,
        Self::Threeds,
        Self::Tenant,
        Self::Logs,
        Self::Connections,
        Self::Service,
    ];

    /// Its name, and what it is about.
    pub(crate) fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Tokens => ("Tokens", "Sensitive values, and what stands for them."),
            Self::TokenIntents => ("Token intents", "Data that waits to become a token."),
            Self::Applications => ("Applications", "Who may do what."),
            Self::ApiKeys => ("API keys", "By which an application is known."),
            Self::Sessions => ("Sessions", "Rights lent to a browser for a few minutes."),
            Self::Threeds => {
                ("3-D Secure", "Cardholders authenticated by those who issued their cards.")
            }
            Self::Tenant => ("Tenant", "Whose tokens these are, its settings and quotas."),
            Self::Logs => ("Logs", "What was done, seen and refused, and by whom."),
            Self::Connections => ("Connections", "Which payment processors can be connected."),
            Self::Service => ("Service", "Probes and this document. They need no key."),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) schema: Schema,
    pub(crate) style: Style,
}

/// How a parameter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// An object as `name[entry]=value`.
    Entries,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    /// Content type and schema; nothing when there is no body.
    pub(crate) content: Option<(&'static str, Schema)>,
}

/// Where to go with an answer: an operation, and what of the answer it takes for its parameters.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) operation: Operation,
    pub(crate) parameters: Vec<(&'static str, &'static str)>,
}

pub(crate) const JSON: &str = "application/json";

pub(crate) fn operation(tag: Tag, summary: &'static str) -> Description {
    Description {
        tag,
        summary,
        about: "",
        path: Vec::new(),
        query: Vec::new(),
        body: None,
        answers: Vec::new(),
        problems: Vec::new(),
        links: Vec::new(),
    }
}

impl Description {
    pub(crate) fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// A name in the path. Whatever it does not name is a 404.
    pub(crate) fn path(mut self, parameter: Parameter) -> Self {
        self.path.push(parameter);
        self.problem(404)
    }

    pub(crate) fn query(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.query.extend(parameters);
        self
    }

    pub(crate) fn body(self, schema: Schema) -> Self {
        Self { body: Some(schema), ..self }
    }

    pub(crate) fn answer(self, status: u16, about: &'static str, schema: Schema) -> Self {
        self.content(status, about, Some((JSON, schema)))
    }

    /// 204.
    pub(crate) fn done(self, about: &'static str) -> Self {
        self.content(204, about, None)
    }

    pub(crate) fn content(
        mut self,
        status: u16,
        about: &'static str,
        content: Option<(&'static str, Schema)>,
    ) -> Self {
        self.answers.push(Answer { status, about, content });
        self
    }

    pub(crate) fn problem(mut self, status: u16) -> Self {
        if !self.problems.contains(&status) {
            self.problems.push(status);
        }
        self
    }

    pub(crate) fn leads_to(
        mut self,
        operations: &[Operation],
        parameters: &[(&'static str, &'static str)],
    ) -> Self {
        let link = |it: &Operation| Link { operation: *it, parameters: parameters.to_vec() };
        self.links.extend(operations.iter().map(link));
        self
    }
}

pub(crate) fn parameter(name: &'static str, schema: Schema, about: &'static str) -> Parameter {
    Parameter { name, about, schema, style: Style::Plain }
}

/// One for each entry of an object.
pub(crate) fn entries(name: &'static str, schema: Schema, about: &'static str) -> Parameter {
    Parameter { style: Style::Entries, ..parameter(name, schema, about) }
}
