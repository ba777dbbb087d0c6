/** What still fits: the largest claim of each class, how the rest is spread over nodes, and how many more of a manifest. */

import { h, name, refill, svg } from "./dom.js";
import { address, select } from "./route.js";
import { ask, latest } from "./server.js";
import { TrialForm } from "./trial.js";
import { bound, number, percent, plural } from "./words.js";

const COLUMNS = ["Class", "Free", "Largest claim on one node", "Together in the cluster", "Nodes, by devices left"];
const REST = 1500; // milliseconds between questions while devices come and go

export class FitsView {
  title = "What fits";

  constructor(app) {
    this.app = app;
    this.asked = "";
    this.asking = latest(50, (signal) => ask("fits", {}, signal), (answer) => this.#tell(answer), (error) => refill(this.classes, h("p", { class: "problem" }, name(error.message))));
    this.classes = h("div", { class: "classes" }, h("p", { class: "faint" }, "Counting …"));
    this.trial = new TrialForm(app);
    this.element = h("div", { class: "view view-fits" }, h("section", { class: "panel" }, h("h2", {}, "What still fits"), this.classes), this.trial.element);
  }

  show() {
    this.asked = "";
  }

  update() {
    const { store } = this.app;
    this.trial.update();
    const key = `${store.hello.epoch} ${store.version.devices} ${store.version.classes}`;
    const now = performance.now();
    if (!store.ready || key === this.asked) return;
    if (this.asked && now - (this.last ?? -REST) < REST) return this.app.later(REST);
    this.asked = key;
    this.last = now;
    this.asking.ask();
  }

  #tell({ classes, hidden }) {
    if (!classes.length) return refill(this.classes, h("p", { class: "empty" }, "No device classes are defined, or you may not read them."));
    refill(this.classes,
      hidden ? h("p", { class: "notice" }, "You may not read all claims: what others hold counts as free here.") : null,
      h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "What still fits, by class" }, h("table", {},
        h("caption", { class: "unseen" }, "What still fits, by class"),
        h("thead", {}, h("tr", {}, COLUMNS.map((title, i) => h("th", { scope: "col", class: i && i < 4 ? "right" : null }, title)))),
        h("tbody", {}, classes.map((row) => classRow(row, hidden))))));
  }
}

function classRow(row, hidden) {
  const least = bound(row.exact, hidden);
  const cell = (column, ...content) => h("td", { class: column < 4 ? "right" : null, "data-title": COLUMNS[column] }, h("span", {}, content));
  return h("tr", {},
    h("th", { scope: "row" }, h("a", { href: address("map", { class: row.class }), "data-key": `class ${row.class}` }, name(row.class))),
    cell(1, `${bound(true, hidden)}${number(row.free)} of ${number(row.total)} `, h("span", { class: "note" }, percent(row.free, row.total), row.shared ? `, ${number(row.shared)} in part` : "")),
    cell(2, row.node?.count ? [`${least}${number(row.node.count)} on `, h("a", { href: select("node", row.node.name), "data-key": `node ${row.class}` }, name(row.node.name))] : "none"),
    cell(3, `${least}${number(row.cluster)}`),
    cell(4, histogram(row.spread)));
}

const BAR = 44;
const TALL = 28;
const HEAD = 14; // room for the number above the tallest bar

/** How many nodes have how many devices left: a bar for each number that occurs, the nodes above it, what is left below. */
function histogram(spread) {
  if (!spread.length) return "";
  const most = Math.max(...spread.map(([, nodes]) => nodes));
  const words = spread.map(([count, nodes]) => `${plural(nodes, "node")} with ${number(count)} left`);
  const bars = spread.map(([count, nodes], i) => {
    const height = Math.max(2, (TALL * nodes) / most);
    const top = HEAD + TALL - height;
    const middle = i * BAR + BAR / 2 - 2;
    return svg("g", {}, svg("title", {}, words[i]), svg("text", { x: middle, y: top - 3 }, number(nodes)),
      svg("rect", { x: i * BAR, y: top, width: BAR - 4, height, class: count ? "bar-some" : "bar-none" }),
      svg("text", { x: middle, y: HEAD + TALL + 12, class: "left" }, `${number(count)} left`));
  });
  return svg("svg", { class: "histogram", role: "img", "aria-label": words.join(", "), width: spread.length * BAR, height: HEAD + TALL + 14 }, bars);
}
