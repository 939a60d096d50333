// Runs patterns of the page over typed text, in a worker.
//
// The duration of a pattern depends on the text, and a page can measure it: by the time of an answer,
// or by the load of the processor. So every run takes the same time, with the processor busy all the
// time, and the worker is ended then.
//
// With a `transform`, a page decides which text the vault gets, and the vault says whether it accepts
// it. So the payer has to act in the field before each call with another text, also before the first one:
// a page could have one field for each key.

const RUN_MS = 100;

/** @typedef {{ pattern: RegExp, text: string, replacement?: string }} Rule */
/** @typedef {{ worker: Worker, ready: Promise<boolean> }} StartedWorker */

/** @returns {StartedWorker} */
function startWorker() {
  const worker = new Worker(new URL("rule-worker.js", import.meta.url));
  const ready = new Promise((/** @type {(isReady: boolean) => void} */ resolve) => {
    worker.addEventListener("message", () => resolve(true), { once: true });
    worker.addEventListener("error", () => resolve(false), { once: true });
  });
  return { worker, ready };
}

export class PageRules {
  #isArmed = false;
  /** @type {{ version: string, result: Promise<string> } | undefined} the last transformed text */
  #last;
  /** The next worker starts early, because a start takes longer than a run. */
  #next;
  /** @type {Promise<unknown>} one run after the other, so that a page cannot occupy every processor */
  #queue = Promise.resolve();

  /** @param {() => StartedWorker} [start] replaced in tests */
  constructor(start = startWorker) {
    this.start = start;
    this.#next = start();
  }

  /**
   * @param {Rule} rule
   * @returns {Promise<unknown>} undefined if the pattern takes too long
   */
  run(rule) {
    const result = this.#queue.then(() => this.#runNow(rule));
    this.#queue = result;
    return result;
  }

  /** @param {Rule} rule */
  async #runNow(rule) {
    const { worker, ready } = this.#next;
    const isReady = await ready;
    /** @type {unknown} */
    let result;
    worker.addEventListener("message", ({ data }) => {
      result = data;
    });
    if (isReady) worker.postMessage(rule);
    await new Promise((resolve) => setTimeout(resolve, RUN_MS));
    worker.terminate();
    this.#next = this.start();
    return result;
  }

  /**
   * @param {RegExp} pattern
   * @param {string} text
   * @returns {Promise<boolean>} false also if the pattern takes too long
   */
  async test(pattern, text) {
    return (await this.run({ pattern, text })) === true;
  }

  /** The payer acted in the field. */
  arm() {
    this.#isArmed = true;
  }

  /**
   * @param {[RegExp, string]} transform
   * @param {string} text
   * @param {string} version of the text
   * @returns {Promise<string | undefined>} the text itself if the pattern takes too long, or makes it longer, so that
   *   the page does not notice; undefined if the payer has to act first
   */
  async transform([pattern, replacement], text, version) {
    if (version !== this.#last?.version) {
      if (!this.#isArmed) return undefined;
      this.#isArmed = false;
      // One version has one result, also if the pattern takes too long in one of two runs.
      const result = this.run({ pattern, text, replacement }).then((it) =>
        // A longer text would tell about the typed one by its size.
        typeof it === "string" && it.length <= text.length ? it : text,
      );
      this.#last = { version, result };
    }
    return this.#last.result;
  }
}
