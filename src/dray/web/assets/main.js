/**
 * Starts the page: lets people in, follows the stream, and brings the view that the address names up to date.
 *
 * Data flows one way: stream → store → views. Views are brought up to date at most once a frame while somebody acts, and
 * five times a second while only the cluster changes. Left out: everything that a view shows.
 */

import { DeviceMap } from "./map.js";
import { say } from "./dom.js";
import { Inspector, resolveDevice } from "./inspector.js";
import { Login } from "./login.js";
import { read, selection, takeCode } from "./route.js";
import { Series } from "./series.js";
import { getSession, onSignedOut, signIn, signOut } from "./server.js";
import { Stream } from "./stream.js";
import { Theme } from "./theme.js";
import { TopBar } from "./topbar.js";
import { ClaimsView } from "./view-claims.js";
import { DriversView } from "./view-drivers.js";
import { FitsView } from "./view-fits.js";
import { MapView } from "./view-map.js";
import { TimeView } from "./view-time.js";
import { WhyView } from "./view-why.js";

const PACE = 200; // milliseconds between updates that only the cluster causes
const GROWING = 100; // the same while the first picture grows
const ENDED = "The session has ended, or the cluster does not accept its user any more. Sign in again, and the page goes on where it was.";

class App {
  constructor() {
    this.store = null;
    this.series = new Series();
    this.connection = { state: "connecting" };
    this.selectedDevice = undefined;
    this.timer = 0;
    this.main = document.getElementById("main");
    this.theme = new Theme(() => this.redraw(), () => { this.#update(); this.map.drawNow(); });
    this.map = new DeviceMap(this);
    this.views = { map: new MapView(this), why: new WhyView(this), fits: new FitsView(this), time: new TimeView(this), claims: new ClaimsView(this), drivers: new DriversView(this) };
    this.topBar = new TopBar(this, Object.fromEntries(Object.entries(this.views).map(([name, { title }]) => [name, title])));
    this.inspector = new Inspector(this, document.getElementById("inspector"));
    this.login = new Login(() => this.#entered());
    this.stream = new Stream({
      onStore: (store) => this.#takeStore(store),
      onRows: () => this.later(this.store.ready ? PACE : GROWING),
      onReady: () => this.#ready(),
      onSample: (sample) => { this.series.add(sample); this.later(PACE); },
      onRights: () => this.redraw(),
      onConnection: (connection) => this.#connected(connection),
      onSignIn: () => this.askToSignIn(ENDED),
    });
    onSignedOut(() => this.askToSignIn(ENDED));
    addEventListener("hashchange", () => this.redraw());
    document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); this.main.focus(); });
  }

  get dark() {
    return this.theme.dark;
  }

  async start() {
    const code = takeCode();
    try {
      if (code) await signIn({ code }).catch(() => getSession());
      else await getSession().catch((error) => { if (error.code !== "Unauthorized") throw error; return signIn({}); });
    } catch (error) {
      if (error.code !== "Unreachable") return this.askToSignIn(code ? "That code does not work: it can be used once, within five minutes." : "");
    }
    this.#entered();
  }

  #entered() {
    this.signingIn = false;
    this.login.element.remove();
    this.stream.open();
    this.redraw();
  }

  askToSignIn(why) {
    if (this.signingIn) return;
    this.signingIn = true;
    this.stream.close();
    this.connection = { state: "signed-out" };
    this.login.open(why);
    document.body.append(this.login.element);
    document.body.classList.add("signing-in");
    this.login.code.focus();
    this.redraw();
  }

  async leave() {
    await signOut().catch(() => {});
    this.stream.close();
    location.reload();
  }

  #takeStore(store) {
    this.store = store;
    this.redraw();
  }

  #ready() {
    this.series.load().then(() => this.redraw(), () => {});
    const id = resolveDevice(this.store, selection());
    if (id !== undefined) requestAnimationFrame(() => this.map.reveal(id));
    this.redraw();
  }

  #connected(connection) {
    const before = this.connection.state;
    this.connection = connection;
    if (connection.state === "broken") say("The connection is lost.");
    else if (before === "broken") say("Connected again.");
    this.redraw();
  }

  /** Bring the page up to date with the next frame. */
  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.#update(); });
  }

  /** Bring the page up to date soon, once for all that comes until then. */
  later(delay) {
    if (this.timer) return;
    this.timer = setTimeout(() => { this.timer = 0; this.redraw(); }, delay);
  }

  #update() {
    document.body.classList.toggle("signing-in", Boolean(this.signingIn));
    this.topBar.update();
    if (!this.store) return;
    const { view } = read();
    this.selectedDevice = resolveDevice(this.store, selection());
    if (this.shown !== view) this.#show(view);
    this.views[view].update();
    this.inspector.update();
  }

  #show(view) {
    this.shown = view;
    document.title = `${this.views[view].title} · dray`;
    this.main.replaceChildren(this.views[view].element);
    this.views[view].show();
    say(this.views[view].title);
  }
}

new App().start();
