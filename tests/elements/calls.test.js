// Calls of the page: the request to the vault, and an answer without values of fields.

import assert from "node:assert/strict";
import { test } from "node:test";

import { proxyPath, runCall } from "../../crates/scrip-elements/web/controller/calls.js";
import { describeFailure, validationFailure } from "../../crates/scrip-elements/web/controller/failure.js";
import { KeptSessions } from "../../crates/scrip-elements/web/controller/kept-sessions.js";
import { ReferenceStore } from "../../crates/scrip-elements/web/controller/references.js";
import { chooseKey, parseRequestOptions, send } from "../../crates/scrip-elements/web/controller/request.js";
import { importPackage } from "./installed-packages.js";

const KEY = "key_test_us_pub_1";
const NUMBER = "4242424242424242";

function createContext({ fields = {}, status = 201, body = {}, headers = {}, ...changes } = {}) {
  const requests = [];
  const shown = [];
  let count = 0;
  return {
    requests,
    shown,
    apiKey: KEY,
    application: KEY,
    debug: false,
    references: new ReferenceStore("data-1", () => `answer-${++count}`),
    sessions: new KeptSessions(() => `${++count}`),
    readField: async (element, part) => fields[element]?.(part),
    showValidation: (element) => shown.push(element),
    send: async (request) => {
      requests.push(request);
      return { status, headers: new Headers(headers), data: typeof body === "function" ? body(request) : body };
    },
    ...changes,
  };
}

const value = (it, type = "text", more = {}) => () => ({ valid: true, errors: [], value: it, type, version: "f1-1", ...more });
const call = (operation, payload, elements, more) => ({ operation, payload, elements, ...more });
const place = (path, element = "e1", more = {}) => ({ path, element, ...more });

test("token_with_fields_is_one_request_and_its_answer_has_references", async () => {
  const fields = {
    e1: value(NUMBER, "cardNumber"),
    e2: (part) => ({ valid: true, errors: [], value: part.method === "month" ? 12 : 2030, type: "cardExpirationDate" }),
  };
  const body = {
    id: "t1",
    type: "card",
    created_by: "a",
    card: { bin: "424242", expiration_month: 12 },
    data: { number: "XXXX4242", expiration_month: 12 },
    metadata: { order_id: "1" },
  };
  const context = createContext({ fields, body });
  const payload = { type: "card", deduplicateToken: true, data: { number: null, expiration_month: null }, metadata: { orderId: "1" } };
  const elements = [place(["data", "number"]), place(["data", "expiration_month"], "e2", { method: "month" })];
  const options = { correlationId: "c1", idempotencyKey: "i1", deviceInfo: { platform: "ü" } };
  const answer = await runCall(context, call("tokens.create", payload, elements, { options }));
  assert.equal(context.requests.length, 1);
  const [request] = context.requests;
  assert.deepEqual([request.method, request.path], ["POST", "/tokens"]);
  assert.deepEqual(request.body, {
    type: "card",
    deduplicate_token: true,
    data: { number: NUMBER, expiration_month: 12 },
    metadata: { orderId: "1" },
  });
  const deviceInfo = Buffer.from('{"platform":"ü"}').toString("base64");
  const { "BT-IDEMPOTENCY-KEY": idempotencyKey, ...headers } = request.headers;
  assert.deepEqual(headers, {
    "BT-API-KEY": KEY,
    "Scrip-Field-Application": KEY,
    "Scrip-Field-Kinds": "number, month",
    "BT-TRACE-ID": "c1",
    "BT-DEVICE-INFO": deviceInfo,
  });
  // A page that knows the key of the vault could compare requests.
  assert.match(idempotencyKey, /^[0-9a-f]{64}$/);
  assert.deepEqual(answer.data.number, { correlationId: "answer-1", elementId: "data-1", path: "/data/number" });
  assert.deepEqual(context.references.resolve(answer.data.expiration_month), { value: 12, kind: "month" });
  assert.deepEqual([answer.id, answer.createdBy, answer.card], ["t1", "a", { bin: "424242", expirationMonth: 12 }]);
  assert.equal(answer.metadata, undefined);
});

