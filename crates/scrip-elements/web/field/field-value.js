// The value of a field as a call gets it.

import { readRecord } from "./field-options.js";
import { formatDate, parseExpiration } from "./format/expiration.js";

/**
 * The kind of a value from the vault, or of the part of a date that is asked for.
 * @param {string | undefined} setKind
 * @param {unknown} request
 */
export function readKind(setKind, request) {
  if (setKind !== "date") return setKind;
  const { method } = readRecord(request);
  return method === "month" || method === "year" ? method : "text";
}

/**
 * @param {string} type element type
 * @param {string[]} values of its inputs
 * @param {unknown} request
 */
export function readValue(type, values, request) {
  const at = (/** @type {number} */ index) => values[index] ?? "";
  if (type === "card") {
    const date = parseExpiration(at(1));
    return { number: at(0), expiration_month: date?.month, expiration_year: date?.year, cvc: at(2) };
  }
  if (type !== "cardExpirationDate") return at(0);
  const date = parseExpiration(at(0));
  const { method, format } = readRecord(request);
  if (date === undefined) return at(0);
  if (method === "month") return date.month;
  if (method === "year") return date.year;
  return formatDate(date, method === "format" && typeof format === "string" ? format : "MM/yyyy");
}
