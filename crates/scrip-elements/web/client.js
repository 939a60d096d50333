// The page script of the hosted fields. It defines window.BasisTheoryElements: instances, elements
// and their frames. No value of a field passes through this script: fields and controller are
// frames of the vault's origin, and the page gets metadata and references only.

(() => {
  "use strict";

  /** @typedef {Record<string, unknown>} Options */
  /** @typedef {Record<string, any>} FrameMessage a message of a frame; unchecked */
  /** @typedef {{ path: (string | number)[], element: string, method?: string, format?: string }} FieldPlace */
  /** @typedef {(event: { type: string } & Options) => void} Listener */

  const script = /** @type {HTMLScriptElement | null} */ (document.currentScript);
  if (!script?.src) throw new Error("Load the script of the hosted fields with <script src>, not as a module.");
  const vault = new URL(script.src).origin;
  const pageWindow = /** @type {Record<string, any>} */ (/** @type {unknown} */ (window));
  if (pageWindow.BasisTheoryElements !== undefined) {
    if (pageWindow.BasisTheoryElements.vault !== vault) console.warn(`${script.src} ignored: BasisTheoryElements exists.`);
    return;
  }

  /**
   * The npm packages have classes of their own, so pages distinguish errors by `name`.
   * @param {string} name @param {string} message @param {Options} fields
   */
  const makeError = (name, message, fields) => Object.assign(new Error(message), fields, { name });
  const configurationError = (/** @type {string} */ message) =>
    makeError("BasisTheoryConfigurationError", message, { details: { type: "invalid-configuration" } });
  const validationError = (/** @type {string} */ message) =>
    makeError("BasisTheoryValidationError", message, { details: {}, validation: [] });

  // --- Frames ---

  const PAGES = `${vault}/web-elements/1/hosted-elements/`;
  const FRAME_TIMEOUT = 60_000;
  const CALL_TIMEOUT = 150_000;
  const frames = /** @type {WeakMap<Element, Frame>} */ (new WeakMap());
  const frameName = (/** @type {string} */ nonce, /** @type {string} */ element) =>
    element === "controller" ? `scrip-controller-${nonce}` : `scrip-field-${nonce}-${element}`;

  /** An iframe of the vault and the messages to it. */
  class Frame {
    /** @type {{ type: string, fields: Options }[] | undefined} messages before `init`; undefined after it */
    #queue = [];
    /**
     * @param {Instance} instance
     * @param {string} element
     * @param {string} type element type, or "" for the controller
     * @param {() => Options} initFields read at each load of the frame
     * @param {(message: FrameMessage) => void} receive
     */
    constructor(instance, element, type, initFields, receive) {
      this.instance = instance;
      this.element = element;
      this.initFields = initFields;
      this.receive = receive;
      /** @type {Promise<void>} */
      this.ready = new Promise((resolve, reject) => {
        this.setReady = resolve;
        this.fail = (/** @type {string} */ message) => reject(configurationError(message));
      });
      this.ready.catch(() => {}); // A caller may drop the promise, for example after `unmount`.
      const iframe = document.createElement("iframe");
      const isController = element === "controller";
      iframe.name = frameName(instance.nonce, element);
      const key = instance.apiKey;
      const query = key?.includes("_pub_") ? `?application=${encodeURIComponent(key)}` : "";
      const fragment = new URLSearchParams({ nonce: instance.nonce, element, ...(type === "" ? {} : { type }) });
      iframe.src = `${PAGES}${isController ? "controller" : "field"}.html${query}#${fragment}`;
      iframe.referrerPolicy = "no-referrer";
      this.iframe = iframe;
      frames.set(iframe, this);
      const fail = () =>
        this.fail?.(
          location.protocol === "file:"
            ? `The frame ${PAGES} did not start, because this page was opened as a file. Open it from a web server.`
            : `The frame ${PAGES} did not start. Check that the vault is reachable, that its elements.origin is ${vault}, that ` +
              `the application's origins include ${location.origin}, that frame-src of this page's policy allows ${vault}, ` +
              `and that no frame around this page is in a shadow root.`,
        );
      setTimeout(fail, FRAME_TIMEOUT);
      // The frame's script runs before its `load` event, so a blocked frame is known soon.
      iframe.addEventListener("load", () => setTimeout(() => this.#queue !== undefined && fail(), 3_000));
    }

    /** @param {string} type @param {Options} [fields] */
    send(type, fields = {}) {
      if (this.#queue !== undefined) this.#queue.push({ type, fields });
      else this.#post(type, fields);
    }

    /** @param {string} type @param {Options} fields */
    #post(type, fields) {
      const message = { ...fields, scrip: 1, nonce: this.instance.nonce, element: this.element, type };
      this.iframe.contentWindow?.postMessage(message, vault);
    }

    /** @param {FrameMessage} message */
    handle(message) {
      if (message.type === "loaded") {
        // A frame loads again when the page moves it in the document.
        this.#post("init", this.initFields());
        for (const { type, fields } of this.#queue ?? []) this.#post(type, fields);
        this.#queue = undefined;
        return;
      }
      if (message.type === "ready") this.setReady?.();
      this.receive(message);
    }
  }

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.origin !== vault || message?.scrip !== 1) return;
    for (const iframe of document.getElementsByName(frameName(message.nonce, message.element))) {
      const frame = frames.get(iframe);
      if (frame?.iframe.contentWindow === event.source) frame.handle(message);
    }
  });

  // --- Elements ---

  const TITLES = {
    card: "Card", cardNumber: "Card number", cardExpirationDate: "Expiration date",
    cardVerificationCode: "Security code", text: "Text", copyButton: "Copy",
  };
  const FIXED_OPTIONS = ["mask", "targetId", "transform", "validateOnChange", "validation"];
  const REQUEST_OPTIONS = ["apiKey", "correlationId", "idempotencyKey", "session", "deviceInfo"];
  const EVENTS = ["ready", "change", "focus", "blur", "keydown", "click", "copy"];
  let elementCount = 0;

  /** @type {(object: Options, names: string[]) => Options} */
  const pick = (object, names) =>
    Object.fromEntries(names.filter((name) => object[name] !== undefined).map((name) => [name, object[name]]));

  /** Functions cannot be sent to a frame. @type {(options: Options) => Options} */
  const cloneable = (options) => Object.fromEntries(Object.entries(options).filter(([, value]) => typeof value !== "function"));
  const emptyMetadata = () => ({ complete: false, valid: false, empty: true, errors: [] });

  class HostedElement {
    /** @type {Map<string, Set<Listener>>} */
    #listeners = new Map();
    #frame = /** @type {Frame | undefined} */ (undefined);
    #instance;
    #type;
    #options;
    #id = `e${++elementCount}`;
    #metadata = /** @type {Options} */ (emptyMetadata());

    /** @param {Instance} instance @param {keyof typeof TITLES} type @param {Options} options */
    constructor(instance, type, options) {
      this.#instance = instance;
      this.#type = type;
      this.#options = cloneable(options);
      // Pages and packages recognize the abilities of a type by the methods that it has.
      if (type === "card" || type === "cardNumber") this.cardMetadata = /** @type {Options} */ ({ cardBrand: "unknown" });
      if (type !== "copyButton") this.setValue = this.#setValue;
      if (type !== "card") this.setValueRef = this.#setValueRef;
      if (type === "cardExpirationDate") {
        this.month = () => ({ element: this, method: "month" });
        this.year = () => ({ element: this, method: "year" });
        this.format = (/** @type {string} */ format) => {
          if (typeof format !== "string") throw new TypeError('format needs a text such as "MM/yyyy".');
          return { element: this, method: "format", formattingOptions: { format } };
        };
      }
    }

    #setValue = (/** @type {unknown} */ value, /** @type {unknown} */ validate) => {
      if (typeof value !== "object" || value === null) {
        throw configurationError("setValue needs a reference from an answer, such as token.data.number of tokens.retrieve.");
      }
      this.#send("set", { reference: JSON.parse(JSON.stringify(value)), validate: validate === true });
    };

    #setValueRef = (/** @type {unknown} */ source) => {
      const place = elementPlace(source);
      if (place?.instance !== this.#instance) throw configurationError("setValueRef needs an element of the same instance.");
      this.#send("set", { from: place.element, validate: false });
    };

    get mounted() {
      return this.#frame?.iframe.isConnected ?? false;
    }

    get metadata() {
      return { ...this.#metadata };
    }

    /** @param {unknown} target selector or element */
    async mount(target) {
      if (this.mounted) throw configurationError("The element is already mounted. Unmount it first.");
      const container = findContainer(target);
      const style = getComputedStyle(container);
      const frame = new Frame(this.#instance, this.#id, this.#type, () => this.#initFields(style), (message) => {
        if (this.#frame === frame) this.#receive(message);
      });
      const { iframe } = frame;
      iframe.title = this.#title();
      if (this.#type === "copyButton" || this.#options.enableCopy === true) iframe.allow = "clipboard-write";
      // A frame without a dark color scheme is transparent only if the iframe has none either.
      Object.assign(iframe.style, { border: "0", width: "100%", height: "24px", display: "block", colorScheme: "light" });
      this.#frame = frame;
      container.append(iframe);
      await Promise.all([frame.ready, this.#instance.controllerReady()]).catch((error) => {
        if (this.#frame === frame) this.unmount();
        throw error;
      });
    }

    /** @param {Options} options */
    async update(options) {
      if (typeof options !== "object" || options === null) throw new TypeError("update needs an object of options.");
      // React passes `undefined` for an option that was removed.
      const changes = cloneable(options);
      for (const name of FIXED_OPTIONS) delete changes[name];
      this.#options = { ...this.#options, ...changes };
      if (this.#frame === undefined) return;
      this.#frame.iframe.title = this.#title();
      this.#frame.send("update", { options: changes });
    }

    validate = () => this.#send("validate");
    clear = () => this.#send("clear");
    focus = () => this.#send("focus");
    blur = () => this.#send("blur");

    unmount() {
      this.#frame?.fail?.("The element was unmounted before its frame was ready.");
      this.#frame?.iframe.remove();
      this.#frame = undefined;
      this.#metadata = emptyMetadata();
      if (this.cardMetadata) this.cardMetadata = { cardBrand: "unknown" };
    }

    /** @param {string} type @param {Listener} listener */
    on(type, listener) {
      if (!EVENTS.includes(type)) throw new TypeError(`Unknown event type: ${type}. Types: ${EVENTS.join(", ")}.`);
      if (typeof listener !== "function") throw new TypeError("The listener must be a function.");
      const listeners = this.#listeners.get(type) ?? new Set();
      this.#listeners.set(type, listeners);
      // A function may be subscribed twice, and an error of one listener must not stop the others.
      /** @type {Listener} */
      const subscription = (event) => queueMicrotask(() => listener(event));
      listeners.add(subscription);
      return { unsubscribe: () => void listeners.delete(subscription) };
    }

    /** @param {string} type @param {Options} [fields] */
    #send(type, fields) {
      if (this.#frame === undefined) throw configurationError("The element is not mounted.");
      this.#frame.send(type, fields);
    }

    /** Instance and id, for payloads. */
    static place(/** @type {HostedElement} */ element) {
      return { instance: element.#instance, element: element.#id };
    }

    #title() {
      const { title, "aria-label": label } = this.#options;
      return String(title ?? label ?? TITLES[this.#type]);
    }

    /** @param {CSSStyleDeclaration} style live style of the container */
    #initFields(style) {
      const lang = this.#frame?.iframe.closest("[lang]")?.getAttribute("lang") ?? document.documentElement.lang;
      return { options: { ...this.#options, dir: style.direction === "rtl" ? "rtl" : "ltr", lang } };
    }

    /** @param {FrameMessage} message */
    #receive(message) {
      if (message.type === "resize" && message.height > 0 && message.height < 5000 && this.#frame) {
        this.#frame.iframe.style.height = `${Number(message.height)}px`;
      }
      if (!EVENTS.includes(message.type)) return;
      const { scrip, nonce, element, ...event } = message;
      if (message.type === "change") {
        this.#metadata = pick(event, ["complete", "valid", "maskSatisfied", "empty", "errors"]);
        const card = { cardBrand: "unknown", ...pick(event, ["cardBrand", "cardBin", "cardLast4"]) };
        if (this.cardMetadata) this.cardMetadata = card;
      }
      for (const listener of [...(this.#listeners.get(message.type) ?? [])]) listener({ ...event, type: message.type });
    }
  }

  /** @param {unknown} target @returns {Element} */
  function findContainer(target) {
    /** @type {any} */
    let container = target;
    if (typeof target === "string") {
      // Ids made by React contain colons, which are not valid in a selector.
      container = target.startsWith("#") ? document.getElementById(target.slice(1)) : null;
      container ??= document.querySelector(target);
    }
    if (container?.nodeType !== 1) throw configurationError(`No element to mount into: ${String(target)}`);
    if (container.getRootNode() !== document) {
      throw configurationError("The target must be in this document, outside of shadow roots: frames cannot find others there.");
    }
    return container;
  }

  /** @type {(value: any) => { instance: Instance, element: string, method?: string, format?: string } | undefined} */
  function elementPlace(value) {
    if (value instanceof HostedElement) return HostedElement.place(value);
    if (!(value?.element instanceof HostedElement)) return undefined;
    return { ...HostedElement.place(value.element), method: value.method, format: value.formattingOptions?.format };
  }

  /**
   * Copies a payload as JSON would, with null in place of each element, and lists the elements.
   * @param {Instance} instance @param {unknown} payload
   */
  function extractElements(instance, payload) {
    /** @type {FieldPlace[]} */
    const elements = [];
    /** @type {(value: any, path: (string | number)[], ancestors: unknown[]) => unknown} */
    const copy = (value, path, ancestors) => {
      const place = elementPlace(value);
      if (place !== undefined) {
        if (place.instance !== instance) throw validationError(`The element at ${path.join(".")} is of another instance.`);
        elements.push({ path, element: place.element, method: place.method, format: place.format });
        return null;
      }
      if (typeof value === "bigint") throw validationError(`The value at ${path.join(".")} cannot be sent as JSON.`);
      if (typeof value === "function" || typeof value === "symbol") return undefined;
      if (typeof value !== "object" || value === null) return value;
      if (ancestors.includes(value)) throw validationError(`The payload refers to itself at ${path.join(".")}.`);
      if (typeof value.toJSON === "function") return copy(value.toJSON(), path, ancestors);
      const next = [...ancestors, value];
      if (Array.isArray(value)) return value.map((item, index) => copy(item, [...path, index], next) ?? null);
      const entries = Object.entries(value).map(([key, item]) => [key, copy(item, [...path, key], next)]);
      return Object.fromEntries(entries.filter(([, item]) => item !== undefined));
    };
    return { payload: copy(payload, [], []), elements };
  }

  /** @type {(payload: unknown, ancestors?: unknown[]) => boolean} */
  const hasElement = (payload, ancestors = []) => {
    if (elementPlace(payload) !== undefined) return true;
    if (typeof payload !== "object" || payload === null || ancestors.includes(payload)) return false;
    return Object.values(payload).some((item) => hasElement(item, [...ancestors, payload]));
  };

  // --- Instances ---

  class Instance {
    /** @type {Frame | undefined} */
    #controller;
    /** @type {Map<number, { resolve: (value: unknown) => void, reject: (error: Error) => void }>} */
    #calls = new Map();
    #callCount = 0;
    deviceInfo = /** @type {Options} */ ({});
    nonce = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

    /** @param {string | undefined} apiKey @param {boolean} debug */
    constructor(apiKey, debug) {
      this.apiKey = apiKey;
      this.debug = debug;
    }

    /** Resolves when the controller frame runs. A page may have removed the frame; then a new one starts. */
    async controllerReady() {
      if (document.readyState === "loading" && document.body === null) {
        await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
      }
      if (!this.#controller?.iframe.isConnected) {
        for (const id of this.#calls.keys()) this.#settle(id, makeError("Error", "The controller frame was removed.", {}));
        const fields = () => ({ apiKey: this.apiKey, options: { debug: this.debug } });
        const controller = new Frame(this, "controller", "", fields, (message) => {
          if (message.type === "ready") this.deviceInfo = message.deviceInfo;
          if (message.type === "answer") this.#settle(message.id, undefined, message.value);
          const { name, message: text, ...rest } = message.type === "failure" ? message.error : {};
          if (name !== undefined) this.#settle(message.id, makeError(name, text, rest));
        });
        controller.iframe.title = "Secure connection of the payment fields";
        controller.iframe.tabIndex = -1;
        controller.iframe.setAttribute("aria-hidden", "true");
        controller.iframe.style.display = "none";
        // The next call starts another frame after a failure.
        controller.ready.catch(() => controller.iframe.remove());
        this.#controller = controller;
        document.body.append(controller.iframe);
      }
      const controller = /** @type {Frame} */ (this.#controller);
      await controller.ready;
      return controller;
    }

    /** @type {(id: number, error: Error | undefined, value?: unknown) => void} */
    #settle(id, error, value) {
      const call = this.#calls.get(id);
      this.#calls.delete(id);
      error === undefined ? call?.resolve(value) : call?.reject(error);
    }

    /** @type {(operation: string, payload?: unknown, options?: unknown, target?: unknown) => Promise<any>} */
    async call(operation, payload, options, target) {
      const fields = { operation, ...extractElements(this, payload), options: extractElements(this, options).payload, target };
      const controller = await this.controllerReady();
      const id = ++this.#callCount;
      return new Promise((resolve, reject) => {
        this.#calls.set(id, { resolve, reject });
        controller.send("call", { id, ...fields });
        setTimeout(() => this.#settle(id, makeError("BasisTheoryApiError", "No answer in time.", { status: 0 })), CALL_TIMEOUT);
      });
    }

    /** @type {(type: keyof typeof TITLES, options?: Options) => HostedElement} */
    createElement(type, options = {}) {
      if (!Object.hasOwn(TITLES, type)) {
        throw configurationError(`Unknown element type: ${String(type)}. Types: ${Object.keys(TITLES).join(", ")}.`);
      }
      if (typeof options !== "object" || options === null) throw configurationError("The options must be an object.");
      if (typeof options.targetId !== "string" && type !== "card" && type !== "copyButton") {
        throw configurationError(`An element of type ${type} needs the option targetId, a text.`);
      }
      return new HostedElement(this, type, options);
    }
  }

  /** @param {Instance} instance the object that pages use */
  const publicInstance = (instance) => {
    /** @type {(name: string) => (model: unknown, options?: unknown) => Promise<any>} */
    const operation = (name) => (model, options) => instance.call(name, model, options);
    /** @type {(name: string) => (options?: Options) => Promise<any>} */
    const proxy = (name) => (options = {}) => instance.call(`proxy.${name}`, options, pick(options, REQUEST_OPTIONS));
    /** @type {(make: (name: string) => unknown) => Options} */
    const methods = (make) => Object.fromEntries(["get", "post", "put", "patch", "delete"].map((name) => [name, make(name)]));
    const refuse = async () => {
      throw configurationError("client sends no requests: frames of the vault send values only to the vault. Use proxy.");
    };
    return {
      createElement: instance.createElement.bind(instance),
      tokens: {
        create: operation("tokens.create"),
        encrypt: operation("tokens.encrypt"),
        update: (/** @type {unknown[]} */ ...[id, model, options]) => instance.call("tokens.update", model, options, id),
        retrieve: (/** @type {unknown[]} */ ...[id, options]) => instance.call("tokens.retrieve", undefined, options, id),
      },
      tokenize: operation("tokenize"),
      tokenIntents: { create: operation("tokenIntents.create") },
      sessions: { create: (/** @type {Options} */ options = {}) => instance.call("sessions.create", pick(options ?? {}, ["keepInFrame"]), options) },
      proxy: methods(proxy),
      client: methods(() => refuse),
      device: { getDeviceInfo: () => ({ ...instance.deviceInfo, innerWidth, innerHeight }) },
      hasElement: (/** @type {unknown} */ payload) => hasElement(payload),
    };
  };

  /** @typedef {ReturnType<typeof publicInstance>} PublicInstance */
  /** @type {Map<string, PublicInstance>} one instance per key: a repeated init costs no frame */
  const instances = new Map();
  /** @type {PublicInstance | undefined} */
  let current;

  /**
   * The loaders pass URLs after the key. They are ignored: frames and API are on the script's origin.
   * @param {string | undefined} apiKey @param {unknown[]} args the sixth argument of init is `debug`
   */
  async function init(apiKey, ...args) {
    if (apiKey !== undefined && typeof apiKey !== "string") throw configurationError("The API key must be a text.");
    if (location.origin === "null") throw configurationError("Hosted fields need a page with an origin, not a file.");
    const debug = args[4] === true;
    const name = JSON.stringify([apiKey, debug]);
    let started = instances.get(name);
    if (started === undefined) {
      const instance = new Instance(apiKey, debug);
      started = publicInstance(instance);
      instances.set(name, started);
      // The controller starts while fields start. `mount` and every call wait for it and report its failure.
      instance.controllerReady().catch(() => {});
    }
    // Older packages use window.BasisTheoryElements itself as the instance.
    current = started;
    return current;
  }

  const initialized = () => {
    if (current === undefined) throw configurationError("Call init and wait for its result first.");
    return current;
  };
  pageWindow.BasisTheoryElements = {
    init,
    vault,
    hasElement: (/** @type {unknown} */ payload) => hasElement(payload),
    get createElement() { return initialized().createElement; },
    get tokens() { return initialized().tokens; },
    get tokenize() { return initialized().tokenize; },
    get tokenIntents() { return initialized().tokenIntents; },
    get sessions() { return initialized().sessions; },
    get proxy() { return initialized().proxy; },
    get client() { return initialized().client; },
    get device() { return initialized().device; },
  };
  if (location.origin === vault) {
    console.warn(`The page has the origin of the vault, ${vault}: frames do not protect the fields from its scripts.`);
  }
})();
