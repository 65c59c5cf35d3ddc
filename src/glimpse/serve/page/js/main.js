/** Puts the page together. */
import { Announcer } from "./announce.js";
import { modelList } from "./api.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { byId } from "./dom.js";
import { hideError, showError } from "./errors.js";
import { clearFigures } from "./figures.js";
import { counted } from "./format.js";
import { inspector } from "./inspect.js";
import { bindKeys } from "./keys.js";
import { chatRequest, documentRequest } from "./request.js";
import { Settings } from "./settings.js";
import { themeSwitch } from "./theme.js";

const say = new Announcer(byId("said"), byId("status"));
const settings = new Settings();
const composer = new Composer(fail);
const conversation = new Conversation(say);
const { leave } = inspector(byId("turns"), byId("tip"), (line) => say.tell(line));

function fail(error, retry = null) {
  showError(error, retry);
  if (error.status === 401) settings.askForKey();
}

async function connect() {
  hideError();
  try {
    settings.offer(await modelList(settings.key));
  } catch (error) {
    byId("model").textContent = "not connected";
    fail(error, connect);
  }
}

/** What the form asks for now. Throws an Error of one line where something is missing or out of range. */
function question() {
  const values = settings.read();
  const options = { drafter: values.drafter, compare: settings.compare, key: settings.key };
  const { mode, message, document: text } = composer;
  if (mode === "chat") {
    if (!message) throw new Error("Write a message first.");
    const messages = [...conversation.messages, { role: "user", content: message }];
    return { message, asked: message, request: chatRequest(messages, values), messages, options };
  }
  if (!text.trim()) throw new Error("Paste or open a document first.");
  const note = `document of ${counted(text.match(/\S+/g).length, "word")}`;
  const asked = message || "Continue the document.";
  return { message, asked, note, request: documentRequest(text, message, values), options };
}

async function send() {
  if (conversation.busy) return say.tell("One answer at a time: stop this one first.");
  hideError();
  try {
    if (!settings.model) await connect();
    if (!settings.model) return;
    await answer(question());
  } catch (error) {
    fail(error);
  }
}

async function answer(asked) {
  composer.message = "";
  composer.showBusy(true);
  try {
    const text = await conversation.ask(asked);
    if (asked.messages) conversation.messages = [...asked.messages, { role: "assistant", content: text }];
  } catch (error) {
    if (!composer.message) composer.message = asked.message; // to be sent again, unless another was begun
    throw error;
  } finally {
    composer.showBusy(false);
  }
}

function restart() {
  if (conversation.busy) return say.tell("One answer at a time: stop this one first.");
  conversation.clear();
  hideError();
  byId("message").focus();
}

async function example(kind, text) {
  composer.mode = kind;
  if (kind === "document") {
    await composer.sample();
    composer.message = "In two sentences: why is the text the same as without drafts?";
  } else composer.message = text;
  byId("message").focus();
}

themeSwitch(byId("theme"));
clearFigures();
byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("stop").addEventListener("click", () => conversation.stop());
byId("clear").addEventListener("click", restart);
byId("error-close").addEventListener("click", hideError);
byId("key").addEventListener("change", connect);
for (const chip of document.querySelectorAll(".chip")) {
  chip.addEventListener("click", () => example(chip.dataset.example, chip.textContent));
}
bindKeys({
  prompt: byId("message"),
  others: [byId("document"), byId("options")],
  send,
  stop: () => {
    leave();
    conversation.stop();
  },
});
connect();
