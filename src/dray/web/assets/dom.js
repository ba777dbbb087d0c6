/**
 * Elements made by calls instead of markup, so that no text of the cluster can ever become an element.
 *
 * Strings become text nodes. Nothing here takes HTML. Left out: a virtual tree; parts that change often keep their elements
 * and write `textContent`.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. `on` holds listeners; other properties are attributes; null and false leave one out. */
export function h(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

function furnish(element, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Write an attribute only where it differs, since writing costs a style calculation. */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : value);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Text of the cluster: its direction stays inside, its whole length is in the title. */
export function name(text) {
  return h("bdi", { class: "name", title: text.length > 24 ? text : null }, text);
}

/** Replace children and keep the focus where it was, found again by `data-key`. */
export function refill(element, ...children) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (key !== undefined) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/** Say something to people who do not see the page. */
export function say(text) {
  setText(document.getElementById("say"), text);
}
