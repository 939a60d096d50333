// Expiration dates: formatting while typing, reading, checking, and output by format.

import { applyEdit, caretAfter, onlyDigits, toAsciiDigits } from "./digits.js";

/**
 * @typedef {import("./digits.js").EditedText} EditedText
 * @typedef {import("./digits.js").EditKind} EditKind
 * @typedef {{ month: number, year: number }} Expiration
 */

/**
 * Shortens the digits of a year: a year of four digits becomes two as soon as it is complete.
 * @param {string} digits
 */
function shortYear(digits) {
  if (!digits.startsWith("20")) return digits.slice(0, 2);
  return digits.length >= 4 ? digits.slice(2, 4) : digits;
}

/**
 * Splits digits without a separator. "130" is January 2030, because 13 is no month.
 * @param {string} digits
 * @param {boolean} isDeletion
 */
function splitDigits(digits, isDeletion) {
  const rest = (!isDeletion && /^([2-9]|1[3-9])/.test(digits) ? `0${digits}` : digits).replace(/^0+(?=0)/, "");
  return { month: rest.slice(0, 2), year: rest.slice(2) };
}

/**
 * The number of digits before the separator, or -1 without one.
 * @param {string} text
 */
function monthLength(text) {
  const separator = text.search(/[^\d\s]/);
  return separator === -1 ? -1 : onlyDigits(text.slice(0, separator)).length;
}

/**
 * Formats a date after an edit, as "MM / YY" or "MM/YY". Digits do not move from the month to the
 * year or back, except while the month is typed.
 * @param {EditedText} edited
 * @param {EditKind} kind
 * @param {EditedText} before
 * @param {boolean} spacing
 * @returns {EditedText}
 */
export function formatExpiration(edited, kind, before, spacing) {
  const isDeletion = kind === "backward" || kind === "forward";
  const plain = { text: toAsciiDigits(edited.text), caret: edited.caret };
  const { digits, count } = applyEdit(plain, kind, onlyDigits(before.text));
  let split = monthLength(plain.text);
  if (digits.length < onlyDigits(plain.text).length) {
    // Only the separator was deleted, and the digit next to it was removed in its place.
    split = monthLength(before.text);
    if (count < split) split -= 1;
  }
  const hasParts = split > 0 || (split === 0 && before.text !== "");
  let { month, year } =
    hasParts ? { month: digits.slice(0, split), year: digits.slice(split) } : splitDigits(digits, isDeletion);
  if (month.length > 2) {
    if (year !== "") return before;
    [month, year] = [month.slice(0, 2), month.slice(2)];
  }
  // "1" is finished by the separator; other digits can only be a whole month.
  const isAfterSeparator = hasParts && /[^\d\s]/.test(plain.text.slice(0, plain.caret));
  if (hasParts && !isDeletion && (isAfterSeparator ? /^[1-9]$/ : /^[2-9]$/).test(month)) month = `0${month}`;
  const added = month.length + year.length - digits.length;
  const isTooLong = year.length > 2 && !year.startsWith("20");
  if (!isDeletion && isTooLong && onlyDigits(before.text).length >= 4) return before;
  year = shortYear(year);
  const separator = spacing ? " / " : "/";
  const hasSeparator = year !== "" || (month.length === 2 && !isDeletion);
  const text = month + (hasSeparator ? separator : "") + year;
  const isAtEnd = count >= digits.length;
  return { text, caret: isAtEnd ? text.length : caretAfter(text, count === 0 ? 0 : Math.max(0, count + added)) };
}

/**
 * Reads "1/30", "130", "01/2030", "0130" or the formatted text. Years of two digits are in this
 * century.
 * @param {string} text
 * @returns {Expiration | undefined}
 */
export function parseExpiration(text) {
  const plain = toAsciiDigits(text).trim();
  const match =
    /^(\d{1,2})\s*[/.\-\s]\s*(\d{4}|\d{2})$/.exec(plain) ?? /^(\d{2})(\d{4}|\d{2})$/.exec(plain) ??
    /^(\d)(\d{2})$/.exec(plain);
  if (match === null) return undefined;
  const [, month = "", year = ""] = match;
  const date = { month: Number(month), year: year.length === 2 ? 2000 + Number(year) : Number(year) };
  return isDate(date) ? date : undefined;
}

/** @param {Expiration} date */
export function isDate({ month, year }) {
  const isMonth = Number.isInteger(month) && month >= 1 && month <= 12;
  return isMonth && Number.isInteger(year) && year >= 2000 && year <= 2099;
}

/**
 * Checks the text of a date. A card is valid through its last month; `elapsedYears` accepts dates
 * that passed at most that many years ago.
 * @param {string} text
 * @param {Date} now
 * @param {number} [elapsedYears]
 * @returns {"incomplete" | "invalid" | undefined}
 */
export function checkExpiration(text, now, elapsedYears = 0) {
  const digits = onlyDigits(text);
  const date = parseExpiration(text);
  if (date === undefined) return digits.length >= 4 ? "invalid" : "incomplete";
  const months = (now.getFullYear() - elapsedYears) * 12 + now.getMonth();
  return date.year * 12 + date.month - 1 < months ? "invalid" : undefined;
}

/**
 * The text that a field shows for a date.
 * @param {Expiration} date
 * @param {boolean} spacing
 */
export function showExpiration(date, spacing) {
  return formatDate(date, spacing ? "MM / yy" : "MM/yy");
}

const FORMAT_TOKENS = /'([^']*)'|M{1,2}|L{1,2}|yyyy|yy|y/g;

/**
 * Whether a format of the page adds nothing to the date: month and year at most once each, and only
 * separators next to them. With digits of its own, or with a repeated month, a page could make a routing
 * number out of a date, and the vault's checksum would tell about the date.
 * @param {string} format
 */
export function isDateFormat(format) {
  const tokens = [...format.matchAll(FORMAT_TOKENS)].map(([token]) => token).filter((it) => !it.startsWith("'"));
  const years = tokens.filter((it) => it.startsWith("y")).length;
  const literals = format.replace(FORMAT_TOKENS, (_, literal) => literal ?? "");
  return years <= 1 && tokens.length - years <= 1 && !/[\p{L}\p{N}]/u.test(literals);
}

/**
 * Formats a date by tokens: M and MM (also L, LL), yy, yyyy (also y). Text in single quotes and all
 * other characters stay.
 * @param {Expiration} date
 * @param {string} format
 */
export function formatDate({ month, year }, format) {
  return format.slice(0, 100).replace(FORMAT_TOKENS, (token, literal) => {
    if (literal !== undefined) return literal;
    if (token === "yy") return String(year % 100).padStart(2, "0");
    if (token.startsWith("y")) return String(year);
    return String(month).padStart(token.length, "0");
  });
}
