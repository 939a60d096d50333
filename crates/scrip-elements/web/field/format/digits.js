// Formatting of digits while a person types, with the caret at the right place.
//
// The browser first applies the edit to the formatted text. These functions take the text and the
// caret after that edit, keep the digits, insert the separators again, and say where the caret
// belongs. They have no state and no DOM.

/**
 * @typedef {{ text: string, caret: number }} EditedText
 * @typedef {"insert" | "backward" | "forward" | "other"} EditKind
 */

/**
 * Replaces digits of other scripts (Arabic, Persian, full-width) by ASCII digits. The length of the
 * text and the position of the caret stay the same.
 * @param {string} text
 */
export function toAsciiDigits(text) {
  return text.replace(/[\u0660-\u0669\u06f0-\u06f9\uff10-\uff19]/g, (it) => {
    const code = it.charCodeAt(0);
    return String(code - (code < 0x06f0 ? 0x0660 : code < 0xff10 ? 0x06f0 : 0xff10));
  });
}

/** @param {string} text */
export function onlyDigits(text) {
  return toAsciiDigits(text).replace(/\D/g, "");
}

/**
 * The kind of an edit, from the input event. Android keyboards report deletions correctly, but
 * insertions under several names.
 * @param {string | undefined} inputType
 * @returns {EditKind}
 */
export function editKind(inputType = "") {
  if (inputType === "deleteContentForward" || inputType === "deleteWordForward") return "forward";
  if (inputType.startsWith("delete")) return "backward";
  return inputType.startsWith("insert") ? "insert" : "other";
}

/**
 * The digits after an edit, and the number of digits before the caret. A deletion that only removed
 * a separator removes the digit next to it too; otherwise the key would seem dead.
 * @param {EditedText} edited
 * @param {EditKind} kind
 * @param {string} digitsBefore the digits before the edit
 */
export function applyEdit(edited, kind, digitsBefore) {
  let digits = onlyDigits(edited.text);
  let count = onlyDigits(edited.text.slice(0, edited.caret)).length;
  if (digits === digitsBefore && digits !== "") {
    if (kind === "backward" && count > 0) {
      digits = digits.slice(0, count - 1) + digits.slice(count);
      count -= 1;
    } else if (kind === "forward") {
      digits = digits.slice(0, count) + digits.slice(count + 1);
    }
  }
  return { digits, count };
}

/**
 * Inserts a space at every gap that has a digit after it.
 * @param {string} digits
 * @param {readonly number[]} gaps
 */
export function groupDigits(digits, gaps) {
  let text = "";
  for (let index = 0; index < digits.length; index += 1) {
    text += gaps.includes(index) ? ` ${digits[index]}` : digits[index];
  }
  return text;
}

/**
 * The position in a formatted text after `count` digits.
 * @param {string} text
 * @param {number} count
 */
export function caretAfter(text, count) {
  let remaining = count;
  for (let index = 0; index < text.length; index += 1) {
    if (remaining === 0) return index;
    if (/\d/.test(text.charAt(index))) remaining -= 1;
  }
  return text.length;
}

/**
 * Formats a number after an edit. Digits beyond the longest length are dropped; if the number was
 * already full, the edit is refused, so that typing in the middle does not push out the last digits.
 * @param {EditedText} edited
 * @param {EditKind} kind
 * @param {EditedText} before the text and the caret before the edit
 * @param {(digits: string) => { gaps: readonly number[], max: number }} layout
 * @returns {EditedText}
 */
export function formatNumber(edited, kind, before, layout) {
  const digitsBefore = onlyDigits(before.text);
  let { digits, count } = applyEdit(edited, kind, digitsBefore);
  const { gaps, max } = layout(digits);
  if (digits.length > max) {
    const wasFull = digitsBefore.length >= layout(digitsBefore).max;
    if (wasFull && digits.length > digitsBefore.length) return before;
    digits = digits.slice(0, max);
    count = Math.min(count, max);
  }
  const text = groupDigits(digits, gaps);
  return { text, caret: caretAfter(text, count) };
}