test("answer_has_the_same_attributes_whatever_the_value_is", async () => {
  const body = {
    id: "t1", type: "bank", fingerprint: "f", bank: { routing_number: "021000021" }, note: "x 021000021 y",
    metadata: { guess: "021000021" }, search_indexes: ["021000021"], mask: "021000021", containers: ["/a/"], data: {},
  };
  const payload = { type: "bank", data: { routing_number: null } };
  const answers = [];
  for (const typed of ["021000021", "other"]) {
    const context = createContext({ fields: { e1: value(typed) }, body });
    answers.push(await runCall(context, call("tokens.create", payload, [place(["data", "routing_number"])])));
  }
  assert.deepEqual(answers, [0, 1].map(() => ({ id: "t1", type: "bank", containers: ["/a/"], data: {} })));
  const card = createContext({ fields: { e1: value(NUMBER, "cardNumber") }, body: { ...body, type: "card", card: { last4: "4242" } } });
  const answer = await runCall(card, call("tokens.create", { type: "card", data: { number: null } }, [place(["data", "number"])]));
  const names = ["bank", "card", "containers", "data", "fingerprint", "id", "type"];
  assert.deepEqual(Object.keys(answer).sort(), names);
});

test("value_outside_of_its_own_attribute_is_marked", async () => {
  const number = value(NUMBER, "cardNumber");
  const code = value("123", "cardVerificationCode");
  const text = value("x");
  for (const [name, operation, payload, path, field, isMarked] of [
    ["number of a card", "tokens.create", { type: "card", data: { number: null } }, ["data", "number"], number, false],
    ["number token", "tokens.create", { type: "card_number", data: null }, ["data"], number, false],
    ["number of a network token", "tokens.create", { type: "network_token", data: { number: null } }, ["data", "number"], number, false],
    ["code of a card", "tokenIntents.create", { type: "card", data: { cvc: null } }, ["data", "cvc"], code, false],
    ["code of an update", "tokens.update", { data: { cvc: null } }, ["data", "cvc"], code, false],
    ["number elsewhere in a card", "tokens.create", { type: "card", data: { other: null } }, ["data", "other"], number, true],
    ["number in a text token", "tokens.create", { type: "token", data: { number: null } }, ["data", "number"], number, true],
    ["number as a whole text token", "tokens.create", { type: "token", data: null }, ["data"], number, true],
    ["code in a text token", "tokens.create", { type: "token", data: { cvc: null } }, ["data", "cvc"], code, true],
    ["text", "tokens.create", { type: "token", data: null }, ["data"], text, true],
    ["text of an intent", "tokenIntents.create", { type: "token", data: null }, ["data"], text, true],
    ["text of an update", "tokens.update", { data: { name: null } }, ["data", "name"], text, true],
    ["leaf of tokenize", "tokenize", { a: null }, ["a"], number, true],
    ["leaf of tokenize below data", "tokenize", { token_intent_id: null, data: { cvc: null } }, ["data", "cvc"], code, true],
    ["attribute of a token without type", "tokenize", { token_intent_id: "x", data: { cvc: null } }, ["data", "cvc"], code, true],
    ["card in tokenize", "tokenize", { a: { type: "card", data: { number: null } } }, ["a", "data", "number"], number, false],
    ["edited number of the page", "tokens.create", { type: "card", data: { number: null } }, ["data", "number"], value(NUMBER, "cardNumber", { isHidden: true }), true],
  ]) {
    const context = createContext({ fields: { e1: field }, body: { id: "t1", type: payload.type, fingerprint: "f" } });
    const answer = await runCall(context, call(operation, payload, [place(path)], { target: "t1" }));
    const [{ headers, body }] = context.requests;
    assert.equal(headers["Scrip-Field-Mark"], isMarked ? "text" : undefined, name);
    if (operation.startsWith("tokens.")) assert.equal(body.deduplicate_token, isMarked ? false : undefined, name);
    if (isMarked) assert.equal(answer.fingerprint, undefined, name);
  }
});

