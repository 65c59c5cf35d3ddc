/** The options: read from the form, kept between visits (but for the key), offered as the server offers them. */
import { byId, make } from "./dom.js";
import { remember, remembered } from "./store.js";

const KEPT = ["drafter", "pacer", "temperature", "seed", "max-tokens"];
const LARGEST_SEED = 2 ** 31;

export class Settings {
  constructor() {
    this.model = null;
    const wide = matchMedia("(min-width: 60rem)");
    byId("options").open = wide.matches;
    for (const id of KEPT) byId(id).addEventListener("change", () => this.#keep());
    byId("compare").addEventListener("change", () => this.#keep());
    byId("drafter").addEventListener("change", () => this.#showCompare());
    byId("model-choice").addEventListener("change", (event) => this.#choose(event.target.value));
  }

  /** Offers what `GET /v1/models` listed, and restores what was chosen before, where it is still offered. */
  offer(models) {
    this.models = models;
    byId("model-choice").replaceChildren(...models.map(({ id }) => make("option", { value: id, textContent: id })));
    byId("model-row").hidden = models.length < 2;
    this.#choose(models[0].id);
  }

  get key() {
    return byId("key").value;
  }

  askForKey() {
    byId("key-row").hidden = false;
    byId("options").open = true;
    byId("key").focus();
  }

  get compare() {
    return byId("compare").checked && !byId("compare").disabled;
  }

  /** The values, null where the server is to choose. Throws an Error of one line that names a field out of range. */
  read() {
    const number = (id, name, low, high, whole) => inRange(byId(id), name, low, high, whole);
    const seed = number("seed", "Seed", 0, Number.MAX_SAFE_INTEGER, true);
    return {
      model: this.model,
      drafter: byId("drafter").value || null,
      pacer: byId("pacer").value || null,
      temperature: number("temperature", "Temperature", 0, 2, false),
      // Compared runs have to draw the same.
      seed: seed === null && this.compare ? Math.floor(Math.random() * LARGEST_SEED) : seed,
      maxTokens: number("max-tokens", "Max tokens", 1, Number.MAX_SAFE_INTEGER, true),
      system: byId("system").value.trim() || null,
    };
  }

  #choose(id) {
    this.model = id;
    const { drafters, pacers, drafter, max_context: room } = this.models.find((one) => one.id === id).glimpse ?? {};
    offerNames(byId("drafter"), drafters);
    offerNames(byId("pacer"), pacers);
    byId("drafter").options[0].textContent = drafter ? `${drafter} (default)` : "server’s choice";
    const more = make("span", { className: "room", textContent: room ? ` · context ${room.toLocaleString("en")}` : "" });
    byId("model").replaceChildren(id, more);
    this.#restore();
  }

  #restore() {
    const kept = remembered("options", {});
    for (const name of KEPT) {
      const field = byId(name);
      if (!(name in kept)) continue;
      if (field.tagName !== "SELECT" || [...field.options].some(({ value }) => value === kept[name])) field.value = kept[name];
    }
    byId("compare").checked = kept.compare ?? false;
    this.#showCompare();
  }

  #showCompare() {
    byId("compare").disabled = byId("drafter").value === "none"; // that is plain decoding already
  }

  #keep() {
    const values = Object.fromEntries(KEPT.map((name) => [name, byId(name).value]));
    remember("options", { ...values, compare: byId("compare").checked });
  }
}

function offerNames(select, names = []) {
  select.replaceChildren(select.options[0], ...names.map((name) => make("option", { value: name, textContent: name })));
  select.value = "";
}

function inRange(field, name, low, high, whole) {
  if (field.value === "" && !field.validity.badInput) return null;
  const value = field.valueAsNumber;
  if (value >= low && value <= high && (!whole || Number.isInteger(value))) return value;
  const limits = high === Number.MAX_SAFE_INTEGER ? `at least ${low}` : `from ${low} to ${high}`;
  throw new RangeError(`${name} must be a ${whole ? "whole " : ""}number ${limits}.`);
}
