/** The form: what to write, the document, the prompt, and the two buttons. */
import { sampleText } from "./api.js";
import { byId } from "./dom.js";
import { counted } from "./format.js";

export class Composer {
  /** `fail(error)` shows what went wrong with a file or the sample. */
  constructor(fail) {
    this.fail = fail;
    for (const radio of document.querySelectorAll("[name=mode]")) radio.addEventListener("change", () => this.#showMode());
    byId("document").addEventListener("input", () => this.#showSize());
    byId("file").addEventListener("change", (event) => this.#open(event.target));
    byId("sample").addEventListener("click", () => this.sample());
    this.#showMode();
    // What is scrolled to has to stop above the composer, where that stays at the bottom.
    const height = () => document.documentElement.style.setProperty("--composer", `${byId("composer").offsetHeight}px`);
    new ResizeObserver(height).observe(byId("composer"));
  }

  get mode() {
    return document.querySelector("[name=mode]:checked").value;
  }

  set mode(value) {
    document.querySelector(`[name=mode][value=${value}]`).checked = true;
    this.#showMode();
  }

  get message() {
    return byId("message").value.trim();
  }

  set message(text) {
    byId("message").value = text;
  }

  get document() {
    return byId("document").value;
  }

  async sample() {
    try {
      this.#put(await sampleText());
    } catch (error) {
      this.fail(error);
    }
  }

  showBusy(busy) {
    const stop = byId("stop");
    if (!busy && document.activeElement === stop) byId("message").focus();
    stop.hidden = !busy;
    byId("send").setAttribute("aria-disabled", String(busy));
  }

  async #open(field) {
    const [file] = field.files;
    if (!file) return;
    this.#put(await file.text());
    field.value = ""; // the same file can be opened again
  }

  #put(text) {
    byId("document").value = text;
    this.#showSize();
  }

  #showSize() {
    const words = this.document.match(/\S+/g)?.length ?? 0;
    byId("document-size").textContent = words ? counted(words, "word") : "";
  }

  #showMode() {
    const chat = this.mode === "chat";
    byId("document-fields").hidden = chat;
    byId("message-label").textContent = chat ? "Message" : "Question";
    byId("message").placeholder = chat ? "Write a message" : "Ask about it, or leave empty to continue it";
  }
}