test("attribute_of_a_card_for_another_value_is_refused", async () => {
  for (const [payload, path, field, part] of [
    [{ type: "card", data: { expiration_month: null } }, ["data", "expiration_month"], value("1")],
    [{ type: "card", data: { number: null } }, ["data", "number"], value(NUMBER)],
    [{ type: "card", data: { expiration_year: null } }, ["data", "expiration_year"], value("2030", "cardVerificationCode")],
    [{ type: "card_number", data: null }, ["data"], value(NUMBER)],
    [{ data: { cvc: null } }, ["data", "cvc"], value("123")],
    [{ type: "card", data: { expiration_month: null } }, ["data", "expiration_month"], value("12", "cardExpirationDate"), { method: "format", format: "MM" }],
  ]) {
    const context = createContext({ fields: { e1: field } });
    const operation = payload.type === undefined ? "tokens.update" : "tokens.create";
    await assert.rejects(runCall(context, call(operation, payload, [place(path, "e1", part)], { target: "t1" })), /belongs to another attribute/);
    assert.deepEqual(context.requests, []);
  }
});

test("hidden_date_is_accepted_in_a_card_and_in_a_token_without_rules", async () => {
  const format = { method: "format", format: "MM/yyyy" };
  const run = async (isHidden, [operation, payload, path, part = format]) => {
    const context = createContext({ fields: { e1: value("12/2030", "cardExpirationDate", { isHidden }) }, body: { id: "t1", type: payload.type } });
    await runCall(context, call(operation, payload, [place(path, "e1", part)], { target: "t1" }));
    return context.requests[0].headers["Scrip-Field-Mark"];
  };
  for (const item of [
    ["tokens.create", { type: "card", data: { expiration_month: null } }, ["data", "expiration_month"], { method: "month" }],
    ["tokens.update", { data: { expiration_year: null } }, ["data", "expiration_year"], { method: "year" }],
    ["tokenIntents.create", { type: "token", data: { date: null } }, ["data", "date"]],
    ["tokenize", { date: null }, ["date"]],
  ]) {
    assert.equal(await run(true, item), "text", JSON.stringify(item));
  }
  for (const item of [
    ["tokens.create", { type: "us_bank_routing_number", data: null }, ["data"]],
    ["tokens.create", { type: "bank", data: { routing_number: null } }, ["data", "routing_number"]],
    ["tokens.update", { data: { routing_number: null } }, ["data", "routing_number"]],
    ["tokenize", { a: { type: "social_security_number", data: null } }, ["a", "data"]],
  ]) {
    await assert.rejects(run(true, item), /belongs to another attribute/, JSON.stringify(item));
    assert.equal(await run(false, item), "text", "control: a date that is not hidden");
  }
});

test("value_of_the_vault_is_accepted_only_where_its_kind_belongs", async () => {
  const code = { kind: "code" };
  const accepts = [
    ["tokens.update", { data: { cvc: null } }, ["data", "cvc"], code],
    ["tokens.create", { type: "token", data: null }, ["data"], { kind: "text" }],
    ["proxy.post", { headers: { "BT-PROXY-KEY": "p" }, body: { a: null } }, ["body", "a"], code],
  ];
  const refuses = [
    ["tokens.create", { type: "token", data: null }, ["data"], code],
    ["tokens.create", { type: "token", data: { cvc: null } }, ["data", "cvc"], code],
    ["tokens.create", { type: "card", data: { expiration_month: null } }, ["data", "expiration_month"], code],
    ["tokens.update", { data: { number: null } }, ["data", "number"], { kind: "text" }],
    ["tokenize", { a: null }, ["a"], { kind: "number" }],
  ];
  for (const [operation, payload, path, kind] of [...accepts, ...refuses]) {
    const context = createContext({ status: 200, fields: { e1: value("1", "text", kind) } });
    const result = runCall(context, call(operation, payload, [place(path)], { target: "t1" }));
    if (accepts.some((it) => it[1] === payload)) await result;
    else await assert.rejects(result, /belongs to another attribute/, operation);
  }
});

