// Calls of the page: the request to the vault, and an answer without values of fields.

import assert from "node:assert/strict";
import { test } from "node:test";

import { proxyPath, runCall } from "../../crates/scrip-elements/web/controller/calls.js";
import { describeFailure, validationFailure } from "../../crates/scrip-elements/web/controller/failure.js";
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
    readField: (element, part) => fields[element]?.(part),
    showValidation: (element) => shown.push(element),
    send: async (request) => {
      requests.push(request);
      return { status, headers: new Headers(headers), data: typeof body === "function" ? body(request) : body };
    },
    ...changes,
  };
}

const value = (it, type = "text") => () => ({ valid: true, errors: [], value: it, type });
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
  assert.deepEqual(headers, { "BT-API-KEY": KEY, "BT-TRACE-ID": "c1", "BT-DEVICE-INFO": deviceInfo });
  // A page that knows the key of the vault could compare requests.
  assert.match(idempotencyKey, /^[0-9a-f]{32}-i1$/);
  assert.deepEqual(answer.data.number, { correlationId: "answer-1", elementId: "data-1", path: "/data/number" });
  assert.equal(context.references.resolve(answer.data.expiration_month), 12);
  assert.deepEqual([answer.id, answer.createdBy, answer.card], ["t1", "a", { bin: "424242", expirationMonth: 12 }]);
  assert.deepEqual(answer.metadata, { order_id: "1" });
});

test("clear_parts_of_an_answer_never_repeat_a_field", async () => {
  const body = { id: "t1", fingerprint: "f", bank: { routing_number: "021000021" }, note: "x 021000021 y", data: {} };
  const context = createContext({ fields: { e1: value("021000021") }, body });
  const payload = { type: "bank", data: { routing_number: null } };
  const answer = await runCall(context, call("tokens.create", payload, [place(["data", "routing_number"])]));
  assert.ok(!JSON.stringify(answer).includes("021000021"));
  assert.equal(context.references.resolve(answer.note), "x 021000021 y");
  assert.deepEqual([answer.bank, answer.fingerprint], [undefined, undefined]);
});

test("security_code_in_a_token_of_any_type_has_no_fingerprint", async () => {
  const body = { id: "t1", fingerprint: "f", card: { last4: "4242" } };
  for (const [type, expected] of [["token", undefined], ["social_security_number", undefined], ["card", "f"]]) {
    const context = createContext({ fields: { e1: value("123", "cardVerificationCode") }, body });
    const answer = await runCall(context, call("tokens.create", { type, data: { cvc: null } }, [place(["data", "cvc"])]));
    assert.deepEqual([answer.fingerprint, answer.card.last4], [expected, "4242"], type);
    assert.equal(context.requests[0].body.deduplicate_token, type === "card" ? undefined : false, type);
  }
});

test("private_and_management_keys_send_no_element", async () => {
  for (const apiKey of ["key_test_us_pvt_1", "key_prod_us_mgt_1"]) {
    const context = createContext({ fields: { e1: value("123") }, body: { id: "t1" } });
    const message = call("tokens.create", { type: "token", data: null }, [place(["data"])], { options: { apiKey } });
    await assert.rejects(runCall(context, message), { name: "BasisTheoryConfigurationError" });
    assert.equal(context.requests.length, 0);
  }
});

test("update_is_a_merge_patch_of_the_target", async () => {
  const context = createContext({ fields: { e1: value("123") } });
  await runCall(context, call("tokens.update", { data: { cvc: null } }, [place(["data", "cvc"])], { target: "a/b" }));
  const [{ method, path, headers, body }] = context.requests;
  assert.deepEqual([method, path, headers["Content-Type"]], ["PATCH", "/tokens/a%2Fb", "application/merge-patch+json"]);
  assert.deepEqual(body, { data: { cvc: "123" }, deduplicate_token: false });
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
  assert.equal(context.references.resolve(answer.data.number), NUMBER);
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
  const body = { name: "id-1", number: "id-2", card: { id: "id-3", type: "card", data: { number: "XXXX" } }, list: ["id-4", NUMBER] };
  const context = createContext({ status: 200, fields: { e1: value(NUMBER) }, body });
  const payload = { name: "Jo", number: null, card: { type: "card", data: { number: null } }, list: [1, 2] };
  const elements = [place(["number"]), place(["card", "data", "number"])];
  const answer = await runCall(context, call("tokenize", payload, elements));
  assert.deepEqual([answer.name, answer.number, answer.card.id, answer.list[0]], ["id-1", "id-2", "id-3", "id-4"]);
  assert.equal(answer.card.data.number.path, "/card/data/number");
  assert.equal(context.references.resolve(answer.list[1]), NUMBER);
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
  assert.deepEqual(request.headers, { "BT-PROXY-KEY": "p1", "X-Own": "1", "BT-API-KEY": KEY });
  assert.deepEqual(request.body, { number: NUMBER, other: "{{ token }}" });
  assert.ok(!JSON.stringify(answer).includes(NUMBER));
  assert.equal(context.references.resolve(answer.data.echo), NUMBER);
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
  const context = createContext({ status: 200, fields: { e1: value(NUMBER) }, body: { public_key_pem: own.pem } });
  const model = (pem) => ({ tokenRequests: { type: "card_number", data: null }, publicKeyPem: pem, keyId: "k1" });
  const elements = [place(["tokenRequests", "data"])];
  const answer = await runCall(context, call("tokens.encrypt", model(own.pem), elements));
  assert.equal(answer.type, "card_number");
  const { plaintext } = await jose.compactDecrypt(answer.encrypted, own.privateKey);
  assert.equal(JSON.parse(new TextDecoder().decode(plaintext)), NUMBER);
  assert.equal(context.requests[0].path, "/keys/k1/public-key");
  await assert.rejects(runCall(context, call("tokens.encrypt", model(stranger.pem), elements)), { name: "BasisTheoryConfigurationError" });
  const unknown = createContext({ status: 404, fields: { e1: value(NUMBER) } });
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
