// Inserts the values of fields into a payload.

import { configurationFailure, validationFailure } from "./failure.js";
import { checkPayload, containsExpression, mergeDetails, nest, placeValues } from "./payload.js";
import { isUnchecked, placeOf, typedKind } from "./value-kinds.js";

/** @typedef {import("./payload.js").FieldPlace} FieldPlace */
/** @typedef {import("./payload.js").Path} Path */
/** @typedef {import("./payload.js").PlaceRule} PlaceRule */
/** @typedef {import("./value-kinds.js").ValueKind} ValueKind */

/** @type {readonly ValueKind[]} */
const CARD_KINDS = ["card", "number", "code"];

/**
 * @typedef {object} FieldReading
 * @property {boolean} valid
 * @property {{ targetId: string, type: string }[]} errors
 * @property {unknown} value
 * @property {string} type element type
 * @property {string} version random id of the frame and number of its edits: another value has another version
 * @property {ValueKind} [kind] of a value that came from the vault
 * @property {boolean} [isHidden] whether the page must not learn anything about the value from an answer
 */

/**
 * @typedef {object} FieldReader
 * @property {(element: string, part: FieldPlace["part"]) => Promise<FieldReading | undefined>} readField undefined: not mounted
 * @property {(element: string) => void} showValidation
 * @property {string | undefined} application public key in the URL of the controller
 */

/**
 * @typedef {object} FilledPayload
 * @property {unknown} filled
 * @property {Path[]} marked paths of values that do not stand in the attribute made for them
 * @property {Path[]} cardValues paths of values that are numbers or codes of a card
 * @property {{ path: Path, value: unknown }[]} values
 * @property {ValueKind[]} kinds of the values
 * @property {unknown[]} sources names the values without telling anything about them
 */

/**
 * Checks the payload and inserts the values of its fields.
 * @param {FieldReader} reader
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {FieldPlace[]} places
 * @returns {Promise<FilledPayload>}
 */
export async function fillPayload(reader, rule, payload, places) {
  checkPayload(rule, payload, places);
  if (places.length > 0 && reader.application === undefined) {
    throw configurationFailure("Elements need an instance that was created with a public key.", {
      type: "invalid-configuration",
    });
  }
  const readings = await Promise.all(
    places.map(async (place) => ({ place, reading: await reader.readField(place.element, place.part) })),
  );
  const complete = readings.map(({ place, reading }) => {
    if (reading === undefined) {
      throw validationFailure(
        `The element at ${place.path.join(".")} is not mounted.`,
        nest(place.path, { type: "incomplete" }),
      );
    }
    return { place, reading };
  });
  rejectInvalid(reader, complete);
  for (const { place, reading } of complete) rejectTemplate(place, reading.value);
  const marked = complete.filter(({ place, reading }) => needsMark(rule, payload, place, reading));
  const kindOf = (/** @type {{ place: FieldPlace, reading: FieldReading }} */ { place, reading }) =>
    reading.kind ?? typedKind(reading.type, place.part);
  const values = complete.map(({ place, reading }) => ({ path: place.path, value: reading.value }));
  return {
    filled: placeValues(payload, values),
    marked: marked.map(({ place }) => place.path),
    cardValues: complete.filter((it) => CARD_KINDS.includes(kindOf(it))).map(({ place }) => place.path),
    values,
    kinds: complete.map(kindOf),
    sources: complete.map(({ place: { path, part }, reading: { version } }) => [path, part ?? null, version]),
  };
}

/**
 * A value is data. The vault evaluates an expression that stands in it, and its error tells about it.
 * @param {FieldPlace} place
 * @param {unknown} value
 */
function rejectTemplate({ path }, value) {
  if (!containsExpression(value)) return;
  throw validationFailure(
    `The value of the element at ${path.join(".")} must not contain the beginning of an expression.`,
    nest(path, { type: "invalid" }),
  );
}

/**
 * @param {FieldReader} reader
 * @param {{ place: FieldPlace, reading: FieldReading }[]} readings
 */
function rejectInvalid(reader, readings) {
  /** @type {Record<string, unknown>} */
  let details = {};
  /** @type {{ targetId: string, type: string }[]} */
  const validation = [];
  for (const { place, reading } of readings) {
    if (reading.valid && reading.errors.length === 0) continue;
    const errors = reading.errors.length > 0 ? reading.errors : [{ targetId: place.element, type: "invalid" }];
    for (const error of errors) {
      // A card element has one error for each of its inputs.
      const path = reading.type === "card" ? [...place.path, error.targetId] : place.path;
      details = mergeDetails(details, nest(path, { type: error.type }));
      if (!validation.some((known) => known.targetId === error.targetId)) validation.push(error);
    }
  }
  if (validation.length === 0) return;
  for (const { place } of readings) reader.showValidation(place.element);
  throw validationFailure("Unable to use the elements: their values are incomplete or invalid.", details, validation);
}

/**
 * Checks the place of a value, and returns whether the vault must not show anything that depends on it.
 *
 * A value from the vault keeps its kind: as another attribute, an answer would show parts of it. In an
 * attribute of a card for another value, the vault's errors would tell about it. A hidden date may be a
 * security code, so no other type checks it. The destination of a proxy has attributes of its own, and its
 * answer is not shown.
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {FieldPlace} place
 * @param {FieldReading} reading
 */
function needsMark(rule, payload, { path, part }, reading) {
  if (rule === "body") return false;
  const found = placeOf(rule, payload, path, reading.kind ?? typedKind(reading.type, part));
  const keepsKind = reading.kind !== undefined && reading.kind !== "text";
  const isHiddenDate = reading.isHidden === true && reading.type === "cardExpirationDate";
  const isChecked = isHiddenDate && found !== "own" && !isUnchecked(rule, payload, path);
  if (found === "foreign" || (keepsKind && found !== "own") || isChecked) {
    throw validationFailure(
      `The value of the element at ${path.join(".")} belongs to another attribute.`,
      nest(path, { type: "invalid" }),
    );
  }
  return reading.isHidden === true || found !== "own";
}