test("idempotency_key_is_the_same_only_for_the_same_content_and_elements_without_an_edit", async () => {
  const send = async ({ version = "f1-1", pageKey = "k", data = null, elements = [place(["data", "a"])], operation = "tokens.create", ...payload } = {}) => {
    const context = createContext({ fields: { e1: value("123", "text", { version }) } });
    const model = { type: "token", data: { a: data, b: "1", ...payload } };
    await runCall(context, call(operation, model, elements, { target: "t1", options: { idempotencyKey: pageKey } }));
    return context.requests[0].headers["BT-IDEMPOTENCY-KEY"];
  };
  const key = await send();
  assert.equal(await send(), key);
  const others = [
    await send({ version: "f1-2" }),
    await send({ version: "f2-1" }),
    await send({ pageKey: "l" }),
    await send({ data: "123", elements: [] }),
    await send({ data: "123", b: null, elements: [place(["data", "b"])] }),
    await send({ elements: [place(["data", "a"], "e1", { method: "format", format: "MM" })] }),
    // The vault does not compare what the page itself supplied.
    await send({ b: "2" }),
    await send({ operation: "tokenIntents.create" }),
    await send({ operation: "tokens.update" }),
  ];
  assert.equal(new Set([key, ...others]).size, 10, others.join("\n"));
  const own = await send({ data: "123", elements: [] });
  assert.equal(await send({ data: "123", b: "2", elements: [] }), own, "the vault compares requests without elements");
});

test("idempotency_key_of_a_proxied_call_names_body_path_and_encrypted_data_and_no_other_header", async () => {
  const send = async (changes = {}) => {
    const context = createContext({ fields: { e1: value("123") } });
    const { headers, ...options } = changes;
    const payload = { headers: { "BT-PROXY-KEY": "p", ...headers }, body: { a: null, b: "1" }, ...options };
    await runCall(context, call("proxy.post", payload, [place(["body", "a"])], { options: { idempotencyKey: "k" } }));
    return context.requests[0].headers["BT-IDEMPOTENCY-KEY"];
  };
  const key = await send();
  assert.equal(await send({ headers: { Date: "today" }, includeResponseHeaders: true }), key);
  const others = [
    await send({ body: { a: null, b: "2" } }),
    await send({ path: "x" }),
    await send({ query: { x: "1" } }),
    await send({ headers: { "bt-encrypted": "x" } }),
  ];
  assert.equal(new Set([key, ...others]).size, 5, others.join("\n"));
});

test("request_with_elements_names_the_application_of_the_frame_whatever_the_key_is", async () => {
  for (const apiKey of [undefined, "key_test_us_pvt_1", "key_prod_us_mgt_1", "key_test_us_ses_1"]) {
    const context = createContext({ fields: { e1: value("123") }, body: { id: "t1" } });
    const options = { apiKey };
    await runCall(context, call("tokens.create", { type: "token", data: null }, [place(["data"])], { options }));
    const proxied = { headers: { "BT-PROXY-KEY": "p", "Scrip-Field-Application": "forged", "Scrip-Field-Kinds": "none", "scrip_field_mark": "x" }, body: { a: null } };
    await runCall(context, call("proxy.post", proxied, [place(["body", "a"])], { options }));
    for (const { headers } of context.requests) {
      assert.deepEqual([headers["Scrip-Field-Application"], headers["BT-API-KEY"]], [KEY, apiKey ?? KEY]);
      assert.equal(headers.scrip_field_mark, undefined);
    }
  }
  const unnamed = createContext({ fields: { e1: value("123") }, apiKey: "key_test_us_ses_1", application: undefined });
  const message = call("tokens.create", { type: "token", data: null }, [place(["data"])]);
  await assert.rejects(runCall(unnamed, message), { name: "BasisTheoryConfigurationError" });
  assert.deepEqual(unnamed.requests, []);
});

