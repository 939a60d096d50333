//! From segments to a tree of nodes.

use crate::{
    ExpressionError, NESTING_MAX, SOURCE_BYTES_MAX,
    syntax::{
        ast::{Branch, Case, Condition, Expression, For, Node},
        lexeme::{Lexeme, Placed, lexemes},
        parse::{Names, Parsed, Parser},
        segment::{Inner, Segment, segments},
    },
};

impl Expression {
    /// # Errors
    /// The text is too long, not well formed, or asks for something the language does not have.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(ExpressionError { position: 1, problem: "the expression is too long" });
        }
        compile(source).map_err(|(byte, problem)| ExpressionError::at(source, byte, problem))
    }
}

fn compile(source: &str) -> Parsed<Expression> {
    let segments = segments(source)?;
    let mut rest = segments.iter();
    let mut tree = Tree { rest: &mut rest, names: Names::default(), random: false, depth: 0 };
    let (body, _) = tree.body(&[], 0)?;
    let slots = tree.names.finish()?;
    Ok(Expression { body, slots, random: tree.random })
}

struct Tree<'t, 's> {
    rest: &'t mut std::slice::Iter<'t, Segment<'s>>,
    names: Names<'s>,
    random: bool,
    depth: usize,
}

/// A tag, taken apart.
struct Tag<'s> {
    name: &'s str,
    lexemes: Vec<Placed<'s>>,
    inner: Inner<'s>,
}

impl<'s> Tag<'s> {
    fn read(inner: Inner<'s>) -> Parsed<Self> {
        let mut lexemes = lexemes(inner.text, inner.offset)?;
        match lexemes.first() {
            Some((_, Lexeme::Name(name))) => {
                let name = *name;
                lexemes.remove(0);
                Ok(Self { name, lexemes, inner })
            }
            Some((at, _)) => Err((*at, "a tag was expected")),
            None => Err((inner.offset, "a tag was expected")),
        }
    }
}

