// Options of a field. The page may send anything: every option is checked, and the rest is dropped.
//
// Options that decide what is tested are fixed when the field is created. If a page could change them
// later, each change would tell it something about the value.

import { readAcceptedTypes } from "./format/brand.js";
import { readMask } from "./format/mask.js";

/**
 * @typedef {"number" | "expiration" | "code" | "text"} Role
 * @typedef {import("./format/mask.js").Mask} Mask
 *
 * @typedef {object} FieldOptions
 * @property {string} targetId
 * @property {string} lang
 * @property {"ltr" | "rtl"} dir
 * @property {string | undefined} label `aria-label` or `title`
 * @property {string | undefined} description
 * @property {Partial<Record<Role, string>>} placeholders
 * @property {Partial<Record<Role, string>>} autoComplete fixed
 * @property {string | undefined} inputMode
 * @property {boolean} disabled
 * @property {boolean} readOnly
 * @property {boolean} password
 * @property {number | undefined} maxLength fixed
 * @property {string[] | undefined} accepted fixed
 * @property {boolean} skipLuhn fixed
 * @property {"left" | "right" | "none"} iconPosition
 * @property {boolean} binLookup fixed
 * @property {string[]} coBadged fixed
 * @property {string[]} preferredNetworks
 * @property {string | undefined} cardBrand
 * @property {number} elapsedYears fixed
 * @property {string | undefined} text label of a copy button
 * @property {unknown} style
 * @property {unknown} copyIconStyles
 * @property {unknown} value
 * @property {boolean} validateOnChange fixed
 * @property {boolean} enableCopy fixed
 * @property {boolean} showSpacing fixed
 * @property {Mask | undefined} mask fixed
 * @property {RegExp | undefined} validation fixed
 * @property {[RegExp, string] | undefined} transform fixed
 */

const FIXED = /** @type {const} */ ([
  "targetId", "validateOnChange", "enableCopy", "showSpacing", "mask", "validation", "transform", "maxLength",
  "accepted", "skipLuhn", "elapsedYears", "binLookup", "coBadged", "autoComplete",
]);

/** A token of the autocomplete attribute. */
const AUTOCOMPLETE = /^[a-z][a-z0-9-]{1,29}$/;
/** @type {Record<Role, RegExp>} tokens of each input. With another token, a browser would fill in another value. */
const OWN_TOKENS = { number: /^(cc-number|off)$/, expiration: /^(cc-exp|off)$/, code: /^(cc-csc|off)$/, text: /^(?!cc-(?!name))/ };
const INPUT_MODES = ["decimal", "email", "none", "numeric", "search", "tel", "text", "url"];
const ICON_POSITIONS = /** @type {const} */ (["left", "right", "none"]);
const CO_BADGED = ["cartes-bancaires", "bancontact", "dankort"];
const TEXT_MAX = 300;

/**
 * An object of the page, or an empty one.
 * @param {unknown} value
 */
export function readRecord(value) {
  return /** @type {Record<string, unknown>} */ (typeof value === "object" && value !== null ? value : {});
}

/** @param {unknown} value */
function readText(value) {
  return typeof value === "string" && value !== "" ? value.slice(0, TEXT_MAX) : undefined;
}

/**
 * @param {unknown} value
 * @param {number} max
 */
function readCount(value, max) {
  return typeof value === "number" && value >= 0 ? Math.min(Math.floor(value), max) : undefined;
}

/** @param {unknown} value */
function readList(value) {
  return Array.isArray(value) ? value.filter((it) => typeof it === "string").slice(0, 20) : [];
}

/**
 * @param {unknown} value
 * @param {Role} role
 */
function readAutoComplete(value, role) {
  return typeof value === "string" && AUTOCOMPLETE.test(value) && OWN_TOKENS[role].test(value) ? value : undefined;
}

/**
 * One text for the role of the field, or one for each part of a card.
 * @param {unknown} option
 * @param {Role | undefined} role undefined for a card
 * @param {[Role, string][]} names names of the parts in the option of a card
 * @param {(value: unknown, role: Role) => string | undefined} read
 * @returns {Partial<Record<Role, string>>}
 */