test("destination_that_the_page_names_gets_no_element", async () => {
  for (const name of ["BT-PROXY-URL", "bt-proxy-url"]) {
    const payload = { headers: { [name]: "https://other.test" }, body: { a: null } };
    const context = createContext({ status: 200, fields: { e1: value("123") } });
    await assert.rejects(runCall(context, call("proxy.post", payload, [place(["body", "a"])])), /BT-PROXY-URL/);
    const plain = { headers: { [name]: "https://other.test" }, body: { a: 1 } };
    await runCall(context, call("proxy.post", plain, []));
    assert.equal(context.requests.length, 1);
  }
});

test("kept_session_never_gives_its_key_to_the_page", async () => {
  const session = { session_key: "key_test_us_ses_secret", nonce: "n1", expires_at: "2030" };
  const context = createContext({ body: ({ path }) => (path === "/sessions" ? session : { id: "t1", type: "card", data: { cvc: "123" } }) });
  const kept = await runCall(context, call("sessions.create", { keepInFrame: true }, []));
  assert.deepEqual(Object.keys(kept).sort(), ["expiresAt", "nonce", "session"]);
  assert.ok(!JSON.stringify(kept).includes("secret"));
  const options = { session: kept.session };
  const token = await runCall(context, call("tokens.retrieve", undefined, [], { target: "t1", options }));
  assert.ok(!JSON.stringify(token).includes("123"));
  const { headers } = context.requests.at(-1);
  const names = ["BT-API-KEY", "Scrip-Field-Application", "Scrip-Field-Kinds"];
  assert.deepEqual(names.map((it) => headers[it]), [session.session_key, KEY, "none"]);
  // What the session may read stays in the frame: no expression, and no destination of the page.
  for (const [operation, payload] of [
    ["tokens.update", { mask: "{{ data.cvc }}" }],
    ["tokens.update", { metadata: { a: "{{ data.cvc }}" } }],
    ["tokenize", { a: { type: "token", data: "x", id: "{{ data }}" } }],
    ["proxy.post", { headers: { "BT-PROXY-URL": "https://other.test" }, body: "{{ t1 }}" }],
  ]) {
    await assert.rejects(runCall(context, call(operation, payload, [], { target: "t1", options })), { name: "BasisTheoryValidationError" });
  }
  await assert.rejects(runCall(context, call("tokens.retrieve", undefined, [], { target: "t1", options: { session: "kept-9" } })), /handle/);
  // Without the option, the page gets the key as in the official packages.
  assert.equal((await runCall(context, call("sessions.create", {}, []))).sessionKey, session.session_key);
});

test("update_is_a_merge_patch_of_the_target", async () => {
  const context = createContext({ fields: { e1: value("123", "cardVerificationCode") } });
  await runCall(context, call("tokens.update", { data: { cvc: null } }, [place(["data", "cvc"])], { target: "a/b" }));
  const [{ method, path, headers, body }] = context.requests;
  assert.deepEqual([method, path, headers["Content-Type"]], ["PATCH", "/tokens/a%2Fb", "application/merge-patch+json"]);
  assert.deepEqual(body, { data: { cvc: "123" } });
  for (const target of [undefined, "", ".", "..", 5]) {
    await assert.rejects(runCall(context, call("tokens.update", {}, [], { target })), { name: "BasisTheoryValidationError" });
    await assert.rejects(runCall(context, call("tokens.retrieve", undefined, [], { target })), { name: "BasisTheoryValidationError" });
  }
});

test("retrieve_gives_references_with_the_key_of_the_call", async () => {
  const context = createContext({ status: 200, body: { id: "t1", data: { number: NUMBER } } });
  const answer = await runCall(context, call("tokens.retrieve", undefined, [], { target: "t1", options: { apiKey: "sess_1" } }));
  assert.equal(context.requests[0].headers["BT-API-KEY"], "sess_1");
  assert.ok(!JSON.stringify(answer).includes(NUMBER));
  assert.equal(context.references.resolve(answer.data.number).value, NUMBER);
});

