// Errors of the controller. `client.js` turns them into Error objects of the page, by name.

/**
 * @typedef {object} FailureFields
 * @property {number} [status] HTTP status; 0 without a response
 * @property {unknown} [data] body of the response
 * @property {unknown} [details]
 * @property {{ targetId: string, type: string }[]} [validation]
 * @property {Record<string, unknown>} [_debug]
 */

/** A failed call. `fields` and `message` go to the page, so they never contain values of fields. */
export class CallFailure extends Error {
  /**
   * @param {string} name class name of the error in the page
   * @param {string} message
   * @param {FailureFields} fields
   */
  constructor(name, message, fields) {
    super(message);
    this.name = name;
    this.fields = fields;
  }
}

/**
 * @param {string} message
 * @param {unknown} [details]
 * @param {{ targetId: string, type: string }[]} [validation]
 */
export function validationFailure(message, details = {}, validation = []) {
  return new CallFailure("BasisTheoryValidationError", message, { details, validation });
}

/**
 * @param {string} message
 * @param {unknown} [details]
 */
export function configurationFailure(message, details = {}) {
  return new CallFailure("BasisTheoryConfigurationError", message, { details });
}

/**
 * @param {string} message
 * @param {number} status
 * @param {unknown} [data]
 * @param {Record<string, unknown>} [_debug]
 */
export function apiFailure(message, status, data, _debug) {
  return new CallFailure("BasisTheoryApiError", message, { status, data, _debug });
}

/**
 * The part of an error that may leave the controller. Unexpected errors keep their text inside,
 * because the text of an engine error can quote a value.
 * @param {unknown} error
 * @returns {{ name: string, message: string } & FailureFields}
 */
export function describeFailure(error) {
  if (error instanceof CallFailure) return { name: error.name, message: error.message, ...error.fields };
  return { name: "Error", message: "The hosted fields failed unexpectedly. Reload the page and try again." };
}
