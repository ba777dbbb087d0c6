/**
 * A table of many rows, a page at a time: real cells, so that it can be read aloud, copied and printed.
 *
 * Its elements stay while their text changes, so the focus stays, too. A column is `{title, cell(row)}`, where a cell is a
 * string or `{text, href, title, swatch, note, number}`. Left out: sorting and filtering, which the owner of the rows does.
 */

import { h, setAttribute, setText } from "./dom.js";
import { number } from "./words.js";

const PAGE = 100;

export class PagedTable {
  constructor({ caption, columns, empty = "Nothing to show.", selected = () => false, page = PAGE }) {
    Object.assign(this, { columns, selected, perPage: page, first: 0, rows: [] });
    const heads = columns.map(({ title, right }) => h("th", { scope: "col", class: right ? "right" : null }, title));
    this.caption = h("caption", { class: "unseen" }, caption);
    this.body = h("tbody");
    this.empty = h("p", { class: "empty", hidden: true }, empty);
    this.range = h("span", { class: "range", role: "status" });
    this.back = h("button", { type: "button", on: { click: () => this.turn(-1) } }, "Previous");
    this.next = h("button", { type: "button", on: { click: () => this.turn(1) } }, "Next");
    this.pager = h("div", { class: "pager" }, this.back, this.range, this.next);
    this.scroller = h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": caption },
      h("table", {}, this.caption, h("thead", {}, h("tr", {}, heads)), this.body));
    this.element = h("div", { class: "paged" }, this.scroller, this.empty, this.pager);
  }

  turn(by) {
    this.first = Math.max(0, this.first + by * this.perPage);
    this.scroller.scrollTop = 0;
    this.fill(this.rows);
  }

  /** Show these rows; the page stays where it is. */
  fill(rows) {
    this.rows = rows;
    if (this.first >= rows.length) this.first = Math.max(0, Math.floor((rows.length - 1) / this.perPage) * this.perPage);
    const shown = rows.slice(this.first, this.first + this.perPage);
    while (this.body.rows.length > shown.length) this.body.lastChild.remove();
    while (this.body.rows.length < shown.length) this.body.append(this.#emptyRow());
    shown.forEach((row, i) => this.#fillRow(this.body.rows[i], row));
    this.#fillPager(rows.length, shown.length);
  }

  #emptyRow() {
    return h("tr", {}, this.columns.map(({ right }, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: right ? "right" : null })));
  }

  #fillRow(element, row) {
    const chosen = this.selected(row);
    element.classList.toggle("chosen", chosen);
    this.columns.forEach((column, i) => fillCell(element.cells[i], column.cell(row), chosen && i === 0));
  }

  #fillPager(all, shown) {
    setAttribute(this.empty, "hidden", all > 0);
    setAttribute(this.scroller, "hidden", all === 0);
    setAttribute(this.pager, "hidden", all <= this.perPage);
    setAttribute(this.back, "disabled", this.first === 0);
    setAttribute(this.next, "disabled", this.first + shown >= all);
    setText(this.range, `${number(this.first + 1)} to ${number(this.first + shown)} of ${number(all)}`);
  }
}

function fillCell(element, cell, chosen) {
  const { text, href = null, title = null, look = null, note = "" } = typeof cell === "object" && cell ? cell : { text: cell };
  const kind = href ? "A" : "BDI";
  let inner = element.querySelector("a, bdi");
  if (!inner || inner.tagName !== kind) {
    inner = href ? h("a", {}, h("bdi")) : h("bdi");
    element.replaceChildren(inner);
  }
  const label = href ? inner.firstChild : inner;
  setText(label, String(text ?? ""));
  if (href) {
    setAttribute(inner, "href", href);
    setAttribute(inner, "aria-current", chosen ? "true" : null);
  }
  setAttribute(element, "title", title ?? (String(text ?? "").length > 30 ? text : null));
  setAttribute(element, "data-look", look);
  setNote(element, note);
}

function setNote(element, note) {
  let found = element.querySelector(".note");
  if (!note) return found?.remove();
  if (!found) element.append((found = h("span", { class: "note" })));
  setText(found, note);
}