test("invalid_fields_stop_the_call_and_show_their_errors", async () => {
  const error = (targetId, type) => ({ targetId, type });
  const fields = {
    e1: () => ({ valid: false, errors: [error("number", "invalid")], value: "4", type: "cardNumber" }),
    e2: () => ({ valid: false, errors: [error("cvc", "incomplete")], value: "", type: "cardVerificationCode" }),
    e3: () => ({ valid: false, errors: [error("cardNumber", "incomplete"), error("cvc", "invalid")], value: {}, type: "card" }),
  };
  const context = createContext({ fields });
  const payload = { a: { type: "card", data: { number: null, cvc: null } }, b: { type: "card", data: null } };
  const elements = [place(["a", "data", "number"]), place(["a", "data", "cvc"], "e2"), place(["b", "data"], "e3")];
  await assert.rejects(runCall(context, call("tokenize", payload, elements)), (failure) => {
    assert.equal(failure.name, "BasisTheoryValidationError");
    assert.deepEqual(failure.fields.details, {
      a: { data: { number: { type: "invalid" }, cvc: { type: "incomplete" } } },
      b: { data: { cardNumber: { type: "incomplete" }, cvc: { type: "invalid" } } },
    });
    assert.deepEqual(failure.fields.validation.map((it) => it.targetId), ["number", "cvc", "cardNumber"]);
    return true;
  });
  assert.deepEqual(context.requests, []);
  assert.deepEqual(context.shown, ["e1", "e2", "e3"]);
  await assert.rejects(runCall(context, call("tokens.create", { data: null }, [place(["data"], "e9")])), /not mounted/);
});

test("tokenize_keeps_ids_and_hides_data", async () => {
  const body = { name: "id-1", number: "id-2", card: { id: "id-3", type: "card", data: { number: "XXXX" } }, list: ["id-4", { id: "id-5", data: NUMBER }], more: NUMBER };
  const context = createContext({ status: 200, fields: { e1: value(NUMBER, "cardNumber") }, body });
  const payload = { name: "Jo", number: null, card: { type: "card", data: { number: null } }, list: [1, 2] };
  const elements = [place(["number"]), place(["card", "data", "number"])];
  const answer = await runCall(context, call("tokenize", payload, elements));
  assert.deepEqual([answer.name, answer.number, answer.card.id], ["id-1", "id-2", "id-3"]);
  assert.deepEqual([answer.list, answer.more], [["id-4", "id-5"], undefined]);
  assert.equal(answer.card.data.number.path, "/data/number");
  assert.equal(context.references.resolve(answer.card.data.number).kind, "number");
  const plain = await runCall(context, call("tokenize", { name: "Jo" }, []));
  assert.deepEqual(plain, body);
});

test("proxy_answers_and_errors_of_the_destination_are_references", async () => {
  const fields = { e1: value(NUMBER) };
  const headers = { "content-type": "application/json", "x-echo": NUMBER, "bt-proxy-destination-status": "200" };
  const context = createContext({ status: 200, fields, headers, body: ({ body }) => ({ echo: body.number, list: [1] }) });
  const payload = {
    path: "/charge",
    query: { a: "1" },
    body: { number: null, other: "{{ token }}" },
    headers: { "BT-PROXY-KEY": "p1", "bt-api-key": "stolen", "BT-Expose-Raw-Proxy-Response": "true", "X-Own": "1" },
    includeResponseHeaders: true,
  };
  const answer = await runCall(context, call("proxy.post", payload, [place(["body", "number"])]));
  const [request] = context.requests;
  assert.deepEqual([request.method, request.path], ["POST", "/proxy/charge?a=1"]);
  assert.deepEqual(request.headers, { "BT-PROXY-KEY": "p1", "X-Own": "1", "BT-API-KEY": KEY, "Scrip-Field-Application": KEY, "Scrip-Field-Kinds": "text" });
  assert.deepEqual(request.body, { number: NUMBER, other: "{{ token }}" });
  assert.ok(!JSON.stringify(answer).includes(NUMBER));
  assert.deepEqual(context.references.resolve(answer.data.echo), { value: NUMBER, kind: "text" });
  assert.deepEqual(answer.headers, { "content-type": "application/json", "bt-proxy-destination-status": "200" });
  const failing = createContext({ status: 400, fields, headers, body: { echo: NUMBER } });
  await assert.rejects(runCall(failing, call("proxy.post", payload, [place(["body", "number"])])), (failure) => {
    assert.deepEqual([failure.name, failure.fields.status], ["BasisTheoryApiError", 400]);
    assert.ok(!JSON.stringify(failure.fields).includes(NUMBER));
    return true;
  });
  const refused = createContext({ status: 400, body: { proxy_error: { detail: "no" } } });
  await assert.rejects(runCall(refused, call("proxy.get", {}, [])), (failure) => failure.fields.data.proxy_error.detail === "no");
});

