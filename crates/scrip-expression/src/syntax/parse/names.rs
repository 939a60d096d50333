//! Resolves names.

use crate::{
    filter,
    syntax::{ast::Root, lexeme::SyntaxError},
};

#[derive(Debug, Default)]
pub(crate) struct NameTable<'s> {
    variables: Vec<Variable<'s>>,
    /// The variables of the enclosing loops, innermost last.
    loops: Vec<(&'s str, usize)>,
    slots: usize,
    /// If set, only these objects can be named. They are properties of the data. The list is
    /// empty in a detokenization, where only tokens can be named.
    objects: Option<&'static [&'static str]>,
}

#[derive(Debug)]
struct Variable<'s> {
    name: &'s str,
    slot: usize,
    first_use: usize,
    defined: bool,
}

/// Names that variables cannot have.
const RESERVED: &[&str] = &[
    "data", "metadata", "forloop", "true", "false", "nil", "null", "empty", "blank", "and", "or",
    "in", "contains",
];

const UNKNOWN_NAME: &str =
    "unknown name: an expression can read data, a fingerprint expression also metadata";

impl<'s> NameTable<'s> {
    pub(crate) fn without_names() -> Self {
        Self::with_objects(&[])
    }

    pub(crate) fn with_objects(objects: &'static [&'static str]) -> Self {
        Self { objects: Some(objects), ..Self::default() }
    }

    /// Whether the name is an object, and so the first step of a path in the data.
    pub(crate) fn is_object(&self, name: &str) -> bool {
        self.objects.is_some_and(|it| it.contains(&name))
    }

    pub(crate) fn resolve_root(&mut self, name: &'s str, at: usize) -> Result<Root, SyntaxError> {
        match name {
            _ if self.is_object(name) => Ok(Root::Data),
            _ if self.objects.is_some_and(<[_]>::is_empty) => {
                Err((at, "only quoted text and numbers can be used here"))
            }
            _ if self.objects.is_some() => Err((at, "unknown name")),
            "data" => Ok(Root::Data),
            "metadata" => Ok(Root::Metadata),
            _ => {
                let inner = self.loops.iter().rev().find(|(it, _)| *it == name);
                let slot = inner.map(|(_, slot)| *slot);
                Ok(Root::Slot(slot.unwrap_or_else(|| self.slot_for_variable(name, at, false))))
            }
        }
    }

    /// For `assign` and `capture`. In a loop, the definition may follow a use.
    pub(crate) fn define(&mut self, name: &'s str, at: usize) -> Result<usize, SyntaxError> {
        check_name_is_free(name, at)?;
        Ok(self.slot_for_variable(name, at, true))
    }

    pub(crate) fn enter_loop(&mut self, name: &'s str, at: usize) -> Result<usize, SyntaxError> {
        check_name_is_free(name, at)?;
        let slot = self.new_slot();
        self.loops.push((name, slot));
        Ok(slot)
    }

    pub(crate) fn leave_loop(&mut self) {
        self.loops.pop();
    }

    pub(crate) fn is_in_loop(&self) -> bool {
        !self.loops.is_empty()
    }

    /// The number of slots. Fails if a used name was never defined.
    pub(crate) fn slot_count(&self) -> Result<usize, SyntaxError> {
        match self.variables.iter().find(|it| !it.defined) {
            Some(unknown) => Err((unknown.first_use, UNKNOWN_NAME)),
            None => Ok(self.slots),
        }
    }

    fn slot_for_variable(&mut self, name: &'s str, at: usize, defined: bool) -> usize {
        if let Some(variable) = self.variables.iter_mut().find(|it| it.name == name) {
            variable.defined |= defined;
            return variable.slot;
        }
        let slot = self.new_slot();
        self.variables.push(Variable { name, slot, first_use: at, defined });
        slot
    }

    fn new_slot(&mut self) -> usize {
        let slot = self.slots;
        self.slots = self.slots.saturating_add(1);
        slot
    }
}

/// A variable with the name of a filter would make commas ambiguous.
fn check_name_is_free(name: &str, at: usize) -> Result<(), SyntaxError> {
    if RESERVED.contains(&name) {
        return Err((at, "this name is reserved"));
    }
    match filter::find_filter(name) {
        Some(_) => Err((at, "this is the name of a filter")),
        None => Ok(()),
    }
}
