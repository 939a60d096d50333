// What a page may get of a card number, since the number was begun.
//
// Some brands have numbers of several lengths, and a number can be complete at each of them. If a page
// got the last digits at every length, from the field or from the vault, it would get all digits. So a
// number has one length at which its last digits are reported and at which it is used, until the payer
// empties the field or replaces the whole number.

import { findBrand, longestLength, passesLuhn } from "./format/brand.js";

/** The shortest length at which a correct number is taken as finished when the payer leaves the field. */
const USUAL_LENGTH = 16;

export class NumberContent {
  /** @type {number | undefined} the length at which the last digits were reported, or the number was used */
  #length;

  /** Whether a part of the number is known or will be known at another length. */
  get isFixed() {
    return this.#length !== undefined;
  }

  /** The payer begins a new number. */
  begin() {
    this.#length = undefined;
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
