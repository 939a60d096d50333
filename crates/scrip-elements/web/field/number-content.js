// What a page may get of a card number, since the number was begun.
//
// Some brands have numbers of several lengths, and a number can be complete at each of them. If a page
// got the last digits at every length, from the field or from the vault, it would get all digits. So a
// number has one length at which its last digits are reported and at which it is used, until the payer
// empties the field or replaces the whole number. For the same reason its first digits are reported
// once: a payer who deletes digits at the front would move all digits through the first places.

import { findBrand, longestLength, passesLuhn, visibleParts } from "./format/brand.js";

/** The shortest length at which a correct number is taken as finished when the payer leaves the field. */
const USUAL_LENGTH = 16;

/**
 * @param {string} first
 * @param {string} second
 */
function startsAlike(first, second) {
  return first.startsWith(second) || second.startsWith(first);
}

/**
 * Whether the digits are a whole number, and not a piece of a longer one: with a correct checksum, and
 * of the greatest length of the brand or of at least sixteen digits. Options have no effect.
 * @param {string} digits
 */
export function isWholeNumber(digits) {
  return isLong(digits) && passesLuhn(digits);
}

/** @param {string} digits */
function isLong(digits) {
  return digits.length >= USUAL_LENGTH || digits.length === longestLength(findBrand(digits));
}

export class NumberContent {
  /** @type {number | undefined} the length at which the last digits were reported, or the number was used */
  #length;
  /** @type {string | undefined} the first digits that were reported */
  #start;
  /** @type {string | undefined} the digits at which the payer pressed Tab or Enter */
  #finished;

  /** Whether a part of the number is known or will be known at another length. */
  get isFixed() {
    return this.#length !== undefined;
  }

  /** The payer begins a new number. */
  begin() {
    this.#length = undefined;
    this.#start = undefined;
    this.#finished = undefined;
  }

  /**
   * The payer pressed Tab or Enter in the number.
   * @param {string} digits
   */
  finish(digits) {
    this.#finished = digits;
  }

  /**
   * Whether the payer may still be typing. A beginning of a number can be complete, and a call would tell its
   * last digits.
   * @param {string} digits
   */
  isPiece(digits) {
    return !isLong(digits) && digits !== this.#finished;
  }

  /**
   * Whether the first digits differ from those that were reported. A complete number may have others.
   * @param {string} digits
   * @param {boolean} isComplete
   */
  hasOtherStart(digits, isComplete) {
    const { cardBin } = visibleParts(digits, false, false);
    const isSame = this.#start === undefined || startsAlike(digits, this.#start);
    if (!isSame && !isComplete) return true;
    // A short rest of the number is no new beginning.
    this.#start = cardBin ?? this.#start;
    return false;
  }

  /**
   * Whether the number has another length than the one that was reported or used.
   * @param {string} digits
   */
  hasOtherLength(digits) {
    return this.#length !== undefined && digits.length !== this.#length;
  }

  /**
   * The number is used in a call.
   * @param {string} digits
   */
  use(digits) {
    this.#length ??= digits.length;
  }

  /**
   * Whether the last digits of a complete number are reported. `skipLuhnValidation` has no effect:
   * with it, every length would be complete.
   * @param {string} digits
   * @param {boolean} wasLeft whether the payer left the field after the last change
   */
  reportLast4(digits, wasLeft) {
    const isGreatest = digits.length >= longestLength(findBrand(digits));
    const isFinished = wasLeft && digits.length >= USUAL_LENGTH && passesLuhn(digits);
    if (isGreatest || isFinished) this.#length ??= digits.length;
    return digits.length === this.#length && (isGreatest || isFinished);
  }
}
