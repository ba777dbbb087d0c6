/** The head of the page: the views, which cluster it is, whether what is shown is live, and who looks. */

import { h, name, refill, setAttribute, setText } from "./dom.js";
import { other, read, VIEWS } from "./route.js";
import { atClock, listed, RESOURCES } from "./words.js";

const BROKEN = {
  broken: "The connection is lost.",
  closing: "The server has ended.",
  "slow-reader": "This page could not keep up and reads the cluster again.",
  restarted: "Your rights have changed; the cluster is read again.",
};
const MODES = { live: "Live", recording: "Recording", demo: "Demo" };
const STATES = { connecting: "Connecting", broken: "Not connected", "signed-out": "Signed out" };
const stateText = (store, { state }) => STATES[state] ?? MODES[store?.hello.mode] ?? "Live";

// What is hidden, in sentences. `shown` is a list of resources with how much of each is shown.

const namesOf = (shown, wanted) => shown.filter(([, how]) => how === wanted).map(([resource]) => RESOURCES[resource] ?? resource);

function hiddenText(shown) {
  const names = namesOf(shown, "hidden");
  return names.length ? `You may not read ${listed(names)}. ` : "";
}

function partText(shown, namespace) {
  const names = namesOf(shown, "namespace");
  return names.length ? [`Of ${listed(names)}, you see those of namespace `, name(namespace), "."] : "";
}

export class TopBar {
  constructor(app, titles) {
    this.app = app;
    this.links = VIEWS.map((view) => [view, h("a", {}, titles[view])]);
    this.server = h("span", { class: "server" });
    this.state = h("span", { class: "connection" }, "Connecting");
    this.user = h("span", { class: "user" });
    this.out = h("button", { type: "button", class: "quiet", on: { click: () => app.leave() } }, "Sign out");
    this.notices = document.getElementById("notices");
    const icon = h("img", { src: "assets/icon.svg", alt: "", width: "24", height: "24" });
    document.getElementById("top").append(
      h("a", { class: "brand", href: "#/map" }, icon, h("span", {}, "dray")),
      h("nav", { class: "views", "aria-label": "Views" }, this.links.map(([, link]) => link)),
      h("div", { class: "who" }, this.state, this.server, this.user, app.theme.button, this.out));
  }

  update() {
    const { view } = read();
    for (const [one, link] of this.links) {
      setAttribute(link, "href", other(one));
      setAttribute(link, "aria-current", one === view ? "page" : null);
    }
    const { store, connection } = this.app;
    setAttribute(this.out, "hidden", !store || connection.state === "signed-out");
    setText(this.state, stateText(store, connection));
    setAttribute(this.state, "data-state", connection.state);
    if (!store) return;
    setText(this.server, store.hello.server.replace(/^https?:\/\//, ""));
    setText(this.user, store.hello.user);
    setAttribute(this.user, "title", `Namespace ${store.hello.namespace}`);
    this.#notice(store, connection);
  }

  #notice(store, connection) {
    const hidden = Object.entries(store.resources).filter(([, shown]) => shown === "hidden" || shown === "namespace");
    const key = JSON.stringify([hidden, connection]);
    if (key === this.noticed) return;
    this.noticed = key;
    refill(this.notices,
      connection.state === "broken" ? h("p", { class: "notice broken" }, `${BROKEN[connection.why] ?? BROKEN.broken} The page tries to connect again by itself.`, connection.since ? ` It shows the cluster as of ${atClock(connection.since)}.` : "") : null,
      hidden.length ? h("p", { class: "notice hidden-by-rights" }, "Not everything is shown. ", hiddenText(hidden), partText(hidden, store.hello.namespace)) : null);
  }
}
