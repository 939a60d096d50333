//! Dates as text, by the codes of `strftime`.
//!
//! There is no clock and no time zone of the machine: the same value and format always give the
//! same text. Where Liquid's implementations differ we do as the first one, in Ruby, which has
//! more codes.

mod moment;

use jiff::civil::DateTime;
use serde_json::Value;

use self::moment::Moment;
use super::{Context, Filtered, argument};
use crate::{datum::Datum, inner_steps::count};

/// A code gives at most twelve times its own length, so this bounds the output as well.
const FORMAT_BYTES_MAX: usize = 256;
const NO_FORMAT: &str = "date takes a format";
const UNKNOWN: &str = "date does not know a code of its format";

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(crate) fn date<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let format = argument::given(arguments, 0).ok_or(NO_FORMAT)?;
    // A code is two bytes to read, but far more work than that.
    context.budget.steps(format.as_str().unwrap_or_default().matches('%').count())?;
    if value.is_null() {
        check(format)?;
        return Ok(value);
    }
    Ok(Datum::text(formatted(format, &Moment::of(&value)?)?))
}

/// Whether a format can be used does not depend on the date, so any will do.
pub(crate) fn check(format: &Value) -> Result<(), &'static str> {
    formatted(format, &Moment::EPOCH).map(drop)
}

fn formatted(format: &Value, moment: &Moment) -> Result<String, &'static str> {
    // Without a format Ruby gives the date as it is, liquidjs a format of its own.
    let format = format.as_str().filter(|it| !it.is_empty()).ok_or(NO_FORMAT)?;
    if format.len() > FORMAT_BYTES_MAX {
        return Err("the format is too long");
    }
    expanded(format, moment).ok_or(UNKNOWN)
}