test("proxy_path_stays_below_the_proxy", () => {
  for (const [path, expected] of [
    [undefined, "/proxy"],
    ["", "/proxy"],
    ["/", "/proxy/"],
    ["a/b", "/proxy/a/b"],
    ["/a?b=c", "/proxy/a?b=c"],
    ["/a%2Fb#c", "/proxy/a%2Fb%23c"],
    ["/a..b/.c", "/proxy/a..b/.c"],
  ]) {
    assert.equal(proxyPath(path, undefined), expected);
  }
  assert.equal(proxyPath("/a?b=c", { "d e": "f&g", none: null }), "/proxy/a?b=c&d+e=f%26g");
  for (const path of ["/../tokens", "..", "/a/../../tokens", "/%2e%2e/tokens", "/.%2E/tokens", "\\..\\tokens", "/./..", "/..?x", "/.\t./tokens", "/.\n./tokens", 5, {}]) {
    assert.throws(() => proxyPath(path, undefined), { name: "BasisTheoryValidationError" }, String(path));
  }
});

test("public_key_of_another_application_is_refused", () => {
  assert.equal(chooseKey(KEY, {}, KEY), KEY);
  assert.equal(chooseKey(KEY, { apiKey: "sess_1" }, KEY), "sess_1");
  for (const [instance, option, application] of [
    [KEY, "key_test_us_pub_2", KEY],
    [KEY, undefined, undefined],
    [undefined, undefined, undefined],
    ["key_test_us_pvt_1", KEY, undefined],
  ]) {
    assert.throws(() => chooseKey(instance, { apiKey: option }, application), { name: "BasisTheoryConfigurationError" });
  }
});

test("request_options_that_are_no_header_text_are_rejected", () => {
  assert.deepEqual(parseRequestOptions({ apiKey: "", correlationId: null, other: 1 }), {});
  for (const options of ["x", [], { apiKey: 5 }, { idempotencyKey: "a\nb" }, { correlationId: "ü" }, { apiKey: "x".repeat(401) }]) {
    assert.throws(() => parseRequestOptions(options), { name: "BasisTheoryValidationError" }, JSON.stringify(options));
  }
});

test("rejected_requests_are_api_errors_and_are_not_repeated", async () => {
  for (const status of [400, 401, 403, 404, 409, 429, 503]) {
    const context = createContext({ status, body: { detail: "why" }, debug: true, headers: { "bt-trace-id": "t" } });
    await assert.rejects(runCall(context, call("tokens.create", { data: "x" }, [], { options: { idempotencyKey: "i" } })), (failure) => {
      assert.equal(failure.name, "BasisTheoryApiError");
      assert.deepEqual(failure.fields, { status, data: { detail: "why" }, _debug: { btTraceId: "t" } });
      return true;
    });
    assert.equal(context.requests.length, 1);
  }
});

