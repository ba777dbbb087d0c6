/**
 * The connection to the server: events in order, connected again whenever it breaks, and what to tell people about it.
 *
 * Messages are queued and handled a few milliseconds at a time, so that a large first picture never holds the page. A new
 * picture is built aside and takes the place of the old one when it is complete; only the very first is shown as it grows.
 * Left out: what the rows mean (`store`), and signing in (`main`).
 */

import { getSession } from "./server.js";
import { Store } from "./store.js";

const SLICE = 8; // milliseconds of handling before the page gets its turn
const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;
const EVENTS = ["hello", "rows", "ready", "sample", "rights", "bye"];

export class Stream {
  #queue = [];
  #waiting = false;
  #turn = new MessageChannel();
  #wait = FIRST_WAIT;
  #timer = 0;
  #source = null;
  #building = null;

  /** `to` has onStore, onRows, onReady, onSample, onRights, onConnection and onSignIn. */
  constructor(to) {
    this.to = to;
    this.store = null;
    this.#turn.port1.onmessage = () => this.#handleSome();
  }

  open() {
    this.close();
    const source = (this.#source = new EventSource("api/stream"));
    for (const event of EVENTS) source.addEventListener(event, ({ data }) => this.#enqueue(source, event, data));
    source.onerror = () => { if (source === this.#source) this.#broken(); };
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.#queue = [];
  }

  #enqueue(source, event, data) {
    if (source !== this.#source) return;
    this.#queue.push([event, data]);
    if (!this.#waiting) this.#yield();
  }

  #yield() {
    this.#waiting = true;
    this.#turn.port2.postMessage(null);
  }

  #handleSome() {
    this.#waiting = false;
    const until = performance.now() + SLICE;
    while (this.#queue.length && performance.now() < until) {
      const [event, data] = this.#queue.shift();
      this[`on_${event}`](JSON.parse(data));
    }
    if (this.#queue.length) this.#yield();
  }

  on_hello(hello) {
    this.#wait = FIRST_WAIT;
    this.#building = new Store(hello);
    if (!this.store?.ready) this.#take();
  }

  on_rows(message) {
    this.#building.apply(message);
    if (this.#building === this.store) this.to.onRows(message);
  }

  on_ready() {
    this.#building.ready = true;
    this.#take();
    this.to.onConnection({ state: "live" });
    this.to.onReady();
  }

  on_sample(sample) {
    this.to.onSample(sample);
  }

  on_rights({ resources }) {
    this.#building.resources = resources;
    this.to.onRights();
  }

  on_bye({ code }) {
    this.close();
    if (code === "session-ended") this.to.onSignIn();
    else this.#again(code);
  }

  #take() {
    this.store = this.#building;
    this.to.onStore(this.store);
  }

  /** Find out whether to sign in or to try again. */
  async #broken() {
    this.close();
    const turn = {};
    this.#source = { close() {}, turn };
    try {
      await getSession();
    } catch (error) {
      if (this.#source?.turn !== turn) return;
      if (error.code === "Unauthorized") return this.to.onSignIn();
    }
    if (this.#source?.turn === turn) this.#again("broken");
  }

  #again(why) {
    this.to.onConnection({ state: "broken", why, since: this.store?.at });
    this.#timer = setTimeout(() => this.open(), this.#wait);
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
  }
}
