// The `validation` of the page, and the worker that runs its patterns.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PageRules } from "../../crates/scrip-elements/web/field/rules/page-rules.js";
import { PageValidation } from "../../crates/scrip-elements/web/field/rules/page-validation.js";

function createValidation(pattern) {
  const tested = [];
  const validation = new PageValidation(pattern, async (own, text) => (tested.push(text), own.test(text)), () => {});
  validation.report("x".repeat(9));
  assert.deepEqual(tested, [], "the first report needs an action too");
  validation.arm();
  const report = async (text) => {
    validation.report(text);
    await validation.settled;
    return validation.isValid;
  };
  return { validation, tested, report };
}

test("second_report_needs_an_action_of_the_payer", async () => {
  const { validation, tested, report } = createValidation(/^a*$/);
  assert.equal(await report("b"), false);
  // The page takes the focus away after each key.
  assert.equal(await report("aa"), false, "the last reported result");
  assert.equal(await report("ab"), false);
  assert.deepEqual(tested, ["b"]);
  validation.arm();
  assert.equal(await report("aa"), true);
  assert.equal(await report("b"), true);
});

test("emptied_field_has_no_result_of_its_earlier_text", async () => {
  const { validation, tested, report } = createValidation(/^a*$/);
  await report("b");
  validation.reset();
  assert.equal(validation.isValid, true);
  assert.equal(await report("b"), true, "no report without an action");
  assert.deepEqual(tested, ["b"]);
  assert.equal(validation.isEmptyValid, true);
  assert.equal(createValidation(/^a+$/).validation.isEmptyValid, false);
});

test("result_of_an_earlier_text_is_dropped", async () => {
  let finish;
  const validation = new PageValidation(/a/, () => new Promise((resolve) => (finish = resolve)), () => assert.fail("reported"));
  validation.arm();
  validation.report("b");
  const { settled } = validation;
  validation.reset();
  finish(false);
  await settled;
  assert.equal(validation.isValid, true);
});

// A worker that answers after a time, or never.
class FakeWorker extends EventTarget {
  constructor(delay) {
    super();
    this.delay = delay;
    this.isEnded = false;
  }
  postMessage({ pattern, text, replacement }) {
    if (this.delay === undefined) return;
    const data = replacement === undefined ? pattern.test(text) : text.replace(pattern, replacement);
    setTimeout(() => this.dispatchEvent(Object.assign(new Event("message"), { data })), this.delay);
  }
  terminate() {
    this.isEnded = true;
  }
}

test("every_run_takes_the_same_time_and_its_worker_is_ended", async () => {
  const workers = [];
  const delays = [0, 60, undefined, 0];
  const rules = new PageRules(() => {
    const worker = new FakeWorker(delays[workers.length]);
    workers.push(worker);
    return { worker, ready: Promise.resolve(true) };
  });
  const results = [];
  for (const text of ["a", "b", "a"]) {
    const began = performance.now();
    results.push(await rules.test(/a/, text));
    const took = performance.now() - began;
    assert.ok(took >= 95 && took < 250, `${took} ms`);
  }
  assert.deepEqual(results, [true, false, false], "a run that takes too long is not valid");
  rules.arm();
  assert.equal(await rules.transform([/a/g, "x"], "banana", "v1"), "bxnxnx");
  assert.deepEqual(workers.map((it) => it.isEnded), [true, true, true, true, false]);
});

test("transform_of_another_text_needs_an_action_of_the_payer", async () => {
  const rules = new PageRules(() => ({ worker: new FakeWorker(0), ready: Promise.resolve(true) }));
  assert.equal(await rules.transform([/a/g, "x"], "a", "v1"), undefined, "the first call needs an action too");
  rules.arm();
  assert.equal(await rules.transform([/a/g, "x"], "a", "v1"), "x");
  assert.equal(await rules.transform([/a/g, "x"], "a", "v1"), "x", "a repeated call with the same text");
  assert.equal(await rules.transform([/a/g, "x"], "ab", "v2"), undefined);
  rules.arm();
  assert.equal(await rules.transform([/a/g, "x"], "ab", "v2"), "xb");
  const slow = new PageRules(() => ({ worker: new FakeWorker(undefined), ready: Promise.resolve(true) }));
  slow.arm();
  assert.equal(await slow.transform([/a/g, "x"], "a", "v1"), "a", "the page does not notice that the pattern is too slow");
});

test("text_of_one_version_has_one_transformed_text", async () => {
  const delays = [0, undefined];
  const rules = new PageRules(() => ({ worker: new FakeWorker(delays.shift()), ready: Promise.resolve(true) }));
  rules.arm();
  const [first, second] = [rules.transform([/a/g, "x"], "a", "v1"), rules.transform([/a/g, "x"], "a", "v1")];
  assert.deepEqual([await first, await second], ["x", "x"], "a second run would take too long");
});

test("transform_makes_no_text_longer", async () => {
  const rules = new PageRules(() => ({ worker: new FakeWorker(0), ready: Promise.resolve(true) }));
  for (const [replacement, expected] of [["$1$1$1", "a7"], ["long text", "a7"], ["$1", "7"], ["$1x", "7x"]]) {
    rules.arm();
    assert.equal(await rules.transform([/^a(\d)$/g, replacement], "a7", replacement), expected, replacement);
  }
});
