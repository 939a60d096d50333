// Card numbers: brand by prefix, checksum, lengths, and the parts that the page may know.

import { CARD_BRANDS } from "./card-brands.js";

/** @typedef {import("./card-brands.js").CardBrand} CardBrand */

/** Lengths that the vault accepts for numbers of an unknown brand. */
const LENGTHS_UNKNOWN = [12, 13, 14, 15, 16, 17, 18, 19];
const GAPS_UNKNOWN = [4, 8, 12];

/**
 * The length of the pattern's prefix if the digits begin with it, else 0.
 * @param {string} digits
 * @param {number | [number, number]} pattern
 */
function matchLength(digits, pattern) {
  const [first, last] = typeof pattern === "number" ? [pattern, pattern] : pattern;
  const length = String(first).length;
  if (digits.length < length) return 0;
  const prefix = Number(digits.slice(0, length));
  return first <= prefix && prefix <= last ? length : 0;
}

/**
 * The brand with the longest matching prefix.
 * @param {string} digits
 * @returns {CardBrand | undefined}
 */
export function findBrand(digits) {
  /** @type {CardBrand | undefined} */
  let found;
  let longest = 0;
  for (const brand of CARD_BRANDS) {
    for (const pattern of brand.patterns) {
      const length = matchLength(digits, pattern);
      if (length > longest) [found, longest] = [brand, length];
    }
  }
  return found;
}

/**
 * The brand of that type, from the table.
 * @param {unknown} type
 */
export function brandByType(type) {
  return CARD_BRANDS.find((it) => it.type === type);
}

/**
 * The types of the `cardTypes` option. Only `type` counts: patterns and lengths of a page would
 * tell the page which digits were typed. Undefined accepts every brand.
 * @param {unknown} option
 * @returns {string[] | undefined}
 */
export function readAcceptedTypes(option) {
  if (!Array.isArray(option)) return undefined;
  const types = option.map((it) => (typeof it === "object" && it !== null ? it.type : undefined));
  return CARD_BRANDS.map((it) => it.type).filter((it) => types.includes(it));
}

/** @param {CardBrand | undefined} brand */
export function longestLength(brand) {
  return Math.max(...(brand?.lengths ?? LENGTHS_UNKNOWN));
}

/** @param {CardBrand | undefined} brand */
export function gapsFor(brand) {
  return brand?.gaps ?? GAPS_UNKNOWN;
}

/** @param {string} digits */
export function passesLuhn(digits) {
  let sum = 0;
  for (let index = 0; index < digits.length; index += 1) {
    const digit = Number(digits[digits.length - 1 - index]);
    sum += index % 2 === 0 ? digit : digit < 5 ? digit * 2 : digit * 2 - 9;
  }
  return sum % 10 === 0;
}

/**
 * Whether the digits can still become a number of an accepted brand.
 * @param {string} digits
 * @param {CardBrand | undefined} brand
 * @param {readonly string[] | undefined} accepted
 */
function isAccepted(digits, brand, accepted) {
  if (accepted === undefined) return true;
  if (brand !== undefined && accepted.includes(brand.type)) return true;
  /** @param {number | [number, number]} pattern */
  const canBecome = (pattern) => {
    const [first, last] = (typeof pattern === "number" ? [pattern, pattern] : pattern).map(String);
    const length = digits.length;
    if (first === undefined || last === undefined || first.length <= length) return false;
    return first.slice(0, length) <= digits && digits <= last.slice(0, length);
  };
  return CARD_BRANDS.some((it) => accepted.includes(it.type) && it.patterns.some(canBecome));
}

/**
 * Checks a number. `error` is "incomplete" if digits are missing, "invalid" if the number cannot
 * become a correct one, undefined if it is correct.
 * @param {string} digits
 * @param {{ accepted?: readonly string[] | undefined, skipLuhn?: boolean }} rules
 * @returns {{ brand: CardBrand | undefined, error: "incomplete" | "invalid" | undefined }}
 */
export function checkNumber(digits, { accepted, skipLuhn = false }) {
  const brand = findBrand(digits);
  const lengths = brand?.lengths ?? LENGTHS_UNKNOWN;
  if (!isAccepted(digits, brand, accepted)) return { brand, error: "invalid" };
  if (lengths.includes(digits.length)) {
    const passes = skipLuhn || passesLuhn(digits);
    const hasBrand = accepted === undefined || brand !== undefined;
    return { brand, error: passes && hasBrand ? undefined : "invalid" };
  }
  return { brand, error: digits.length > longestLength(brand) ? "invalid" : "incomplete" };
}

/**
 * BIN and last four digits as the page may see them: six digits, or eight of a number with at least
 * sixteen; the last four only of a complete number.
 * @param {string} digits
 * @param {boolean} complete
 * @param {boolean} showsLast4
 */
export function visibleParts(digits, complete, showsLast4) {
  return {
    cardBin: digits.length >= 6 ? digits.slice(0, digits.length >= 16 ? 8 : 6) : undefined,
    cardLast4: complete && showsLast4 ? digits.slice(-4) : undefined,
  };
}
