// The four kinds of inputs: how each formats, checks and outputs its text. No DOM.

import { brandByType, checkNumber, findBrand, gapsFor, longestLength } from "./format/brand.js";
import { formatNumber, onlyDigits } from "./format/digits.js";
import { checkExpiration, formatExpiration, parseExpiration, showExpiration } from "./format/expiration.js";
import { formatMask, satisfiesMask } from "./format/mask.js";

/**
 * @typedef {import("./format/digits.js").EditedText} EditedText
 * @typedef {import("./format/digits.js").EditKind} EditKind
 * @typedef {import("./field-options.js").FieldOptions} FieldOptions
 * @typedef {import("./field-options.js").Role} Role
 *
 * @typedef {object} PartKind
 * @property {(edited: EditedText, kind: EditKind, before: EditedText) => EditedText} format
 * @property {(text: string) => "incomplete" | "invalid" | undefined} check also for an empty text
 * @property {(text: string) => string} value without `transform` of the page
 * @property {(text: string) => boolean} isFinished whether the next part gets the focus
 * @property {(raw: string) => string} show the text for a value that was not typed
 */

/** @type {Record<string, [Role, string][]>} Roles and target ids of the inputs of each type. */
export const PARTS = {
  card: [["number", "cardNumber"], ["expiration", "cardExpirationDate"], ["code", "cardVerificationCode"]],
  cardNumber: [["number", ""]],
  cardExpirationDate: [["expiration", ""]],
  cardVerificationCode: [["code", ""]],
  text: [["text", ""]],
};

/** @param {string} type */
export function isInputType(type) {
  return Object.hasOwn(PARTS, type);
}

/**
 * Lengths at which a correct number is taken as finished. Brands with many lengths have numbers that
 * are correct by chance before their end.
 * @param {string} digits
 */
function isFinishedNumber(digits) {
  const brand = findBrand(digits);
  const lengths = brand?.lengths ?? [];
  const shortest = lengths.length <= 3 ? lengths[0] : 16;
  return digits.length === longestLength(brand) || digits.length === 16 || digits.length === shortest;
}

/**
 * @param {() => FieldOptions} options
 * @returns {PartKind}
 */
function numberKind(options) {
  const layout = (/** @type {string} */ digits) => {
    const brand = findBrand(digits);
    return { gaps: gapsFor(brand), max: longestLength(brand) };
  };
  const check = (/** @type {string} */ text) => checkNumber(onlyDigits(text), options()).error;
  return {
    format: (edited, kind, before) => formatNumber(edited, kind, before, layout),
    check: (text) => (text === "" ? "incomplete" : check(text)),
    value: onlyDigits,
    isFinished: (text) => check(text) === undefined && isFinishedNumber(onlyDigits(text)),
    // A masked number of the vault has letters, and stays as it is.
    show: (raw) => (/^[\d\s-]+$/.test(raw) ? formatNumber({ text: raw, caret: 0 }, "other", EMPTY, layout).text : raw),
  };
}

const EMPTY = { text: "", caret: 0 };

/**
 * @param {() => FieldOptions} options
 * @returns {PartKind}
 */
function expirationKind(options) {
  const check = (/** @type {string} */ text) => checkExpiration(text, new Date(), options().elapsedYears);
  return {
    format: (edited, kind, before) => formatExpiration(edited, kind, before, options().showSpacing),
    check,
    value: (text) => text,
    isFinished: (text) => check(text) === undefined,
    show: (raw) => {
      const date = parseExpiration(raw);
      return date === undefined ? raw : showExpiration(date, options().showSpacing);
    },
  };
}

/**
 * @param {() => string | undefined} brandType brand of the number, or of the option
 * @returns {PartKind}
 */
function codeKind(brandType) {
  const size = () => brandByType(brandType()?.toLowerCase().replaceAll(" ", "-"))?.code.size;
  // Without a brand a code of three or four digits is accepted.
  const layout = () => ({ gaps: [], max: size() ?? 4 });
  const check = (/** @type {string} */ text) => {
    const { length } = onlyDigits(text);
    if (length < (size() ?? 3)) return "incomplete";
    return length > (size() ?? 4) ? "invalid" : undefined;
  };
  return {
    format: (edited, kind, before) => formatNumber(edited, kind, before, layout),
    check,
    value: onlyDigits,
    isFinished: (text) => onlyDigits(text).length === size(),
    show: (raw) => raw,
  };
}

/**
 * @param {() => FieldOptions} options
 * @returns {PartKind}
 */
function textKind(options) {
  return {
    format(edited, kind, before) {
      const { mask, maxLength } = options();
      if (mask !== undefined) {
        // A value that was set and does not fit the mask is edited without it.
        const fits = satisfiesMask(mask.slice(0, before.text.length), before.text);
        return fits ? formatMask(edited, kind, before, mask) : edited;
      }
      if (maxLength === undefined || edited.text.length <= maxLength) return edited;
      // A text that is too long by a later option may become shorter.
      if (edited.text.length < before.text.length) return edited;
      if (before.text.length >= maxLength) return before;
      // Only the new characters are cut, at the caret.
      const surplus = edited.text.length - maxLength;
      const start = Math.max(0, edited.caret - surplus);
      return { text: edited.text.slice(0, start) + edited.text.slice(edited.caret), caret: start };
    },
    check(text) {
      const { mask } = options();
      return mask !== undefined && !satisfiesMask(mask, text) ? "incomplete" : undefined;
    },
    value: (text) => text,
    isFinished: () => false,
    show: (raw) => raw,
  };
}

/**
 * @param {Role} role
 * @param {() => FieldOptions} options
 * @param {() => string | undefined} brandType
 * @returns {PartKind}
 */
export function partKind(role, options, brandType) {
  if (role === "number") return numberKind(options);
  if (role === "expiration") return expirationKind(options);
  return role === "code" ? codeKind(brandType) : textKind(options);
}