function readParts(option, role, names, read) {
  /** @type {Partial<Record<Role, string>>} */
  const parts = {};
  if (role !== undefined) names = [[role, ""]];
  for (const [part, name] of names) {
    const value = read(role !== undefined ? option : readRecord(option)[name], part);
    if (value !== undefined) parts[part] = value;
  }
  return parts;
}

/**
 * The transformation of the value. The flags are always `gu`.
 * @param {unknown} option
 * @returns {[RegExp, string] | undefined}
 */
export function readTransform(option) {
  const [pattern, replacement = ""] = Array.isArray(option) ? option : [option];
  if (!(pattern instanceof RegExp)) return undefined;
  const text = typeof replacement === "string" ? replacement : "";
  try {
    return [new RegExp(pattern.source, "gu"), text];
  } catch {
    return [new RegExp(pattern.source, "g"), text];
  }
}

/** @type {Record<string, Role | undefined>} */
const ROLES = {
  cardNumber: "number",
  cardExpirationDate: "expiration",
  cardVerificationCode: "code",
  text: "text",
};

/**
 * Reads the options of the page. With `previous`, the options update a field: absent options stay
 * and fixed options are ignored.
 * @param {string} type element type
 * @param {unknown} sent
 * @param {{ sent: Record<string, unknown>, options: FieldOptions }} [previous]
 * @returns {{ sent: Record<string, unknown>, options: FieldOptions }}
 */
export function readOptions(type, sent, previous) {
  const page = { ...previous?.sent, ...readRecord(sent) };
  const role = ROLES[type];
  const isText = role === "text";
  /** @type {FieldOptions} */
  const options = {
    targetId: readText(page.targetId) ?? type,
    lang: readText(page.lang) ?? "en",
    dir: page.dir === "rtl" ? "rtl" : "ltr",
    label: readText(page["aria-label"]) ?? readText(page.ariaLabel) ?? readText(page.title),
    description: readText(page["aria-description"]) ?? readText(page.ariaDescription),
    placeholders: readParts(
      page.placeholder, role,
      [["number", "cardNumber"], ["expiration", "cardExpirationDate"], ["code", "cardSecurityCode"]],
      (it) => (it === "" ? " " : readText(it)),
    ),
    autoComplete: readParts(
      page.autoComplete, role,
      [["number", "number"], ["expiration", "expirationDate"], ["code", "csc"]], readAutoComplete,
    ),
    inputMode: INPUT_MODES.find((it) => it === page.inputMode),
    disabled: page.disabled === true,
    readOnly: page.readOnly === true,
    password: page.password === true,
    maxLength: isText ? readCount(page.maxLength, 100_000) : undefined,
    accepted: readAcceptedTypes(page.cardTypes),
    skipLuhn: page.skipLuhnValidation === true,
    iconPosition: ICON_POSITIONS.find((it) => it === page.iconPosition) ?? "left",
    binLookup: page.binLookup === true,
    coBadged: readList(page.coBadgedSupport).filter((it) => CO_BADGED.includes(it)),
    preferredNetworks: readList(page.preSelectedNetworks),
    cardBrand: readText(page.cardBrand),
    elapsedYears: readCount(page.maxElapsedExpirationYear, 100) ?? 0,
    text: readText(page.text),
    style: page.style,
    copyIconStyles: page.copyIconStyles,
    value: page.value,
    validateOnChange: page.validateOnChange === true,
    enableCopy: page.enableCopy === true,
    showSpacing: page.showSpacing !== false,
    // A mask is fixed, and costs some time.
    mask: isText && previous === undefined ? readMask(page.mask) : undefined,
    validation: isText && page.validation instanceof RegExp ? page.validation : undefined,
    transform: isText ? readTransform(page.transform) : undefined,
  };
  if (previous !== undefined) {
    for (const key of FIXED) Object.assign(options, { [key]: previous.options[key] });
  }
  return { sent: page, options };
}
