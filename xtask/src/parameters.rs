//! The parameters of functions: how many there are, and which are anonymous tuples.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use proc_macro2::Span;
use syn::{FnArg, ImplItemFn, ItemFn, Signature, TraitItemFn, Type, visit::Visit};

use crate::sources;

/// A function with more parameters than this takes a struct instead.
pub const MOST_PARAMETERS: usize = 7;

/// A function with an unusual list of parameters.
#[derive(Debug)]
pub struct Finding {
    pub function: String,
    pub line: usize,
    /// Parameters besides `self`.
    pub parameters: usize,
    /// Parameters whose type is a tuple or a reference to one.
    pub tuples: usize,
}

impl Finding {
    /// Whether the function has an anonymous tuple as a parameter, or too many parameters.
    pub fn breaks_a_rule(&self) -> bool {
        self.tuples > 0 || self.parameters > MOST_PARAMETERS
    }
}

/// Lists the functions below `folder`, tests included, whose parameters break a rule.
pub fn violations(folder: &Path) -> Result<Vec<(PathBuf, Finding)>> {
    let mut found = Vec::new();
    for file in sources::files_with_extension(folder, "rs")? {
        let broken = functions(&file)?.into_iter().filter(Finding::breaks_a_rule);
        found.extend(broken.map(|it| (file.clone(), it)));
    }
    Ok(found)
}

/// Lists the functions of a file with their parameters. Functions of tests are included.
pub fn functions(file: &Path) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
    let mut collector = Collector::default();
    collector.visit_file(&parsed);
    Ok(collector.found)
}

#[derive(Default)]
struct Collector {
    found: Vec<Finding>,
}

impl Collector {
    fn add(&mut self, signature: &Signature) {
        let types = signature.inputs.iter().filter_map(|it| match it {
            FnArg::Typed(typed) => Some(&*typed.ty),
            _ => None,
        });
        let types: Vec<_> = types.collect();
        let tuples = types.iter().filter(|it| is_tuple(it)).count();
        let line = Span::start(&signature.ident.span()).line;
        let function = signature.ident.to_string();
        self.found.push(Finding { function, line, parameters: types.len(), tuples });
    }
}

fn is_tuple(found: &Type) -> bool {
    if let Type::Reference(it) = found {
        is_tuple(&it.elem)
    } else if let Type::Paren(it) = found {
        is_tuple(&it.elem)
    } else {
        matches!(found, Type::Tuple(it) if !it.elems.is_empty())
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.sig);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.sig);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.add(&function.sig);
        syn::visit::visit_trait_item_fn(self, function);
    }
}