impl<'s> Tree<'_, 's> {
    fn parser<'p>(&'p mut self, lexemes: &'p [Placed<'s>], inner: Inner<'s>) -> Parser<'p, 's> {
        let end = inner.offset.saturating_add(inner.text.len());
        Parser::new(lexemes, end, &mut self.names, &mut self.random)
    }

    /// Up to one of the tags that end it, which is given back, or to the end of the source.
    fn body(&mut self, ends: &[&str], opened: usize) -> Parsed<(Vec<Node>, Option<Tag<'s>>)> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > NESTING_MAX {
            return Err((opened, "this is nested too deep"));
        }
        let mut nodes = Vec::new();
        while let Some(segment) = self.rest.next() {
            match segment {
                Segment::Text(text) => nodes.push(Node::Text((*text).to_owned())),
                Segment::Output(inner) => {
                    let lexemes = lexemes(inner.text, inner.offset)?;
                    let output = self.parser(&lexemes, *inner).output(inner.position)?;
                    nodes.push(Node::Output(output));
                }
                Segment::Tag(inner) => {
                    let tag = Tag::read(*inner)?;
                    if ends.contains(&tag.name) {
                        self.depth = self.depth.saturating_sub(1);
                        return Ok((nodes, Some(tag)));
                    }
                    nodes.push(self.tag(&tag)?);
                }
            }
        }
        if ends.is_empty() {
            return Ok((nodes, None));
        }
        Err((opened, "this tag is never closed"))
    }

    fn tag(&mut self, tag: &Tag<'s>) -> Parsed<Node> {
        let (position, offset) = (tag.inner.position, tag.inner.offset);
        match tag.name {
            "if" => self.branches(tag, "endif"),
            "unless" => self.branches(tag, "endunless"),
            "case" => self.case(tag),
            "for" => self.repeat(tag),
            "echo" => {
                let output = self.parser(&tag.lexemes, tag.inner).output(position)?;
                Ok(Node::Output(output))
            }
            "assign" => {
                let (name, at, lexemes) = named(tag)?;
                let [(_, Lexeme::Equal), value @ ..] = lexemes else {
                    return Err((at, "an assignment is a name, = and a value"));
                };
                let value = self.parser(value, tag.inner).output(position)?;
                Ok(Node::Assign { slot: self.names.define(name, at)?, value })
            }
            "capture" => {
                let (name, at, rest) = named(tag)?;
                nothing_more(rest)?;
                let (body, _) = self.body(&["endcapture"], offset)?;
                Ok(Node::Capture { slot: self.names.define(name, at)?, position, body })
            }
            "break" | "continue" => {
                nothing_more(&tag.lexemes)?;
                if !self.names.in_loop() {
                    return Err((offset, "there is no loop here"));
                }
                Ok(if tag.name == "break" { Node::Break } else { Node::Continue })
            }
            _ => Err((offset, "there is no such tag here")),
        }
    }

    fn branches(&mut self, opening: &Tag<'s>, end: &'static str) -> Parsed<Node> {
        let mut condition = self.parser(&opening.lexemes, opening.inner).condition()?;
        condition.negated = opening.name == "unless";
        let mut position = opening.inner.position;
        let mut branches = Vec::new();
        let mut otherwise = false;
        loop {
            let (body, next) = self.body(&["elsif", "else", end], opening.inner.offset)?;
            branches.push(Branch { position, condition, body });
            let Some(next) = next else { return Ok(Node::If(branches)) };
            position = next.inner.position;
            if next.name == end {
                nothing_more(&next.lexemes)?;
                return Ok(Node::If(branches));
            }
            if otherwise {
                return Err((next.inner.offset, "nothing follows else"));
            }
            condition = if next.name == "elsif" {
                self.parser(&next.lexemes, next.inner).condition()?
            } else {
                nothing_more(&next.lexemes)?;
                otherwise = true;
                Condition { negated: false, terms: Vec::new() }
            };
        }
    }

    fn case(&mut self, opening: &Tag<'s>) -> Parsed<Node> {
        let mut parser = self.parser(&opening.lexemes, opening.inner);
        let subject = parser.operand()?;
        parser.finish("case takes one value")?;
        let offset = opening.inner.offset;
        let mut arms = Vec::new();
        let mut otherwise = Vec::new();
        // Liquid drops what stands before the first arm.
        let (_, mut next) = self.body(&["when", "else", "endcase"], offset)?;
        while let Some(tag) = next {
            match tag.name {
                "when" => {
                    let mut parser = self.parser(&tag.lexemes, tag.inner);
                    let mut values = vec![parser.operand()?];
                    while let Some((at, lexeme)) = parser.next() {
                        if !matches!(lexeme, Lexeme::Comma | Lexeme::Name("or")) {
                            return Err((at, "a comma, or, or the end was expected"));
                        }
                        values.push(parser.operand()?);
                    }
                    let (body, after) = self.body(&["when", "else", "endcase"], offset)?;
                    arms.push((values, body));
                    next = after;
                }
                "else" => {
                    nothing_more(&tag.lexemes)?;
                    (otherwise, _) = self.body(&["endcase"], offset)?;
                    break;
                }
                _ => break,
            }
        }
        Ok(Node::Case(Case { position: opening.inner.position, subject, arms, otherwise }))
    }

    fn repeat(&mut self, opening: &Tag<'s>) -> Parsed<Node> {
        let (name, at, rest) = named(opening)?;
        let [(_, Lexeme::Name("in")), rest @ ..] = rest else {
            return Err((at, "a loop is a name, in and a list"));
        };
        let mut parser = self.parser(rest, opening.inner);
        let list = parser.operand()?;
        let (mut offset, mut limit, mut reversed) = (None, None, false);
        while let Some((at, lexeme)) = parser.next() {
            let bound = match if let Lexeme::Name(name) = lexeme { name } else { "" } {
                "offset" => &mut offset,
                "limit" => &mut limit,
                "reversed" => {
                    reversed = true;
                    continue;
                }
                _ if lexeme == Lexeme::Comma => continue,
                _ => return Err((at, "a loop knows reversed, limit and offset")),
            };
            parser.expect(Lexeme::Colon, "a : was expected")?;
            *bound = Some(parser.operand()?);
        }
        let slot = self.names.enter_loop(name, at)?;
        let opened = opening.inner.offset;
        let (body, next) = self.body(&["else", "endfor"], opened)?;
        self.names.leave_loop();
        let otherwise = match next {
            Some(tag) if tag.name == "else" => self.body(&["endfor"], opened)?.0,
            Some(_) | None => Vec::new(),
        };
        let position = opening.inner.position;
        Ok(Node::For(Box::new(For {
            position,
            slot,
            list,
            offset,
            limit,
            reversed,
            body,
            otherwise,
        })))
    }
}

/// The name that a tag begins with, and what follows.
fn named<'t, 's>(tag: &'t Tag<'s>) -> Parsed<(&'s str, usize, &'t [Placed<'s>])> {
    match tag.lexemes.as_slice() {
        [(at, Lexeme::Name(name)), rest @ ..] => Ok((name, *at, rest)),
        [(at, _), ..] => Err((*at, "a name was expected")),
        [] => Err((tag.inner.offset, "a name was expected")),
    }
}

fn nothing_more(lexemes: &[Placed<'_>]) -> Parsed<()> {
    lexemes.first().map_or(Ok(()), |(at, _)| Err((*at, "nothing was expected here")))
}