fn expanded(format: &str, moment: &Moment) -> Option<String> {
    count(format.len());
    let mut text = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let (code, after) = Code::read(after)?;
        text.push_str(&code.text(moment)?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// What stands after a `%`. As in Liquid, a flag that a code has no use for does nothing.
#[derive(Default)]
struct Code {
    padding: Option<Padding>,
    upper: bool,
    /// Only in `%:z`.
    colon: bool,
    /// How many digits of the second, only in `%N`.
    digits: Option<usize>,
    letter: char,
}

#[derive(Clone, Copy)]
enum Padding {
    None,
    With(char),
}

/// What a code stands for, before its flags.
enum Part {
    Text(String),
    Number {
        number: i64,
        width: usize,
        padding: char,
    },
    /// Other codes, none of them of this kind.
    Codes(&'static str),
}

impl Code {
    fn read(text: &str) -> Option<(Self, &str)> {
        let mut code = Self::default();
        let mut chars = text.chars();
        loop {
            match chars.next()? {
                '-' => code.padding = Some(Padding::None),
                '0' => code.padding = Some(Padding::With('0')),
                '_' => code.padding = Some(Padding::With(' ')),
                '^' => code.upper = true,
                ':' if !code.colon => code.colon = true,
                digit @ '1'..='9' => {
                    code.digits = digit.to_digit(10).and_then(|it| usize::try_from(it).ok());
                    code.letter = chars.next().filter(|it| *it == 'N')?;
                    break;
                }
                letter => {
                    code.letter = letter;
                    break;
                }
            }
        }
        let fits = !code.colon || code.letter == 'z';
        fits.then_some((code, chars.as_str()))
    }

    fn text(&self, moment: &Moment) -> Option<String> {
        let text = match self.part(moment)? {
            Part::Text(text) => text,
            Part::Codes(codes) => expanded(codes, moment)?,
            Part::Number { number, width, padding } => {
                match self.padding.unwrap_or(Padding::With(padding)) {
                    Padding::None => number.to_string(),
                    Padding::With('0') => format!("{number:0>width$}"),
                    Padding::With(_) => format!("{number:>width$}"),
                }
            }
        };
        Some(if self.upper { text.to_uppercase() } else { text })
    }

    fn part(&self, moment: &Moment) -> Option<Part> {
        let at = moment.at;
        let week = || at.date().iso_week_date();
        Some(match self.letter {
            'Y' => zeros(at.year(), 4),
            'C' => zeros(at.year() / 100, 2),
            'y' => zeros(at.year() % 100, 2),
            'G' => zeros(week().year(), 4),
            'g' => zeros(week().year() % 100, 2),
            'm' => zeros(at.month(), 2),
            'B' => Part::Text(month(at)?.to_owned()),
            'b' | 'h' => Part::Text(month(at)?.get(..3)?.to_owned()),
            'd' => zeros(at.day(), 2),
            'e' => spaces(at.day()),
            'j' => zeros(at.day_of_year(), 3),
            'A' => Part::Text(weekday(at)?.to_owned()),
            'a' => Part::Text(weekday(at)?.get(..3)?.to_owned()),
            'u' => zeros(at.weekday().to_monday_one_offset(), 1),
            'w' => zeros(at.weekday().to_sunday_zero_offset(), 1),
            'U' => zeros(week_from(at, at.weekday().to_sunday_zero_offset()), 2),
            'W' => zeros(week_from(at, at.weekday().to_monday_zero_offset()), 2),
            'V' => zeros(week().week(), 2),
            'H' => zeros(at.hour(), 2),
            'k' => spaces(at.hour()),
            'I' => zeros(half_day(at), 2),
            'l' => spaces(half_day(at)),
            'M' => zeros(at.minute(), 2),
            'S' => zeros(at.second(), 2),
            'L' => Part::Text(fraction(moment, 3)?),
            'N' => Part::Text(fraction(moment, self.digits.unwrap_or(9))?),
            'p' => Part::Text(if at.hour() < 12 { "AM" } else { "PM" }.to_owned()),
            'P' => Part::Text(if at.hour() < 12 { "am" } else { "pm" }.to_owned()),
            's' => zeros(moment.unix_seconds(), 1),
            'z' => Part::Text(offset(moment, if self.colon { ":" } else { "" })),
            'Z' if moment.offset_minutes == 0 => Part::Text("UTC".to_owned()),
            'Z' => Part::Text(offset(moment, "")),
            'D' | 'x' => Part::Codes("%m/%d/%y"),
            'F' => Part::Codes("%Y-%m-%d"),
            'R' => Part::Codes("%H:%M"),
            'T' | 'X' => Part::Codes("%H:%M:%S"),
            'r' => Part::Codes("%I:%M:%S %p"),
            'c' => Part::Codes("%a %b %e %H:%M:%S %Y"),
            'n' => Part::Text("\n".to_owned()),
            't' => Part::Text("\t".to_owned()),
            '%' => Part::Text("%".to_owned()),
            _ => return None,
        })
    }
}

fn zeros(number: impl Into<i64>, width: usize) -> Part {
    Part::Number { number: number.into(), width, padding: '0' }
}

fn spaces(number: impl Into<i64>) -> Part {
    Part::Number { number: number.into(), width: 2, padding: ' ' }
}

fn month(at: DateTime) -> Option<&'static str> {
    MONTHS.get(usize::try_from(at.month()).ok()?.checked_sub(1)?).copied()
}

fn weekday(at: DateTime) -> Option<&'static str> {
    DAYS.get(usize::try_from(at.weekday().to_sunday_zero_offset()).ok()?).copied()
}

fn half_day(at: DateTime) -> i8 {
    match at.hour() % 12 {
        0 => 12,
        hour => hour,
    }
}

/// The week of the year; days before the first whole one are in week nought.
fn week_from(at: DateTime, days_into_week: i8) -> i16 {
    at.day_of_year().saturating_add(6).saturating_sub(i16::from(days_into_week)) / 7
}

/// Cut, not rounded: a second that is not over has not come.
fn fraction(moment: &Moment, digits: usize) -> Option<String> {
    format!("{:09}", moment.nanoseconds).get(..digits).map(str::to_owned)
}

fn offset(moment: &Moment, between: &str) -> String {
    let sign = if moment.offset_minutes < 0 { '-' } else { '+' };
    let minutes = moment.offset_minutes.unsigned_abs();
    format!("{sign}{:02}{between}{:02}", minutes / 60, minutes % 60)
}
