/** What went wrong, as one line at the top of the page. */
import { byId } from "./dom.js";

export function showError(error, retry = null) {
  byId("error-text").textContent = error.message;
  byId("error-retry").hidden = !retry;
  byId("error-retry").onclick = retry;
  byId("error").hidden = false;
  byId("error").scrollIntoView({ block: "nearest" });
}

export function hideError() {
  byId("error").hidden = true;
}
