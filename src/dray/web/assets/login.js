/** The form that lets people in: a token of the API, or the one-time code that the command printed. */

import { h, name, refill } from "./dom.js";
import { signIn } from "./server.js";

/** A code may be pasted with the address that it was printed in. */
const codeOf = (text) => /code=([^&\s]+)/.exec(text)?.[1] ?? text.trim();

export class Login {
  constructor(entered) {
    this.entered = entered;
    this.why = h("p");
    this.problem = h("p", { class: "problem", role: "alert" });
    this.code = h("input", { id: "code", autocomplete: "one-time-code", spellcheck: "false" });
    this.token = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false" });
    this.namespace = h("input", { id: "namespace", autocomplete: "off", placeholder: "default" });
    const field = (label, control) => h("label", { for: control.id }, h("span", {}, label), control);
    this.element = h("section", { class: "panel login", "aria-labelledby": "login-title" }, h("h1", { id: "login-title" }, "Sign in"), this.why,
      h("form", { on: { submit: (event) => this.#send(event) } },
        h("p", { class: "faint" }, "Where the dashboard was started, press Enter: it prints a new address with a code. Open that address, or paste it here."),
        field("Code or address", this.code),
        h("p", { class: "faint" }, "Or paste a bearer token of the API. It is sent once and kept sealed in a cookie that scripts cannot read."),
        field("Token", this.token), field("Namespace, where the token may not read all", this.namespace),
        this.problem, h("button", { type: "submit", class: "main" }, "Sign in")));
  }

  open(why) {
    this.why.textContent = why;
    refill(this.problem);
  }

  async #send(event) {
    event.preventDefault();
    const code = codeOf(this.code.value);
    const token = this.token.value.trim();
    if (!code && !token) return refill(this.problem, "Give a code or a token.");
    try {
      await signIn(code ? { code } : { token, namespace: this.namespace.value.trim() });
      this.code.value = this.token.value = "";
      this.entered();
    } catch (error) {
      refill(this.problem, name(error.message));
    }
  }
}
