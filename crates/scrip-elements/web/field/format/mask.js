// Masks of text fields: a list of places, each a fixed text or a RegExp for one character.
//
// A RegExp of the page never sees a typed character: its duration would tell the page which one it is.
// The field tries every character once, when the mask is set, and then looks the typed ones up.
//
// A fixed text is inserted by itself; characters that no place accepts are dropped. The formatted
// text includes the fixed texts, and is the value of the field.

/**
 * @typedef {import("./digits.js").EditedText} EditedText
 * @typedef {import("./digits.js").EditKind} EditKind
 * @typedef {Uint8Array} CharacterTable 1 for each accepted character
 * @typedef {readonly (CharacterTable | string)[]} Mask
 */

const PLACES_MAX = 500;
/** Each pattern is tried with every character. */
const PATTERNS_MAX = 32;
const CHARACTERS = 0x10000;
const [SURROGATES_FIRST, SURROGATES_LAST] = [0xd800, 0xdfff];

/**
 * The mask of the options, with one character for each place; undefined if it is not a mask.
 * @param {unknown} option
 * @returns {Mask | undefined}
 */
export function readMask(option) {
  if (!Array.isArray(option) || option.length === 0 || option.length > PLACES_MAX) return undefined;
  /** @type {Map<string, CharacterTable>} */
  const tables = new Map();
  /** @type {(CharacterTable | string)[]} */
  const places = [];
  for (const place of option) {
    if (typeof place === "string") places.push(...place.split(""));
    else if (place instanceof RegExp) {
      const table = tables.get(String(place)) ?? tabulate(place);
      tables.set(String(place), table);
      places.push(table);
    } else return undefined;
    if (tables.size > PATTERNS_MAX) return undefined;
  }
  return places;
}

/**
 * The characters of the Basic Multilingual Plane that the pattern accepts. Halves of other characters
 * are accepted by no place.
 * @param {RegExp} pattern
 * @returns {CharacterTable}
 */
function tabulate(pattern) {
  const table = new Uint8Array(CHARACTERS);
  for (let code = 0; code < CHARACTERS; code += 1) {
    if (code >= SURROGATES_FIRST && code <= SURROGATES_LAST) continue;
    // A RegExp with the flag g or y remembers its position.
    pattern.lastIndex = 0;
    table[code] = pattern.test(String.fromCharCode(code)) ? 1 : 0;
  }
  return table;
}

/**
 * @param {CharacterTable} table
 * @param {string} character
 */
function accepts(table, character) {
  return table[character.charCodeAt(0)] === 1;
}

/**
 * Fills the mask with characters. New characters that repeat a fixed text are dropped: a pasted
 * text may have them.
 * @param {Mask} mask
 * @param {{ character: string, isNew: boolean }[]} input
 * @param {number} caretIndex number of characters before the caret
 * @param {boolean} finish whether the fixed text after the last character is added
 * @returns {EditedText}
 */
function fill(mask, input, caretIndex, finish) {
  let text = "";
  let fixed = "";
  let caret = 0;
  let next = 0;
  for (const place of mask) {
    let item = input[next];
    if (typeof place === "string") {
      fixed += place;
      if (item?.isNew && item.character === place) next += 1;
      continue;
    }
    while (item !== undefined && !accepts(place, item.character)) item = input[(next += 1)];
    if (item === undefined) break;
    text += fixed + item.character;
    fixed = "";
    next += 1;
    if (next <= caretIndex) caret = text.length;
  }
  const isAtEnd = caret === text.length;
  if (finish && text !== "") text += fixed;
  return { text, caret: isAtEnd ? text.length : caret };
}

/**
 * The free characters of a formatted text: those at the places without a fixed text.
 * @param {Mask} mask
 * @param {string} text
 * @param {number} start
 * @param {number} end
 */
function freeCharacters(mask, text, start, end) {
  let free = "";
  for (let index = start; index < end; index += 1) {
    if (typeof mask[index] !== "string") free += text.charAt(index);
  }
  return free;
}

/**
 * Formats a text after an edit. `before` is the formatted text before the edit.
 * @param {EditedText} edited
 * @param {EditKind} kind
 * @param {EditedText} before
 * @param {Mask} mask
 * @returns {EditedText}
 */
export function formatMask(edited, kind, before, mask) {
  const isDeletion = kind === "backward" || kind === "forward";
  const old = before.text;
  // The edit replaced old[start, end) by the inserted text.
  const tailLength = commonTail(old, edited);
  const end = old.length - tailLength;
  let start = 0;
  const startMax = Math.min(end, edited.text.length - tailLength);
  while (start < startMax && old[start] === edited.text[start]) start += 1;
  const inserted = edited.text.slice(start, edited.text.length - tailLength);
  let head = freeCharacters(mask, old, 0, start);
  let tail = freeCharacters(mask, old, end, old.length);
  if (isDeletion && inserted === "" && freeCharacters(mask, old, start, end) === "") {
    // Only a fixed text was deleted: delete the free character next to it.
    if (kind === "backward") head = head.slice(0, -1);
    else tail = tail.slice(1);
  }
  const input = [...mark(head, false), ...mark(inserted, true), ...mark(tail, false)];
  return fill(mask, input, head.length + inserted.length, !isDeletion);
}

/**
 * @param {string} text
 * @param {boolean} isNew
 */
function mark(text, isNew) {
  return text.split("").map((character) => ({ character, isNew }));
}

/**
 * The length of the text after the caret that the edit did not change.
 * @param {string} old
 * @param {EditedText} edited
 */
function commonTail(old, edited) {
  const max = Math.min(old.length, edited.text.length - edited.caret);
  let length = 0;
  while (length < max && old.at(-1 - length) === edited.text.at(-1 - length)) length += 1;
  return length;
}

/**
 * Whether every place of the mask has a character.
 * @param {Mask} mask
 * @param {string} text
 */
export function satisfiesMask(mask, text) {
  if (text.length !== mask.length) return false;
  return mask.every((place, index) => {
    const character = text.charAt(index);
    return typeof place === "string" ? place === character : accepts(place, character);
  });
}
