//! Parses segments into a tree of nodes.

use crate::{
    ExpressionError, NESTING_MAX, SOURCE_BYTES_MAX,
    syntax::{
        ast::{Branch, Case, Condition, Expression, For, Node},
        lexeme::{Lexeme, PositionedLexeme, lexemes},
        parse::{NameTable, ParseResult, Parser},
        segment::{BraceContent, Segment, split_segments},
    },
};

impl Expression {
    /// Errors: the text is too long, malformed, or uses an unknown feature.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(ExpressionError { position: 1, problem: "the expression is too long" });
        }
        compile(source).map_err(|(byte, problem)| ExpressionError::at(source, byte, problem))
    }
}

fn compile(source: &str) -> ParseResult<Expression> {
    let segments = split_segments(source)?;
    let mut rest = segments.iter();
    let mut builder =
        TreeBuilder { rest: &mut rest, names: NameTable::default(), random: false, depth: 0 };
    let (body, _) = builder.parse_body(&[], 0)?;
    let slots = builder.names.slot_count()?;
    Ok(Expression { body, slots, random: builder.random })
}

struct TreeBuilder<'t, 's> {
    rest: &'t mut std::slice::Iter<'t, Segment<'s>>,
    names: NameTable<'s>,
    random: bool,
    depth: usize,
}

/// A tag and its lexemes.
struct Tag<'s> {
    name: &'s str,
    lexemes: Vec<PositionedLexeme<'s>>,
    content: BraceContent<'s>,
}

impl<'s> Tag<'s> {
    fn parse(content: BraceContent<'s>) -> ParseResult<Self> {
        let mut lexemes = lexemes(content.text, content.offset)?;
        match lexemes.first() {
            Some((_, Lexeme::Name(name))) => {
                let name = *name;
                lexemes.remove(0);
                Ok(Self { name, lexemes, content })
            }
            Some((at, _)) => Err((*at, "a tag was expected")),
            None => Err((content.offset, "a tag was expected")),
        }
    }
}