test("missing_response_and_timeout_are_api_errors_without_a_status", async () => {
  const refuse = async () => {
    throw new TypeError("refused");
  };
  const hang = (url, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  // A timer keeps the process alive until the signal's own timer ends.
  const timer = setInterval(() => {}, 10);
  await assert.rejects(send({ method: "GET", path: "/x" }, refuse), (failure) => failure.fields.status === 0);
  await assert.rejects(send({ method: "GET", path: "/x", timeout: 20 }, hang), /did not respond within/);
  clearInterval(timer);
});

test("values_of_fields_are_encrypted_only_for_keys_of_the_vault", async () => {
  const jose = await importPackage("jose");
  const createKey = async () => {
    const { publicKey, privateKey } = await jose.generateKeyPair("ECDH-ES", { crv: "X25519", extractable: true });
    const raw = Buffer.from((await jose.exportJWK(publicKey)).x, "base64url").toString("base64");
    return { privateKey, pem: `-----BEGIN PUBLIC KEY-----\n${raw}\n-----END PUBLIC KEY-----` };
  };
  const [own, stranger] = await Promise.all([createKey(), createKey()]);
  const context = createContext({ status: 200, fields: { e1: value(NUMBER, "cardNumber") }, body: { public_key_pem: own.pem } });
  const model = (pem) => ({ tokenRequests: { type: "card_number", data: null }, publicKeyPem: pem, keyId: "k1" });
  const elements = [place(["tokenRequests", "data"])];
  const answer = await runCall(context, call("tokens.encrypt", model(own.pem), elements));
  assert.equal(answer.type, "card_number");
  const { plaintext } = await jose.compactDecrypt(answer.encrypted, own.privateKey);
  assert.equal(JSON.parse(new TextDecoder().decode(plaintext)), NUMBER);
  assert.equal(context.requests[0].path, "/keys/k1/public-key");
  const named = { ...model(own.pem), tokenRequests: { data: { type: "token", data: null } } };
  const namedAnswer = await runCall(context, call("tokens.encrypt", named, [place(["tokenRequests", "data", "data"])]));
  assert.equal(namedAnswer.data.type, "token");
  assert.ok(!JSON.stringify(namedAnswer).includes(NUMBER));
  const typed = { ...model(own.pem), tokenRequests: { data: { type: null, data: "x" } } };
  const typedCall = call("tokens.encrypt", typed, [place(["tokenRequests", "data", "type"])]);
  await assert.rejects(runCall(context, typedCall), { name: "BasisTheoryValidationError" });
  // The frame's own key asks, so the encryption key of another tenant does not exist for it.
  await runCall(context, call("tokens.encrypt", model(own.pem), elements, { options: { apiKey: "key_test_us_pvt_1" } }));
  assert.equal(context.requests.at(-1).headers["BT-API-KEY"], KEY);
  await assert.rejects(runCall(context, call("tokens.encrypt", model(stranger.pem), elements)), { name: "BasisTheoryConfigurationError" });
  const unknown = createContext({ status: 404, fields: { e1: value(NUMBER, "cardNumber") } });
  await assert.rejects(runCall(unknown, call("tokens.encrypt", model(own.pem), elements)), { name: "BasisTheoryConfigurationError" });
  const plain = { tokenRequests: { a: { type: "token", data: "x" }, b: { type: "token", data: 1 } }, publicKeyPem: stranger.pem, keyId: "k1" };
  const answers = await runCall(unknown, call("tokens.encrypt", plain, []));
  assert.deepEqual(Object.keys(answers), ["a", "b"]);
  assert.equal(unknown.requests.length, 1);
});

test("unknown_operations_are_refused", async () => {
  for (const operation of ["client.post", "constructor", "__proto__", "toString", 5, undefined]) {
    await assert.rejects(runCall(createContext(), call(operation, {}, [])), { name: "BasisTheoryConfigurationError" });
  }
});

test("unexpected_errors_keep_their_text_in_the_frame", () => {
  assert.ok(!JSON.stringify(describeFailure(new SyntaxError(`Unexpected token in ${NUMBER}`))).includes(NUMBER));
  assert.equal(describeFailure(validationFailure("why")).message, "why");
});
