// The metadata of a field that the page may know. Pure: tests cover every rule.
//
// 1. A field that was filled by `set` reports only whether it is empty. Its value belongs to the
//    vault or to another field, and a page could test it with options of this field.
// 2. A field whose text is the payer's only in part reports only whether it is empty: a page could set
//    the first digits of a number, or empty the field between two keys, and get the next digits.
//    A text that began without an action of the payer is incomplete while it may be a piece of a
//    longer one, whatever it is. Such a date reports only whether it is empty and complete.
// 3. A field with a `validation` of the page reports its last result, so that a page does not learn
//    something with each key.
// 4. Errors appear after the part was left, after `validate`, or while typing with
//    `validateOnChange`.

import { visibleParts } from "./format/brand.js";

/**
 * @typedef {"incomplete" | "invalid"} ErrorType
 *
 * @typedef {object} PartState
 * @property {string} targetId
 * @property {boolean} empty
 * @property {ErrorType | undefined} error also for an empty part
 * @property {boolean} showsError
 * @property {boolean} maskSatisfied whether no character is missing
 *
 * @typedef {object} CardState
 * @property {string} digits
 * @property {string | undefined} brand
 * @property {boolean} complete whether the number is complete
 * @property {boolean} showsLast4 whether the number has its final length
 * @property {unknown} binInfo
 * @property {string | undefined} selectedNetwork
 */

/**
 * The error of a part that is reported now.
 * @param {PartState} part
 */
export function visibleError(part) {
  return part.showsError ? part.error : undefined;
}

/**
 * The fields of the `change` message.
 * @param {object} state
 * @param {PartState[]} state.parts
 * @param {boolean} state.wasSet
 * @param {boolean} [state.isMixed]
 * @param {boolean} [state.isUnentered] whether the date began without an action of the payer
 * @param {boolean} [state.hasPiece] whether a text may be a piece of what the payer types
 * @param {CardState} [state.card] only with a card number
 * @param {boolean} [state.hasPageValidation]
 * @param {boolean} [state.reportedValidity] the last result of the page's `validation`
 */
export function changeFields(state) {
  const { parts, wasSet, isMixed = false, isUnentered = false, hasPiece = false, card, hasPageValidation = false, reportedValidity = true } = state;
  const empty = parts.every((it) => it.empty);
  if (wasSet) return { empty };
  if (isMixed) return { empty, complete: false };
  if (isUnentered) return { empty, complete: parts.every((it) => it.error === undefined) };
  const maskSatisfied = parts.every((it) => it.maskSatisfied);
  const valid = hasPageValidation
    ? reportedValidity
    : parts.every((it) => it.error === undefined || (it.empty && !it.showsError));
  const complete = hasPageValidation
    ? maskSatisfied && reportedValidity && !hasPiece
    : parts.every((it) => it.error === undefined);
  const errors = parts.flatMap((part) => {
    const type = visibleError(part);
    return type === undefined ? [] : [{ targetId: part.targetId, type }];
  });
  const fields = { empty, complete, valid, maskSatisfied, errors };
  if (card === undefined) return fields;
  return {
    ...fields,
    cardBrand: card.brand ?? "unknown",
    ...visibleParts(card.digits, card.complete, card.showsLast4),
    ...(card.binInfo === undefined ? {} : { binInfo: card.binInfo }),
    ...(card.selectedNetwork === undefined ? {} : { selectedNetwork: card.selectedNetwork }),
  };
}

/**
 * The answer to the controller, without the value. A part that was filled by `set` has no error: an
 * error would tell the page whether the value fits its options.
 * @param {PartState[]} parts
 * @param {boolean} wasSet
 */
export function readingFields(parts, wasSet) {
  const empty = parts.every((it) => it.empty);
  const errors = parts.flatMap(({ targetId, error }) => (error === undefined ? [] : [{ targetId, type: error }]));
  const valid = errors.length === 0;
  return { complete: valid && !(wasSet && empty), valid, empty, errors };
}