impl<'s> TreeBuilder<'_, 's> {
    fn parser<'p>(
        &'p mut self,
        lexemes: &'p [PositionedLexeme<'s>],
        content: BraceContent<'s>,
    ) -> Parser<'p, 's> {
        let end = content.offset.saturating_add(content.text.len());
        Parser::new(lexemes, end, &mut self.names, &mut self.random)
    }

    /// Parses up to one of the end tags, which is returned, or to the end of the source.
    fn parse_body(
        &mut self,
        end_tags: &[&str],
        opening_offset: usize,
    ) -> ParseResult<(Vec<Node>, Option<Tag<'s>>)> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > NESTING_MAX {
            return Err((opening_offset, "this is nested too deep"));
        }
        let mut nodes = Vec::new();
        while let Some(segment) = self.rest.next() {
            match segment {
                Segment::Text(text) => nodes.push(Node::Text((*text).to_owned())),
                Segment::Output(inner) => {
                    let lexemes = lexemes(inner.text, inner.offset)?;
                    let output = self.parser(&lexemes, *inner).parse_output(inner.position)?;
                    nodes.push(Node::Output(output));
                }
                Segment::Tag(inner) => {
                    let tag = Tag::parse(*inner)?;
                    if end_tags.contains(&tag.name) {
                        self.depth = self.depth.saturating_sub(1);
                        return Ok((nodes, Some(tag)));
                    }
                    nodes.push(self.parse_tag(&tag)?);
                }
            }
        }
        if end_tags.is_empty() {
            return Ok((nodes, None));
        }
        Err((opening_offset, "this tag has no end tag"))
    }

    fn parse_tag(&mut self, tag: &Tag<'s>) -> ParseResult<Node> {
        let (position, offset) = (tag.content.position, tag.content.offset);
        match tag.name {
            "if" => self.parse_if(tag, "endif"),
            "unless" => self.parse_if(tag, "endunless"),
            "case" => self.parse_case(tag),
            "for" => self.parse_for(tag),
            "echo" => {
                let output = self.parser(&tag.lexemes, tag.content).parse_output(position)?;
                Ok(Node::Output(output))
            }
            "assign" => {
                let (name, at, lexemes) = leading_name(tag)?;
                let [(_, Lexeme::Equal), value @ ..] = lexemes else {
                    return Err((at, "an assignment is a name, = and a value"));
                };
                let value = self.parser(value, tag.content).parse_output(position)?;
                Ok(Node::Assign { slot: self.names.define(name, at)?, value })
            }
            "capture" => {
                let (name, at, rest) = leading_name(tag)?;
                expect_no_more(rest)?;
                let (body, _) = self.parse_body(&["endcapture"], offset)?;
                Ok(Node::Capture { slot: self.names.define(name, at)?, position, body })
            }
            "break" | "continue" => {
                expect_no_more(&tag.lexemes)?;
                if !self.names.is_in_loop() {
                    return Err((offset, "only allowed inside a loop"));
                }
                Ok(if tag.name == "break" { Node::Break } else { Node::Continue })
            }
            _ => Err((offset, "unknown tag")),
        }
    }

    fn parse_if(&mut self, opening: &Tag<'s>, end: &'static str) -> ParseResult<Node> {
        let mut condition = self.parser(&opening.lexemes, opening.content).parse_condition()?;
        condition.negated = opening.name == "unless";
        let mut position = opening.content.position;
        let mut branches = Vec::new();
        let mut has_else = false;
        loop {
            let (body, next) = self.parse_body(&["elsif", "else", end], opening.content.offset)?;
            branches.push(Branch { position, condition, body });
            let Some(next) = next else { return Ok(Node::If(branches)) };
            position = next.content.position;
            if next.name == end {
                expect_no_more(&next.lexemes)?;
                return Ok(Node::If(branches));
            }
            if has_else {
                return Err((next.content.offset, "no branch may follow else"));
            }
            condition = if next.name == "elsif" {
                self.parser(&next.lexemes, next.content).parse_condition()?
            } else {
                expect_no_more(&next.lexemes)?;
                has_else = true;
                Condition { negated: false, terms: Vec::new() }
            };
        }
    }

    fn parse_case(&mut self, opening: &Tag<'s>) -> ParseResult<Node> {
        let mut parser = self.parser(&opening.lexemes, opening.content);
        let subject = parser.parse_operand()?;
        parser.expect_end("case takes one value")?;
        let offset = opening.content.offset;
        let mut arms = Vec::new();
        let mut otherwise = Vec::new();
        // Liquid drops the text before the first arm.
        let (_, mut next) = self.parse_body(&["when", "else", "endcase"], offset)?;
        while let Some(tag) = next {
            match tag.name {
                "when" => {
                    let mut parser = self.parser(&tag.lexemes, tag.content);
                    let mut values = vec![parser.parse_operand()?];
                    while let Some((at, lexeme)) = parser.next() {
                        if !matches!(lexeme, Lexeme::Comma | Lexeme::Name("or")) {
                            return Err((at, "a comma, or, or the end was expected"));
                        }
                        values.push(parser.parse_operand()?);
                    }
                    let (body, after) = self.parse_body(&["when", "else", "endcase"], offset)?;
                    arms.push((values, body));
                    next = after;
                }
                "else" => {
                    expect_no_more(&tag.lexemes)?;
                    (otherwise, _) = self.parse_body(&["endcase"], offset)?;
                    break;
                }
                _ => break,
            }
        }
        Ok(Node::Case(Case {
            position: opening.content.position,
            subject,
            arms,
            else_body: otherwise,
        }))
    }

    fn parse_for(&mut self, opening: &Tag<'s>) -> ParseResult<Node> {
        let (name, at, rest) = leading_name(opening)?;
        let [(_, Lexeme::Name("in")), rest @ ..] = rest else {
            return Err((at, "a loop is a name, in and a list"));
        };
        let mut parser = self.parser(rest, opening.content);
        let list = parser.parse_operand()?;
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
                _ => return Err((at, "a loop supports reversed, limit and offset")),
            };
            parser.expect(Lexeme::Colon, "a : was expected")?;
            *bound = Some(parser.parse_operand()?);
        }
        let slot = self.names.enter_loop(name, at)?;
        let opened = opening.content.offset;
        let (body, next) = self.parse_body(&["else", "endfor"], opened)?;
        self.names.leave_loop();
        let otherwise = match next {
            Some(tag) if tag.name == "else" => self.parse_body(&["endfor"], opened)?.0,
            Some(_) | None => Vec::new(),
        };
        let position = opening.content.position;
        Ok(Node::For(Box::new(For {
            position,
            slot,
            list,
            offset,
            limit,
            reversed,
            body,
            else_body: otherwise,
        })))
    }
}

/// The name at the beginning of a tag, and the rest.
fn leading_name<'t, 's>(
    tag: &'t Tag<'s>,
) -> ParseResult<(&'s str, usize, &'t [PositionedLexeme<'s>])> {
    match tag.lexemes.as_slice() {
        [(at, Lexeme::Name(name)), rest @ ..] => Ok((name, *at, rest)),
        [(at, _), ..] => Err((*at, "a name was expected")),
        [] => Err((tag.content.offset, "a name was expected")),
    }
}

fn expect_no_more(lexemes: &[PositionedLexeme<'_>]) -> ParseResult<()> {
    lexemes.first().map_or(Ok(()), |(at, _)| Err((*at, "unexpected text")))
}
