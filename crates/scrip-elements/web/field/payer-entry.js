// Whether the payer came to the field by an action of his own: a press inside the frame, or Tab or
// Enter in it.
//
// A page can empty a field, set values, and move the focus between two keys, and so divide what a
// payer types into pieces. Each piece would be a content of its own, with first digits, a brand and
// results of rules. So the frame remembers two things: whether the payer entered the field, and
// whether the page took away a text that the payer had not finished.

import { isWholeNumber } from "./number-content.js";
import { onlyDigits } from "./format/digits.js";

/** @typedef {import("./input-part.js").InputPart} InputPart */

/** How long after the last digit of a number a page may move the focus on, in milliseconds. */
const ADVANCE_MS = 10_000;

/**
 * Whether the payer is still typing the text. A text without a form has no end.
 * @param {InputPart} part
 */
export function isUnfinished({ role, kind, text, isEmpty, isGivenWhole, isComposing }) {
  if (isComposing) return true;
  if (isEmpty || isGivenWhole) return false;
  if (role === "number") return !isWholeNumber(onlyDigits(text));
  return role === "text" || kind.check(text) !== undefined;
}

/**
 * Whether a text that began without an action of the payer may be a piece of what the payer types.
 * @param {InputPart} part
 * @param {boolean} hasPageRules
 */
export function isPiece({ role, text, isEmpty, isUnentered }, hasPageRules) {
  if (isEmpty || !isUnentered) return false;
  if (role === "number") return !isWholeNumber(onlyDigits(text));
  return role === "text" && hasPageRules;
}

/**
 * Whether a date began without an action of the payer. It may be digits of a number, and answers show dates.
 * @param {InputPart} part
 */
export function isUnenteredDate({ role, isEmpty, isUnentered }) {
  return !isEmpty && isUnentered && role === "expiration";
}

/**
 * Whether the payer has just finished a number. Pages move the focus on then, as a card element does.
 * @param {Pick<import("./siblings.js").FieldAccess, "numberState">[]} fields
 */
export function followsNumber(fields) {
  const numbers = fields.map((it) => it.numberState()).filter((it) => it !== undefined);
  return numbers.every((it) => it.isFinished) && numbers.some((it) => it.age < ADVANCE_MS);
}

export class PayerEntry {
  #isEntered = false;
  #isDivided = false;

  /** Whether a text that begins now begins by an action of the payer. */
  get isEntered() {
    return this.#isEntered && !this.#isDivided;
  }

  /** Whether the page took an unfinished text away, and the payer has not acted since. */
  get isDivided() {
    return this.#isDivided;
  }

  /** The payer acted in the frame. */
  act() {
    this.#isEntered = true;
    this.#isDivided = false;
  }

  /** The frame lost the focus, or got it from the page. */
  leave() {
    this.#isEntered = false;
  }

  /**
   * The page emptied the field, or replaced its content.
   * @param {boolean} isUnfinished whether the payer was still typing
   */
  interrupt(isUnfinished) {
    this.#isEntered = false;
    if (isUnfinished) this.#isDivided = true;
  }
}
